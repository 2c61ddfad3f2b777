// `sftbench weights` as a user runs it, against a hub on this machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "cli/program.h"
#include "huggingface/fake_hub.h"
#include "sftbench/base/file.h"
#include "sftbench/huggingface/cache.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class WeightsCommandTest : public testing::Test {
 protected:
  WeightsCommandTest() {
    hub_.models["org/small"] = small_model();
    hub_.models["org/small"].token = "hf_secret";
    write_file_atomic(folder_ / "models.yaml", "tiny:\n  Vanilla: org/small\n");
  }

  std::map<std::string, std::string> environment() const {
    return {{"HF_ENDPOINT", hub_.url()}, {"HF_TOKEN", "hf_secret"}, {"HF_HOME", home_.string()},
            {"HF_TOKEN_PATH", ""},       {"HF_HUB_CACHE", ""},      {"HF_HUB_OFFLINE", ""}};
  }
  ProgramResult weights(std::vector<std::string> words) const {
    words.insert(words.begin(), "weights");
    return run_program(std::move(words), environment(), folder_);
  }

  fs::path folder_ = fresh_folder(testing::UnitTest::GetInstance()->current_test_info()->name());
  fs::path home_ = folder_ / "home";
  FakeHub hub_;
};

TEST_F(WeightsCommandTest, FetchesTheModelsOfAListAndChecksThem) {
  const ProgramResult fetched = weights(
      {"fetch", "-i", "models.yaml", "-o", (folder_ / "my home").string(), "--format", "json"});
  ASSERT_EQ(fetched.status, 0) << fetched.err;
  const Json row = parse_json(fetched.out, "stdout").at(0);
  EXPECT_EQ(row["model"], "tiny");
  EXPECT_EQ(row["hub_id"], "org/small");
  EXPECT_EQ(row["status"], "complete");
  EXPECT_EQ(row["fetched_bytes"], row["bytes"]);
  EXPECT_EQ(row["snapshot"], hub_snapshot(folder_ / "my home" / "hub", "org/small")->string());

  const ProgramResult checked = weights({"check", "-o", "my home", "--format", "csv"});
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("org/small,org/small,3," + row["bytes"].dump() + ",right,"));
}

TEST_F(WeightsCommandTest, TheTokenIsInNoLog) {
  const ProgramResult fetched = weights({"fetch", "org/small", "--log-level", "trace"});
  EXPECT_EQ(fetched.status, 0);
  EXPECT_THAT(fetched.err, HasSubstr("trace: GET " + hub_.url() +
                                     "/api/models/org/small/revision/main: status 200"));
  EXPECT_THAT(fetched.out + fetched.err, Not(HasSubstr("secret")));
}

TEST_F(WeightsCommandTest, WhatCannotBeHadIsExplainedWithStatus4) {
  hub_.models["org/small"].token = "hf_other";
  const ProgramResult fetched = weights({"fetch", "-i", "models.yaml", "tiny"});
  EXPECT_EQ(fetched.status, 4);
  EXPECT_THAT(
      fetched.err,
      HasSubstr("error: tiny: org/small is gated (status 401): accept its terms at " + hub_.url() +
                "/org/small, then the token of HF_TOKEN must be one that may read it"));
  EXPECT_THAT(fetched.out, HasSubstr("incomplete"));
}

TEST_F(WeightsCommandTest, InputErrorsHaveStatus2) {
  EXPECT_EQ(weights({"fetch"}).status, 2);
  EXPECT_THAT(weights({"fetch"}).err,
              HasSubstr("nothing says which models to fetch; expected names of "
                        "`sftbench models`, hub ids, or -i models.yaml"));
  EXPECT_THAT(weights({"fetch", "smollm2-135n"}).err, HasSubstr("did you mean 'smollm2-135m'?"));
  EXPECT_EQ(weights({"fetch", "-i", "models.yaml", "other"}).status, 2);
  EXPECT_EQ(weights({"fetch", "-i", "nowhere.yaml"}).status, 2);
  const ProgramResult empty = weights({"check"});
  EXPECT_EQ(empty.status, 2);
  EXPECT_THAT(empty.err, HasSubstr("no models are in " + (home_ / "hub").string()));
  EXPECT_THAT(weights({"check", "org/small@v1"}).err, HasSubstr("leave out '@v1'"));
  EXPECT_TRUE(hub_.hub().requests().empty());
}

TEST_F(WeightsCommandTest, AnInterruptedFetchIsContinuedByTheSameCommand) {
  hub_.cdn_fault = [this](const ServedRequest&, int nth) {
    ServedReply reply{200, {}, hub_.models["org/small"].files["model.safetensors"].content};
    if (nth == 1) {
      reply.sleep_after_bytes = 100'000;
      reply.sleep_s = 60;
    }
    return std::optional(reply);
  };
  Program program({"weights", "fetch", "org/small", "--log-level", "trace"}, environment(),
                  folder_);
  program.start();
  program.read_err_until("config.json: status 200");
  const fs::path incomplete =
      HubRepository(home_ / "hub", "org/small")
          .incomplete(FakeHub::oid(hub_.models["org/small"].files["model.safetensors"]));
  std::error_code error;
  for (int i = 0; i < 500 && (fs::file_size(incomplete, error) < 100'000 || error); ++i)
    ::usleep(20'000);
  ::kill(program.pid(), SIGINT);
  const ProgramResult interrupted = program.finish();
  EXPECT_EQ(interrupted.status, 130);
  EXPECT_THAT(interrupted.err,
              HasSubstr("org/small: interrupted; the same command goes on from here"));

  const ProgramResult again = weights({"fetch", "org/small"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(hub_.cdn().requests().at(1).header("range"), "bytes=100000-");
}

TEST_F(WeightsCommandTest, SpoiltFilesAreNamedRemovedAndFetchedAgain) {
  ASSERT_EQ(weights({"fetch", "org/small"}).status, 0);
  const fs::path snapshot = *hub_snapshot(home_ / "hub", "org/small");
  const fs::path blob = fs::canonical(snapshot / "model.safetensors");
  std::string content = read_file(blob);
  content[5000] ^= 1;
  write_file_atomic(blob, content);

  const ProgramResult wrong = weights({"check"});
  EXPECT_EQ(wrong.status, 4);
  EXPECT_THAT(wrong.err, HasSubstr("error: org/small: model.safetensors: its hash is "));
  EXPECT_THAT(wrong.err, HasSubstr("--remove takes away the files whose hash is wrong"));
  EXPECT_EQ(weights({"check", "--remove"}).status, 4);
  EXPECT_FALSE(fs::exists(blob));
  EXPECT_EQ(weights({"fetch", "org/small"}).status, 0);
  EXPECT_EQ(weights({"check", "org/small"}).status, 0);
}

// A tiny model that trains, on the hub and nowhere else.
class FetchingRunTest : public WeightsCommandTest {
 protected:
  FetchingRunTest() {
    FakeModel& model = hub_.models["org/tiny"];
    for (const char* source : {"/training/llama", "/training/tokenizer"}) {
      for (const auto& file : fs::directory_iterator(std::string(SFTBENCH_TEST_DATA) + source)) {
        const std::string name = file.path().filename().string();
        model.files[name] = {read_file(file.path()), name == "model.safetensors"};
      }
    }
    write_file_atomic(folder_ / "pairs.jsonl",
                      "{\"input\": \"a word\", \"output\": \"the other word\"}\n");
  }

  ProgramResult measure(std::vector<std::string> words, const char* command = "run") const {
    words.insert(words.begin(), {command,
                                 "--model",
                                 "org/tiny",
                                 "--data",
                                 "pairs.jsonl",
                                 "--input-column",
                                 "input",
                                 "--output-column",
                                 "output",
                                 "--set",
                                 "max_steps=1",
                                 "--set",
                                 "model_max_length=32",
                                 "--set",
                                 "number_gpus=0",
                                 "--threads",
                                 "1",
                                 "--format",
                                 "json",
                                 "-o",
                                 "results"});
    std::map<std::string, std::string> variables = environment();
    variables["SFTBENCH_ENGINE"] = "";
    return run_program(std::move(words), variables, folder_);
  }
};

TEST_F(FetchingRunTest, FetchesAModelOnFirstUseWhenItIsAllowedTo) {
  const ProgramResult refused = measure({});
  EXPECT_EQ(refused.status, 4);
  EXPECT_THAT(refused.err,
              HasSubstr("the weights of org/tiny are not at hand; fetch them: sftbench "
                        "weights fetch org/tiny, or with --fetch; or name"));
  EXPECT_TRUE(hub_.hub().requests().empty()) << "nothing is fetched unasked";
  const ProgramResult dry = measure({"--fetch", "--dry-run"});
  EXPECT_NE(dry.status, 0);
  EXPECT_THAT(dry.out + dry.err, HasSubstr("weights fetch org/tiny; or name"));
  EXPECT_TRUE(hub_.hub().requests().empty()) << "nothing is fetched for a job that is printed";

  const ProgramResult first = measure({"--fetch"});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("not here, so fetched: org/tiny"));
  const Json result = parse_json(first.out, "stdout");
  EXPECT_EQ(result["inputs"]["model_name"], "org/tiny");
  EXPECT_FALSE(result["inputs"].contains("fetch"));
  EXPECT_EQ(weights({"check", "org/tiny"}).status, 0);

  const size_t before = hub_.hub().requests().size();
  const ProgramResult second = measure({"--fetch"});
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_EQ(hub_.hub().requests().size(), before) << "what is here is not asked for";
}

TEST_F(FetchingRunTest, AConfigurationMayAllowItForASweep) {
  write_file_atomic(folder_ / "fetching.yaml", "parameters: {fetch_weights: true}\n");
  const ProgramResult swept =
      measure({"--config", "fetching.yaml", "--set", "batch_size=1,2"}, "sweep");
  ASSERT_EQ(swept.status, 0) << swept.err;
  EXPECT_EQ(hub_.cdn().requests().size(), 1u) << "the weights, once for both cells";
}

TEST_F(FetchingRunTest, AModelThatCannotBeHadIsAFailureThatSaysWhy) {
  hub_.models["org/tiny"].token = "hf_other";
  const ProgramResult run = measure({"--fetch"});
  EXPECT_EQ(run.status, 4);
  EXPECT_THAT(run.err, HasSubstr("WEIGHTS: org/tiny is gated (status 401)"));
  const ProgramResult swept = measure({"--fetch"}, "sweep");
  EXPECT_EQ(swept.status, 4);
  EXPECT_THAT(swept.err, HasSubstr("org/tiny is gated (status 401)"));
}

TEST_F(FetchingRunTest, ATokenizerOfItsOwnIsFetched) {
  FakeModel& other = hub_.models["org/words"];
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json"})
    other.files[name] = hub_.models["org/tiny"].files[name];
  other.files["model.safetensors"] = hub_.models["org/tiny"].files["model.safetensors"];
  ASSERT_EQ(weights({"fetch", "org/tiny"}).status, 0);
  const ProgramResult refused = measure({"--tokenizer", "org/words"});
  EXPECT_THAT(refused.err,
              HasSubstr("fetch it: sftbench weights fetch org/words, or with --fetch"));
  EXPECT_EQ(measure({"--tokenizer", "org/words", "--fetch"}).status, 0);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
