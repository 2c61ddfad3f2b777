#include "sftbench/catalog/gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "catalog_files.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

const GpuCatalog& shipped() {
  return Catalog::shipped().gpus;
}

TEST(GpuCatalogTest, HasEveryProductOfTheDocuments) {
  for (const char* name : {"NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe", "NVIDIA-H100-PCIe",
                           "NVIDIA-H100-80GB-HBM3", "Tesla-T4", "L40S", "Tesla-V100-PCIE-16GB"}) {
    const GpuFacts* gpu = shipped().find(name);
    ASSERT_NE(gpu, nullptr) << name;
    EXPECT_EQ(gpu->name, name);
  }
}

TEST(GpuCatalogTest, SaysWhichGpusCuda13BuildsNoCodeFor) {
  for (const char* name : {"V100-16G", "Tesla-V100-PCIE-16GB", "Tesla-P100-PCIE-16GB"})
    EXPECT_THAT(shipped().find(name)->obstacle(), testing::HasSubstr("a build with CUDA 12"));
  for (const char* name : {"T4", "A100-80G", "L40S", "H100", "B200"})
    EXPECT_EQ(shipped().find(name)->obstacle(), "") << name;
}

TEST(GpuCatalogTest, FindsNvmlSpellingsAndShortNames) {
  const std::pair<const char*, const char*> kSpellings[] = {
      {"NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3"},
      {"NVIDIA A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB"},
      {"NVIDIA A100 80GB PCIe", "NVIDIA-A100-80GB-PCIe"},
      {"NVIDIA L40S", "L40S"},
      {"Tesla V100-PCIE-16GB", "Tesla-V100-PCIE-16GB"},
      {"NVIDIA H200", "NVIDIA-H200"},
      {"NVIDIA L4", "NVIDIA-L4"},
      {"NVIDIA A10G", "NVIDIA-A10G"},
      {"A100-80G", "NVIDIA-A100-SXM4-80GB"},
      {"A100-40G", "NVIDIA-A100-SXM4-40GB"},
      {"H100", "NVIDIA-H100-80GB-HBM3"},
      {"H100-PCIe", "NVIDIA-H100-PCIe"},
      {"H100 NVL", "NVIDIA-H100-NVL"},
      {"H200", "NVIDIA-H200"},
      {"B200", "NVIDIA-B200"},
      {"T4", "Tesla-T4"},
      {"V100-32G", "Tesla-V100-SXM2-32GB"},
      {"NVIDIA GeForce RTX 4090", "NVIDIA-GeForce-RTX-4090"},
      {"rtx 3090", "NVIDIA-GeForce-RTX-3090"},
      {"4090", "NVIDIA-GeForce-RTX-4090"},
      {"RTX 4060 Ti", "NVIDIA-GeForce-RTX-4060-Ti-16GB"},
      {"NVIDIA RTX A6000", "NVIDIA-RTX-A6000"},
      {"RTX 6000 Ada", "NVIDIA-RTX-6000-Ada-Generation"},
      {"NVIDIA GH200 480GB", "NVIDIA-GH200-480GB"},
      {"NVIDIA B300 SXM6 AC", "NVIDIA-B300"},
      {"MI300X", "AMD-Instinct-MI300X"}};
  for (const auto& [nvml, name] : kSpellings) {
    const GpuFacts* gpu = shipped().find(nvml);
    ASSERT_NE(gpu, nullptr) << nvml;
    EXPECT_EQ(gpu->name, name);
  }
  EXPECT_EQ(shipped().find("NVIDIA GeForce RTX 9090"), nullptr);
}

TEST(GpuCatalogTest, NoSpellingMeansTwoProducts) {
  for (const GpuFacts& gpu : shipped().gpus()) {
    for (const std::string& alias : gpu.aliases) EXPECT_EQ(shipped().find(alias), &gpu) << alias;
  }
}

TEST(GpuCatalogTest, PeaksAreDenseAndInFlopsPerSecond) {
  EXPECT_EQ(shipped().find("NVIDIA-A100-SXM4-80GB")->peak_flops("bfloat16"), 312e12);
  EXPECT_EQ(shipped().find("NVIDIA-H100-80GB-HBM3")->peak_flops("bfloat16"), 989.4e12);
  EXPECT_EQ(shipped().find("Tesla-T4")->peak_flops("bfloat16"), std::nullopt);
  EXPECT_EQ(shipped().find("Tesla-T4")->memory_bytes, int64_t{16} << 30);
  EXPECT_EQ(shipped().find("NVIDIA-A100-SXM4-80GB")->memory_bandwidth_bytes_per_s, 2039e9);
}

TEST(GpuCatalogTest, EveryProductHasASourceAndPlausibleFigures) {
  for (const GpuFacts& gpu : shipped().gpus()) {
    EXPECT_FALSE(gpu.source.empty()) << gpu.name;
    ASSERT_TRUE(gpu.peak_flops("float32").has_value()) << gpu.name;
    ASSERT_TRUE(gpu.peak_flops("float16").has_value()) << gpu.name;
    EXPECT_GE(*gpu.peak_flops("float16"), *gpu.peak_flops("float32")) << gpu.name;
    EXPECT_GE(gpu.memory_bytes, int64_t{8} << 30) << gpu.name;
    ASSERT_TRUE(gpu.board_power_watts.has_value()) << gpu.name;
    EXPECT_GE(*gpu.board_power_watts, 60) << gpu.name;
    EXPECT_LE(*gpu.board_power_watts, 1400) << gpu.name;
    EXPECT_GT(gpu.memory_bandwidth_bytes_per_s, 1e11) << gpu.name;
  }
}

// A multiprocessor of these architectures has 128 float32 units. Its tensor cores multiply four
// times as fast in 16 bits, and twice where they add up in float32 on GeForce boards (NVIDIA's
// white papers of GA102, Ada and RTX Blackwell).
TEST(GpuCatalogTest, GeForceBoardsHaveTheRatesOfTraining) {
  int boards = 0;
  for (const GpuFacts& gpu : shipped().gpus()) {
    if (gpu.name.find("GeForce") == std::string::npos || gpu.architecture == "Turing") continue;
    ++boards;
    const double plain = *gpu.peak_flops("float32");
    EXPECT_NEAR(*gpu.peak_flops("bfloat16"), 2 * plain, 1e10) << gpu.name;
    EXPECT_EQ(*gpu.peak_flops("float16"), *gpu.peak_flops("bfloat16")) << gpu.name;
    EXPECT_EQ(*gpu.peak_flops("tf32"), plain) << gpu.name;
    const double clock = plain / 256 / static_cast<double>(gpu.multiprocessors);
    EXPECT_GT(clock, 1.6e9) << gpu.name;
    EXPECT_LT(clock, 2.7e9) << gpu.name;
  }
  EXPECT_EQ(boards, 23);
}

TEST(GpuCatalogTest, ProgramsGetWhatCudaReportsWhereThatIsKnown) {
  EXPECT_EQ(shipped().find("Tesla-V100-SXM2-16GB")->memory_of_programs(), int64_t{16} << 30);
  EXPECT_EQ(shipped().find("L4")->memory_bytes, int64_t{24} << 30);
  EXPECT_NEAR(static_cast<double>(shipped().find("L4")->memory_of_programs()) / (1 << 30), 22.03,
              1e-6);
  EXPECT_EQ(shipped().find("A10")->memory_of_programs(),
            shipped().find("L4")->memory_of_programs());
  EXPECT_EQ(shipped().find("A2")->memory_of_programs(), shipped().find("T4")->memory_of_programs());
  for (const GpuFacts& gpu : shipped().gpus()) {
    if (!gpu.usable_memory_bytes) continue;
    const double share =
        static_cast<double>(*gpu.usable_memory_bytes) / static_cast<double>(gpu.memory_bytes);
    EXPECT_GT(share, 0.9) << gpu.name;
    EXPECT_LE(share, 0.995) << gpu.name;
  }
}

TEST(GpuCatalogTest, MoreUsableMemoryThanTheBoardHasIsAnError) {
  EXPECT_EQ(catalog_error<GpuCatalog>(R"(gpus:
  - {name: A, architecture: x, compute_capability: 1, peak_tflops: {}, memory_bandwidth_gb_per_s: 1, memory_gib: 1, usable_memory_gib: 1.1, source: s}
  - {name: B, architecture: x, compute_capability: 1, peak_tflops: {}, memory_bandwidth_gb_per_s: 1, memory_gib: 1, usable_memory_gib: 0, source: s}
)"),
            "FILE:2: gpus[0].usable_memory_gib: found 1.1; expected a number above 0, at most "
            "memory_gib\n"
            "FILE:3: gpus[1].usable_memory_gib: found 0; expected a number above 0, at most "
            "memory_gib");
}

TEST(GpuCatalogTest, AllOfTheBoardsMemoryMayBeUsable) {
  EXPECT_EQ(catalog_error<GpuCatalog>(R"(gpus:
  - {name: A, architecture: x, compute_capability: 1, peak_tflops: {}, memory_bandwidth_gb_per_s: 1, memory_gib: 2, usable_memory_gib: 2.0, source: s}
)"),
            "no error");
}

TEST(GpuCatalogTest, AComputeCapabilityIsANumber) {
  const auto error = [](const std::string& capability) {
    return catalog_error<GpuCatalog>(
        "gpus:\n  - {name: A, architecture: x, compute_capability: '" + capability +
        "', peak_tflops: {}, memory_bandwidth_gb_per_s: 1, memory_gib: 2, source: s}\n");
  };
  for (const char* capability : {"9", "9.0", "12.1"}) EXPECT_EQ(error(capability), "no error");
  for (const char* capability : {".5", "9.", ".", "9a", "sm_90", "-1"}) {
    EXPECT_EQ(error(capability), std::string("FILE:2: gpus[0].compute_capability: found ") +
                                     capability + "; expected a number such as \"9.0\"");
  }
}

TEST(GpuCatalogTest, ListsAllThatIsWrongWithAFile) {
  EXPECT_EQ(
      catalog_error<GpuCatalog>(R"(gpus:
  - {name: A, architecture: x, compute_capability: 1, peak_tflops: {float32: fast}, memory_bandwidth_gb_per_s: 1, memory_gib: 1, source: s}
  - {name: a, architecture: x, compute_capability: 1, peak_tflops: {}, memory_bandwidth_gb_per_s: 1, memory_gb: 1, source: s}
)"),
      "FILE:2: gpus[0].peak_tflops.float32: found 'fast'; expected a number\n"
      "FILE:3: gpus[1].memory_gib: missing\n"
      "FILE:3: gpus[1].memory_gb: unknown key; expected one of name, aliases, architecture, "
      "compute_capability, "
      "peak_tflops, memory_bandwidth_gb_per_s, memory_gib, usable_memory_gib, multiprocessors, "
      "board_power_watts, "
      "source, note; "
      "did you mean "
      "'memory_gib'?\n"
      "FILE:3: a: listed twice");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
