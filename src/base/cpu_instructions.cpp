#include "sftbench/base/cpu_instructions.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
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
constexpr std::array<Names, 5> kNames = {{
    {"baseline", "SSE41", "Prescott", "SSE4_2", "default"},
    {"avx2", "AVX2", "Haswell", "AVX2", "avx2"},
    {"avx512", "AVX512_CORE", "SkylakeX", "AVX512", "avx2"},
    {"avx512_bf16", "AVX512_CORE_BF16", "Cooperlake", "AVX512", "avx2"},
    {"amx", "AVX512_CORE_AMX", "SapphireRapids", "AVX512", "avx2"},
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

// The state components that the kernel keeps between tasks, by number (Intel SDM, XCR0).
__attribute__((target("xsave"))) uint64_t kept_state() {
  return __builtin_ia32_xgetbv(0);
}

bool processor_multiplies_tiles() {
  constexpr unsigned kOsKeepsState = 1U << 27;                    // leaf 1, ecx: OSXSAVE
  constexpr unsigned kTilesOfBfloat16 = (1U << 24) | (1U << 22);  // leaf 7, edx: TILE, BF16
  constexpr uint64_t kTileState = (1U << 17) | (1U << 18);        // XTILECFG, XTILEDATA
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kOsKeepsState) == 0) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return (edx & kTilesOfBfloat16) == kTilesOfBfloat16 && (kept_state() & kTileState) == kTileState;
}

// Linux keeps tiles for processes that ask (Documentation/arch/x86/xstate.rst), for all their
// threads.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
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
  if (avx512 && __builtin_cpu_supports("avx512bf16")) {
    const bool tiles = processor_multiplies_tiles() && may_use_tiles();
    return tiles ? CpuInstructions::kAmx : CpuInstructions::kAvx512Bf16;
  }
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
