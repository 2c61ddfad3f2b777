#include "sftbench/launch/memory_preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;
using testing::Not;

constexpr double kGiB = 1 << 30;
// Of llama3.1-8b: parameters, gradients and AdamW's two moments in bfloat16, 2 bytes each.
constexpr double kParameters = 8030261248;

TrainingJob llama(const std::string& kind = "cpu", int64_t ranks = 1) {
  TrainingJob job;
  job.model.name = "llama3.1-8b";
  job.model.hf_config = Catalog::shipped().models.find("llama3.1-8b")->hf_config;
  job.data.model_max_length = 512;
  job.device.kind = kind;
  job.device.ranks = ranks;
  return job;
}

MemoryRoom host(double gib) {
  MemoryRoom room;
  room.host.bytes = static_cast<int64_t>(gib * kGiB);
  return room;
}

MemoryRoom gpus(std::vector<double> gib) {
  MemoryRoom room = host(1);  // the host's does not bear on tensors of GPUs
  for (const double each : gib) room.gpu_bytes.push_back(each * kGiB);
  return room;
}

std::string warning(const TrainingJob& job, const MemoryRoom& room) {
  return memory_warning(job, room).value_or("none");
}

TEST(MemoryPreflightTest, SaysWhatIsNeededWhatIsThereAndWhatNeedsLess) {
  const std::string text = warning(llama(), host(24));
  EXPECT_THAT(text, HasSubstr("llama3.1-8b needs at least about 59.8 GiB of host memory"));
  EXPECT_THAT(text, HasSubstr("weights 15.0 GiB, gradients 15.0 GiB, optimizer state 29.9 GiB"));
  EXPECT_THAT(text, HasSubstr("24.0 GiB are available"));
  EXPECT_THAT(text, HasSubstr("likely to end as OOM_HOST"));
  EXPECT_THAT(text, HasSubstr("LoRA"));
  EXPECT_THAT(text, HasSubstr("a smaller model"));
}

TEST(MemoryPreflightTest, WarnsOfNothingThatCouldFit) {
  const double least = 8 * kParameters / kGiB;
  EXPECT_EQ(warning(llama(), host(least + 0.001)), "none");
  EXPECT_NE(warning(llama(), host(least - 0.001)), "none");
}

TEST(MemoryPreflightTest, EveryOptimizerKeepsWhatItsNameSays) {
  TrainingJob job = llama();
  // Updates in the backward: neither gradients nor state.
  job.optimizer.kind = OptimizerKind::kLomo;
  EXPECT_EQ(warning(job, host(16)), "none");
  EXPECT_THAT(warning(job, host(14)), HasSubstr("at least about 15.9 GiB"));
  // Of 7,504,924,672 elements two codes and two scales for each 256, of the embedding's 525,336,576
  // two float32 states: 19,447,070,848 bytes.
  job.optimizer.kind = OptimizerKind::kAdamwBnb8bit;
  EXPECT_THAT(warning(job, host(14)), HasSubstr("gradients 15.0 GiB, optimizer state 18.1 GiB"));
  // One of each: 9,723,535,424 bytes. CPUs page nothing.
  job.optimizer.kind = OptimizerKind::kPagedLion8bit;
  EXPECT_THAT(warning(job, host(14)), HasSubstr("gradients 15.0 GiB, optimizer state 9.06 GiB"));
}

TEST(MemoryPreflightTest, AdaptersAddLittleToFrozenWeights) {
  TrainingJob job = llama();
  job.tuning = TuningMethod::kLora;
  job.lora.target_modules = {"q_proj", "v_proj"};
  EXPECT_EQ(warning(job, host(16)), "none");
  EXPECT_THAT(warning(job, host(14)), Not(HasSubstr("LoRA")));
}

TEST(MemoryPreflightTest, SaysNothingWhereSizesAreNotKnown) {
  TrainingJob job = llama();
  job.model.hf_config["model_type"] = "unheard-of";
  EXPECT_EQ(warning(job, host(1)), "none");
  job = llama();
  EXPECT_EQ(warning(job, MemoryRoom()), "none") << "nor where the machine does not tell";
}

TEST(MemoryPreflightTest, FourBitWeightsAreAQuarter) {
  TrainingJob job = llama();
  job.tuning = TuningMethod::kGptqLora;
  EXPECT_THAT(warning(job, host(1)), HasSubstr("weights 5.33 GiB"))
      << "6.98e9 of 4 bits with groups of 128, and 1.05e9 of embeddings and output in 16";
  EXPECT_EQ(warning(job, host(16)), "none");
}

TEST(MemoryPreflightTest, RanksOnAHostShareItsMemoryAndMayShareTheModel) {
  TrainingJob job = llama("cpu", 4);
  EXPECT_THAT(warning(job, host(200)), HasSubstr("239 GiB of host memory")) << "DDP: four copies";
  EXPECT_THAT(warning(job, host(200)), HasSubstr("FULL_SHARD instead of DDP"));
  job.parallel.strategy = Strategy::kFullShard;
  EXPECT_EQ(warning(job, host(64)), "none");
  job.device.nodes = 2;
  EXPECT_EQ(warning(job, host(32)), "none") << "two of the four are here";
}

TEST(MemoryPreflightTest, AGpuHasItsOwnMemoryAndShardsNeedLessOfIt) {
  TrainingJob job = llama("cuda", 1);
  EXPECT_THAT(warning(job, gpus({40})), HasSubstr("59.8 GiB of memory on a GPU"));
  EXPECT_THAT(warning(job, gpus({40})), HasSubstr("OOM_GPU"));
  EXPECT_THAT(warning(job, gpus({40})), HasSubstr("several GPUs with FSDP"));
  EXPECT_EQ(warning(job, gpus({80})), "none");
  EXPECT_EQ(warning(job, gpus({})), "none") << "no driver: the run says so itself";
  job = llama("cuda", 2);
  job.parallel.strategy = Strategy::kFullShard;
  EXPECT_EQ(warning(job, gpus({40, 40})), "none");
  EXPECT_THAT(warning(job, gpus({40})), HasSubstr("59.8 GiB")) << "two ranks share the one GPU";
}

TEST(MemoryPreflightTest, NamesTheLimitThatIsInTheWay) {
  MemoryRoom room = host(24);
  room.host.limit = "the memory cgroup /jobs/7";
  EXPECT_THAT(warning(llama(), room),
              HasSubstr("24.0 GiB are available (the memory cgroup /jobs/7)"));
  EXPECT_THAT(warning(llama(), room), HasSubstr("a higher limit"));
  room = host(100);
  room.process_bytes = 10 * kGiB;
  EXPECT_THAT(warning(llama(), room), HasSubstr("10.0 GiB are available (ulimit)"));
}

TEST(MemoryPreflightTest, KeepsToASweepsLimit) {
  const int64_t limit = int64_t{1} << 20;
  const MemoryRoom room = memory_room(llama(), nullptr, limit);
  EXPECT_EQ(room.host.bytes, limit);
  EXPECT_EQ(room.host.limit, "--host-memory");
  EXPECT_GT(memory_room(llama(), nullptr).host.bytes, limit);
}

TEST(MemoryPreflightTest, ReadsWhatGpusHaveLeft) {
  setenv("FAKE_NVML_GPUS", "NVIDIA A100-SXM4-80GB;NVIDIA A100-SXM4-80GB", 1);
  unsetenv("CUDA_VISIBLE_DEVICES");
  const auto nvml = Nvml::load(nullptr, SFTBENCH_FAKE_NVML);
  ASSERT_NE(nvml, nullptr);
  const MemoryRoom of_one = memory_room(llama("cuda", 1), nvml.get());
  ASSERT_EQ(of_one.gpu_bytes.size(), 1u);
  EXPECT_GT(of_one.gpu_bytes[0], 0);
  EXPECT_LT(of_one.gpu_bytes[0], static_cast<double>(nvml->gpus()[0].memory_bytes))
      << "some is taken";
  const MemoryRoom of_the_other =
      memory_room(llama("cuda", 1), nvml.get(), 0, {nvml->gpus()[1].uuid});
  EXPECT_EQ(of_the_other.gpu_bytes.size(), 1u);
  EXPECT_TRUE(memory_room(llama("cpu", 1), nvml.get()).gpu_bytes.empty());
  unsetenv("FAKE_NVML_GPUS");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
