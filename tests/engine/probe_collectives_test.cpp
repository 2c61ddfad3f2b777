// What doctor --probe finds of exchanges has the members that predictions read
// (advise/probed_machine.cpp).
#include <gtest/gtest.h>

#include "engine/probe.h"
#include "parallel/gloo_communicator.h"
#include "sftbench/base/torch.h"
#include "test_device.h"

namespace sftbench {
namespace SFTBENCH_FILE {

void expect_link(const Json& link) {
  EXPECT_GT(link.at("latency_s").get<double>(), 0);
  EXPECT_LT(link.at("latency_s").get<double>(), 1);
  EXPECT_GT(link.at("bytes_per_s").get<double>(), 1e6);
}

TEST(ProbeCollectives, TimesEachExchangeAloneAndBesideComputation) {
  if (test_device().is_cuda()) GTEST_SKIP() << "the probe is of processors";
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  // Its ranks are forked, and threads that an earlier test has started are not there in them.
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Json found = probe_collectives();
  at::set_num_threads(threads);
  ASSERT_FALSE(found.contains("problem")) << found.dump();
  EXPECT_EQ(found.at("ranks"), 2);
  for (const Json& exchange : {found.at("all_gather"), found.at("reduce_scatter").at("bfloat16"),
                               found.at("reduce_scatter").at("float32")}) {
    expect_link(exchange.at("idle"));
    expect_link(exchange.at("busy"));
    EXPECT_GE(exchange.at("busy").at("latency_s"), exchange.at("idle").at("latency_s"));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
