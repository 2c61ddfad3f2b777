#include "sftbench/measure/system_sampler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "sftbench/base/clock.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// Counts its readings and what the machine did between them.
class CountingSource : public SystemSource {
 public:
  SystemReading read() override {
    SystemReading reading;
    reading.time_s = steady_seconds();
    reading.cpu_seconds = ++readings;
    return reading;
  }
  std::atomic<int> readings = 0;
};

TEST(SystemSamplerTest, TakesOneSampleAtTheStartAndOneAtTheEnd) {
  CountingSource source;
  SystemSampler sampler(source, 1000);
  sampler.on_train_begin({});
  sampler.on_train_end({});
  ASSERT_EQ(sampler.samples().size(), 2u);
  EXPECT_LE(sampler.samples()[0].time_s, sampler.samples()[1].time_s);
}

TEST(SystemSamplerTest, SamplesEachPeriodWithoutDrift) {
  CountingSource source;
  SystemSampler sampler(source, 0.02);
  const double begin_s = steady_seconds();
  sampler.on_train_begin({});
  while (source.readings < 11) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const double tenth_s = sampler.samples().at(10).time_s - begin_s;
  sampler.on_train_end({});
  EXPECT_GE(tenth_s, 10 * 0.02);  // never early; late only as far as the machine is busy
  for (size_t i = 1; i < sampler.samples().size(); ++i) {
    EXPECT_GE(sampler.samples()[i].time_s, sampler.samples()[i - 1].time_s);
  }
}

TEST(SystemSamplerTest, APeriodOfNoTimeIsABug) {
  CountingSource source;
  EXPECT_THROW(SystemSampler(source, 0), std::logic_error);
}

TEST(SystemSamplerTest, ASampleCanBeTakenInBetween) {
  CountingSource source;
  SystemSampler sampler(source, 1000);
  sampler.on_train_begin({});
  sampler.sample_now();
  sampler.on_train_end({});
  EXPECT_EQ(sampler.samples().size(), 3u);
}

TEST(SystemSamplerTest, EndsItsThreadWhenTheRunFails) {
  CountingSource source;
  {
    SystemSampler sampler(source, 0.001);
    sampler.on_train_begin({});
    while (source.readings < 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const int readings = source.readings;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(source.readings, readings);
}

TEST(SystemSamplerTest, ASampleOfThisMachineCostsLittle) {
  const auto source = make_system_source(nullptr, 0);
  source->read();
  const double cpu_begin = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  for (int i = 0; i < 100; ++i) source->read();
  const double per_sample_s =
      (static_cast<double>(std::clock()) / CLOCKS_PER_SEC - cpu_begin) / 100;
  EXPECT_LT(per_sample_s, 0.005);  // at the default period of 1 s: half a percent of one core
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
