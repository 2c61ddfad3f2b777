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
      {"V100-32G", "Tesla-V100-SXM2-32GB"}};
  for (const auto& [nvml, name] : kSpellings) {
    const GpuFacts* gpu = shipped().find(nvml);
    ASSERT_NE(gpu, nullptr) << nvml;
    EXPECT_EQ(gpu->name, name);
  }
  EXPECT_EQ(shipped().find("NVIDIA GeForce RTX 4090"), nullptr);
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
  EXPECT_FALSE(shipped().find("Tesla-T4")->price_usd_per_hour.has_value());
}

TEST(GpuCatalogTest, EveryProductHasASourceAndPlausibleFigures) {
  for (const GpuFacts& gpu : shipped().gpus()) {
    EXPECT_FALSE(gpu.source.empty()) << gpu.name;
    ASSERT_TRUE(gpu.peak_flops("float32").has_value()) << gpu.name;
    ASSERT_TRUE(gpu.peak_flops("float16").has_value()) << gpu.name;
    EXPECT_GE(*gpu.peak_flops("float16"), *gpu.peak_flops("float32")) << gpu.name;
    EXPECT_GT(gpu.memory_bytes, int64_t{8} << 30) << gpu.name;
    ASSERT_TRUE(gpu.board_power_watts.has_value()) << gpu.name;
    EXPECT_GE(*gpu.board_power_watts, 70) << gpu.name;
    EXPECT_LE(*gpu.board_power_watts, 1000) << gpu.name;
    EXPECT_GT(gpu.memory_bandwidth_bytes_per_s, 1e11) << gpu.name;
  }
}

TEST(GpuCatalogTest, ListsAllThatIsWrongWithAFile) {
  EXPECT_EQ(catalog_error<GpuCatalog>(R"(gpus:
  - {name: A, architecture: x, compute_capability: 1, peak_tflops: {float32: fast}, memory_bandwidth_gb_per_s: 1, memory_gib: 1, source: s}
  - {name: a, architecture: x, compute_capability: 1, peak_tflops: {}, memory_bandwidth_gb_per_s: 1, memory_gb: 1, source: s}
)"),
            "FILE:2: gpus[0].peak_tflops.float32: found 'fast'; expected a number\n"
            "FILE:3: gpus[1].memory_gib: missing\n"
            "FILE:3: gpus[1].memory_gb: unknown key; expected one of name, aliases, architecture, "
            "compute_capability, "
            "peak_tflops, memory_bandwidth_gb_per_s, memory_gib, multiprocessors, "
            "board_power_watts, price_usd_per_hour, "
            "source, note; "
            "did you mean "
            "'memory_gib'?\n"
            "FILE:3: a: listed twice");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
