# shellcheck shell=bash
# To be sourced: limits oneDNN, OpenBLAS, MKL and libtorch to the instructions that SFTBENCH_ISA asks for, as the
# program itself does (base/cpu_instructions.h). Test binaries load these libraries before they could.
case ${SFTBENCH_ISA:-} in
  baseline) limits=(SSE41 Prescott SSE4_2 default) ;;
  avx2) limits=(AVX2 Haswell AVX2 avx2) ;;
  avx512) limits=(AVX512_CORE SkylakeX AVX512 avx2) ;;
  avx512_bf16) limits=(AVX512_CORE_BF16 Cooperlake AVX512 avx2) ;;
  amx) limits=(AVX512_CORE_AMX SapphireRapids AVX512 avx2) ;;
  *) limits=() ;;
esac
if [ ${#limits[@]} -gt 0 ]; then
  export SFTBENCH_ISA
  export ONEDNN_MAX_CPU_ISA=${ONEDNN_MAX_CPU_ISA:-${limits[0]}} OPENBLAS_CORETYPE=${OPENBLAS_CORETYPE:-${limits[1]}}
  export MKL_ENABLE_INSTRUCTIONS=${MKL_ENABLE_INSTRUCTIONS:-${limits[2]}} ATEN_CPU_CAPABILITY=${ATEN_CPU_CAPABILITY:-${limits[3]}}
fi
