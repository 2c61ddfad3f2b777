#include "sftbench/base/cpu_instructions.h"

#include <array>
#include <cstdlib>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr const char* kVariable = "SFTBENCH_ISA";

// An instruction set as each library names it. libtorch itself never uses more than AVX2 unasked.
struct Names {
  const char *own, *onednn, *openblas, *mkl, *libtorch;
};

// By CpuInstructions.
constexpr std::array<Names, 4> kNames = {{
    {"baseline", "SSE41", "Prescott", "SSE4_2", "default"},
    {"avx2", "AVX2", "Haswell", "AVX2", "avx2"},
    {"avx512", "AVX512_CORE", "SkylakeX", "AVX512", "avx2"},
    {"avx512_bf16", "AVX512_CORE_BF16", "Cooperlake", "AVX512", "avx2"},
}};

const Names& names_of(CpuInstructions instructions) {
  return kNames[static_cast<size_t>(instructions)];
}

[[noreturn]] void refuse(const std::string& message, const std::vector<std::string>& expected,
                         const std::string& nearest) {
  Diagnostic diagnostic;
  diagnostic.key = kVariable;
  diagnostic.message = message;
  diagnostic.expected = join(expected);
  diagnostic.nearest = nearest;
  throw InputError(std::vector<Diagnostic>{diagnostic});
}

}  // namespace

std::string_view to_string(CpuInstructions instructions) {
  return names_of(instructions).own;
}

CpuInstructions processor_instructions() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (avx512 && __builtin_cpu_supports("avx512bf16")) return CpuInstructions::kAvx512Bf16;
  if (avx512) return CpuInstructions::kAvx512;
  return avx2 ? CpuInstructions::kAvx2 : CpuInstructions::kBaseline;
}

CpuInstructions choose_instructions(const char* wanted, CpuInstructions processor) {
  if (wanted == nullptr || *wanted == '\0') return processor;
  std::vector<std::string> available;
  for (size_t i = 0; i < kNames.size(); ++i) {
    const auto instructions = static_cast<CpuInstructions>(i);
    const bool has = instructions <= processor;
    if (has) available.emplace_back(kNames[i].own);
    if (wanted != std::string_view(kNames[i].own)) continue;
    if (has) return instructions;
    refuse("this processor lacks the instructions of '" + std::string(wanted) + "'", available, "");
  }
  refuse("unknown instruction set '" + std::string(wanted) + "'", available,
         nearest_spelling(wanted, available));
}

CpuInstructions cpu_instructions() {
  static const CpuInstructions chosen =
      choose_instructions(std::getenv(kVariable), processor_instructions());
  return chosen;
}

void limit_libraries() {
  const char* wanted = std::getenv(kVariable);
  if (wanted == nullptr || *wanted == '\0') return;
  const Names& names = names_of(cpu_instructions());
  constexpr int kKeep = 0;
  ::setenv("ONEDNN_MAX_CPU_ISA", names.onednn, kKeep);
  ::setenv("OPENBLAS_CORETYPE", names.openblas, kKeep);
  ::setenv("MKL_ENABLE_INSTRUCTIONS", names.mkl, kKeep);
  ::setenv("ATEN_CPU_CAPABILITY", names.libtorch, kKeep);
}

}  // namespace sftbench
