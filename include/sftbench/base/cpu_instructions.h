// The instruction set of the processor that CPU kernels use: the best one that it has, or the
// lesser one that SFTBENCH_ISA asks for. Each has kernels of its own in one binary.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sftbench {

// In rising order; each includes the ones before it.
enum class CpuInstructions {
  kBaseline,    // SSE2, any x86-64
  kAvx2,        // with FMA and F16C: Haswell, Zen and later
  kAvx512,      // F, BW, DQ, VL: Skylake server, Zen 4 and later
  kAvx512Bf16,  // bfloat16 products: Cooper Lake, Zen 4 and later
  kAmx,         // bfloat16 products of tiles: Sapphire Rapids and later
};

// "baseline", "avx2", "avx512", "avx512_bf16", "amx": as SFTBENCH_ISA spells them.
std::string_view to_string(CpuInstructions instructions);

// What this processor has, and what the kernel lets this process use: tiles have to be asked for.
CpuInstructions processor_instructions();

// `wanted` as SFTBENCH_ISA gives it, or the processor's where it is null or empty. Throws
// InputError for an unknown name, and for instructions beyond those of the processor.
CpuInstructions choose_instructions(const char* wanted, CpuInstructions processor);

// The choice for this process, from its environment.
CpuInstructions cpu_instructions();

// Limits the libraries below to the instructions that SFTBENCH_ISA asks for: sets the variables of
// oneDNN, OpenBLAS, MKL and libtorch that are not set. They read them when they are loaded, so this
// comes before. Does nothing without SFTBENCH_ISA.
void limit_libraries();

}  // namespace sftbench
