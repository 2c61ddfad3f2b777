#include "sftbench/sweep/machine.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kH100 = "NVIDIA H100 80GB HBM3";
constexpr const char* kA100 = "NVIDIA A100-SXM4-80GB";

std::vector<GpuIdentity> gpus(const std::vector<std::string>& names) {
  std::vector<GpuIdentity> list;
  for (const std::string& name : names) {
    list.push_back({name, "GPU-" + std::to_string(list.size()), int64_t{80} << 30});
  }
  return list;
}

Machine machine(std::vector<int> cores, int64_t jobs, const std::vector<std::string>& names = {}) {
  return Machine(std::move(cores), gpus(names), Catalog::shipped().gpus, jobs);
}

Demand on_gpus(int64_t count, const std::string& model) {
  Demand demand;
  demand.ranks = demand.gpus = count;
  demand.gpu_model = model;
  return demand;
}

Demand on_cpu(int64_t ranks = 1, int64_t threads = 0) {
  Demand demand;
  demand.ranks = ranks;
  demand.threads_per_rank = threads;
  return demand;
}

TEST(MachineTest, JobsDivideTheCoresOfTheAffinityMask) {
  Machine four = machine({2, 3, 6, 7}, 2);
  EXPECT_THAT(four.take(on_cpu()).cores, ElementsAre(2, 3));
  EXPECT_THAT(four.take(on_cpu()).cores, ElementsAre(6, 7));
  EXPECT_FALSE(four.has_room(on_cpu()));
}

TEST(MachineTest, ASharesCoresComeBack) {
  Machine four = machine({0, 1, 2, 3}, 2);
  const Share first = four.take(on_cpu());
  four.take(on_cpu());
  four.give_back(first);
  EXPECT_THAT(four.take(on_cpu()).cores, ElementsAre(0, 1));
}

TEST(MachineTest, MoreJobsThanCoresNeverShareACore) {
  Machine two = machine({0, 1}, 8);
  EXPECT_THAT(two.take(on_cpu()).cores, ElementsAre(0));
  EXPECT_THAT(two.take(on_cpu()).cores, ElementsAre(1));
  EXPECT_FALSE(two.has_room(on_cpu()));
}

TEST(MachineTest, EveryRankHasACore) {
  Machine four = machine({0, 1, 2, 3}, 4);
  EXPECT_THAT(four.take(on_cpu(3)).cores, ElementsAre(0, 1, 2));
  EXPECT_FALSE(four.fits(on_cpu(5)));
}

TEST(MachineTest, AutoGivesACpuMeasurementAllCoresUnlessItNamesThreads) {
  Machine whole = machine({0, 1, 2, 3}, 0);
  EXPECT_THAT(whole.take(on_cpu()).cores, ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(whole.has_room(on_cpu()));

  Machine divided = machine({0, 1, 2, 3}, 0);
  EXPECT_THAT(divided.take(on_cpu(2, 1)).cores, ElementsAre(0, 1));
  EXPECT_TRUE(divided.has_room(on_cpu(1, 2)));
  EXPECT_FALSE(divided.has_room(on_cpu(1, 3)));
}

TEST(MachineTest, GpusAreGivenByModelAndToOneAtATime) {
  Machine mixed = machine({0, 1, 2, 3, 4, 5}, 0, {kA100, kH100, kH100});
  const Share pair = mixed.take(on_gpus(2, "NVIDIA-H100-80GB-HBM3"));
  EXPECT_THAT(pair.gpus, ElementsAre("GPU-1", "GPU-2"));
  EXPECT_FALSE(mixed.has_room(on_gpus(1, "NVIDIA-H100-80GB-HBM3")));
  const Share other = mixed.take(on_gpus(1, "NVIDIA-A100-SXM4-80GB"));
  EXPECT_THAT(other.gpus, ElementsAre("GPU-0"));
  mixed.give_back(pair);
  EXPECT_THAT(mixed.take(on_gpus(1, "NVIDIA-H100-80GB-HBM3")).gpus, ElementsAre("GPU-1"));
}

TEST(MachineTest, EachGpuBringsItsPartOfTheCores) {
  Machine four = machine({0, 1, 2, 3, 4, 5, 6, 7}, 0, {kH100, kH100, kH100, kH100});
  EXPECT_THAT(four.take(on_gpus(1, kH100)).cores, ElementsAre(0, 1));
  EXPECT_THAT(four.take(on_gpus(2, kH100)).cores, ElementsAre(2, 3, 4, 5));
}

TEST(MachineTest, WhatNeverFitsIsKnownBeforehand) {
  const Machine one = machine({0, 1}, 0, {kH100});
  EXPECT_TRUE(one.fits(on_gpus(1, kH100)));
  EXPECT_FALSE(one.fits(on_gpus(2, kH100)));
  EXPECT_FALSE(one.fits(on_gpus(1, kA100)));
  EXPECT_FALSE(one.fits(on_cpu(1, 3)));
  EXPECT_TRUE(one.fits(on_cpu(2, 1)));
}

TEST(MachineTest, SimulatedMeasurementsTakeNothingButAPlace) {
  Machine two = machine({0, 1}, 3);
  Demand simulated = on_gpus(8, kH100);
  simulated.computes = false;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(two.has_room(simulated));
    const Share share = two.take(simulated);
    EXPECT_THAT(share.cores, IsEmpty());
    EXPECT_THAT(share.gpus, IsEmpty());
  }
  EXPECT_FALSE(two.has_room(simulated));
}

TEST(MachineTest, TakingWithoutRoomIsABug) {
  Machine one = machine({0}, 1);
  one.take(on_cpu());
  EXPECT_THROW(one.take(on_cpu()), std::logic_error);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
