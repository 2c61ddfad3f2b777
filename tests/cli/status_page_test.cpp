// sftbench status --watch --page: a page that follows a campaign, as users run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/program.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

class StatusPageTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(testing::UnitTest::GetInstance()->current_test_info()->name());
    write_space("space.yaml", "[64, 128, 256]");
  }

  void write_space(const std::string& name, const std::string& lengths) {
    std::ofstream(folder_ / name)
        << "experiments:\n- {experimentIdentifier: finetune_full_benchmark-v1.0.0, "
           "actuatorIdentifier: SFTTrainer, parameterization: [{property: {identifier: "
           "max_steps}, value: 3}]}\nweights: random\nentitySpace:\n"
           "- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n"
           "- {identifier: gpu_model, propertyDomain: {values: [NVIDIA-H100-PCIe]}}\n"
           "- {identifier: batch_size, propertyDomain: {values: [2]}}\n"
           "- {identifier: number_gpus, propertyDomain: {values: [2]}}\n"
        << "- {identifier: model_max_length, propertyDomain: {values: " << lengths << "}}\n";
  }

  std::vector<std::string> sweep(std::vector<std::string> extra = {}) const {
    extra.insert(extra.begin(), {"sweep", path("space.yaml"), "-o", path("results"), "--worker",
                                 "--backend", "simulate"});
    return extra;
  }

  std::vector<std::string> watch(std::vector<std::string> extra = {}) const {
    extra.insert(extra.begin(), {"status", path("results"), "--watch", "--interval", "0.05",
                                 "--page", path("page.html")});
    return extra;
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  Json sign() const {
    const std::string text = read_file(path("page.live.js"));
    EXPECT_THAT(text, StartsWith("sftbenchSign("));
    return parse_json(text.substr(13, text.size() - 16), "page.live.js");
  }

  fs::path folder_;
};

TEST_F(StatusPageTest, FollowsTheCampaignToItsEndAndSaysSo) {
  Program worker(sweep({"--simulate", "sleep_s=0.05"}));
  worker.start();
  worker.read_err_until("sweep of");
  const ProgramResult result = run_program(watch({path("space.yaml"), "--backend", "simulate"}));
  EXPECT_EQ(worker.finish().status, 0);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("open " + path("page.html") + ": it follows "));
  EXPECT_THAT(result.out, testing::EndsWith("3 of 3 cells have ended (3 valid, 0 invalid, 0 "
                                            "failed) · 0 measured now\n"));
  EXPECT_THAT(read_file(path("page.html")), StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(read_file(path("page.data.js")), StartsWith("sftbenchData(\""));
  const Json last = sign();
  EXPECT_EQ(last.at("ended"), "all cells have ended");
  EXPECT_EQ(last.at("status").at("valid"), 3);
  EXPECT_THAT(last.at("status").at("line"), StartsWith("3 of 3 cells have ended"));
  EXPECT_EQ(last.at("interval_s"), 0.05);
}

TEST_F(StatusPageTest, ASignalEndsItAndThePageLearnsOfIt) {
  ASSERT_EQ(run_program(sweep()).status, 0);
  for (const int signal : {SIGINT, SIGTERM}) {
    fs::remove(path("page.live.js"));
    Program program(watch());
    program.start();
    while (!fs::exists(path("page.live.js"))) ::usleep(10000);
    EXPECT_EQ(sign().at("ended"), "") << "without a space nobody knows when it ends";
    ::kill(program.pid(), signal);
    EXPECT_EQ(program.finish().status, 130);
    EXPECT_EQ(sign().at("ended"), "it was interrupted");
  }
}

TEST_F(StatusPageTest, AFolderThatDisappearsEndsItAndThePageLearnsWhy) {
  ASSERT_EQ(run_program(sweep()).status, 0);
  Program program(watch());
  program.start();
  while (!fs::exists(path("page.live.js"))) ::usleep(10000);
  fs::rename(path("results"), path("elsewhere"));
  EXPECT_EQ(program.finish().status, 2);
  EXPECT_THAT(sign().at("ended"), HasSubstr("results: cannot list"));
}

TEST_F(StatusPageTest, WithASpaceThePageHasItsCellsAlone) {
  ASSERT_EQ(run_program(sweep()).status, 0);
  write_space("smaller.yaml", "[64]");
  const auto data_of = [&](const std::string& space) {
    EXPECT_EQ(run_program(watch({path(space), "--backend", "simulate"})).status, 0);
    return read_file(path("page.data.js")).size();
  };
  const size_t whole = data_of("space.yaml");
  EXPECT_LT(data_of("smaller.yaml"), whole);
  EXPECT_EQ(sign().at("status").at("cells"), 1);
}

TEST_F(StatusPageTest, WhatCannotBeAPageIsRefused) {
  ASSERT_EQ(run_program(sweep()).status, 0);
  const auto error = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"status", path("results")});
    const ProgramResult result = run_program(words);
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(result.out, "");
    return result.err;
  };
  EXPECT_THAT(error({"--page", path("page.html")}),
              HasSubstr("--page: follows a campaign; expected --watch beside it; sftbench report "
                        "--format html writes a page once"));
  EXPECT_FALSE(fs::exists(path("page.html")));
  EXPECT_THAT(error({"--watch", "--page", path("page.js")}),
              HasSubstr("page.js' is no name of a page; expected a file that ends in .html"));
  EXPECT_THAT(error({"--watch", "--page", path("space.yaml") + "/page.html"}),
              HasSubstr("space.yaml"));
  EXPECT_THAT(error({"--watch", "--page", ""}), HasSubstr("--page"));
  EXPECT_EQ(run_program({"status", path("results"), "--page"}).status, 2);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
