// Whatever happens to a file of a checkpoint, a run does not go on from it: it ends with code
// WEIGHTS and names the file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/saving_fixture.h"
#include "parallel/gloo_communicator.h"
#include "parallel/rank_processes.h"
#include "sftbench/base/file.h"
#include "sftbench/checkpoint/manifest.h"
#include "sftbench/checkpoint/saved_folder.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;
using Change = std::function<void(TrainingJob&)>;

std::string refusal(const TrainingJob& job, RankGroup& group) {
  try {
    prepare_run(job, group);
    return "none: the run goes on";
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kWeights) << error.what();
    return error.what();
  }
}

struct Damage {
  std::string what;
  std::string content;
};

std::string with_flipped_bit(std::string content, size_t byte, int bit) {
  content[byte] = static_cast<char>(content[byte] ^ (1 << bit));
  return content;
}

std::string with_zeroed_half(std::string content) {
  return content.replace(content.size() / 2, std::string::npos,
                         std::string(content.size() - content.size() / 2, '\0'));
}

// `other`: the file of this name in another checkpoint.
std::vector<Damage> damages(const std::string& whole, const std::string& other) {
  const size_t size = whole.size();
  std::vector<Damage> list = {{"first byte", with_flipped_bit(whole, 0, 0)},
                              {"a byte behind the header's size",
                               with_flipped_bit(whole, std::min<size_t>(9, size - 1), 5)},
                              {"middle byte", with_flipped_bit(whole, size / 2, 7)},
                              {"last byte", with_flipped_bit(whole, size - 1, 0)},
                              {"second half is zeros", with_zeroed_half(whole)},
                              {"cut by a byte", whole.substr(0, size - 1)},
                              {"cut in half", whole.substr(0, size / 2)},
                              {"empty", ""},
                              {"a byte more", whole + '\0'}};
  if (other != whole) list.push_back({"the file of another step", other});
  return list;
}

// Each file of checkpoint-2 in each way, or in every n-th, by turns.
void expect_all_found(const TrainingJob& job, RankGroup& group, size_t every) {
  size_t turn = 0;
  const std::string folder = job.save.checkpoint_directory + "/checkpoint-2/",
                    other_folder = job.save.checkpoint_directory + "/checkpoint-4/";
  for (const std::string& name : names_in(folder)) {
    const std::string whole = read_file(folder + name), other = read_file(other_folder + name);
    for (const Damage& damage : damages(whole, other)) {
      if (turn++ % every != 0) continue;
      std::ofstream(folder + name) << damage.content;
      EXPECT_THAT(refusal(resumed(job), group), HasSubstr("checkpoint-2/" + name)) << damage.what;
    }
    std::ofstream(folder + name) << whole;
  }
  EXPECT_EQ(run_of(resumed(job), group).begin.resumed_step, 2);
}

void expect_found_alone(const Change& change, size_t every = 1) {
  const TemporaryFolder folder;
  TrainingJob job = saving_job(folder / "checkpoints");
  change(job);
  run_of(job, alone());
  expect_all_found(job, alone(), every);
}

TEST(DamagedCheckpoints, OfAModelAreFound) {
  expect_found_alone([](TrainingJob&) {});
}

TEST(DamagedCheckpoints, OfAnAdapterAreFound) {
  expect_found_alone([](TrainingJob& job) {
    job.tuning = TuningMethod::kLora;
    job.lora = {.rank = 4, .alpha = 16, .dropout = 0, .target_modules = {"q_proj"}};
    job.optimizer.kind = OptimizerKind::kAdamwBnb8bit;
  });
}

TEST(DamagedCheckpoints, InPiecesAreFound) {
  if (!ranks_can_connect()) GTEST_SKIP() << "this build has no Gloo";
  for (const char* form : {"SHARDED_STATE_DICT", "LOCAL_STATE_DICT"}) {
    SCOPED_TRACE(form);
    expect_found_alone(
        [&](TrainingJob& job) {
          job.parallel.strategy = Strategy::kFullShard;
          job.parallel.state_dict_type = named<StateDictType>(form);
          job.parallel.distribute_one_rank = true;
        },
        /*every=*/4);
  }
}

// One of the ranks reads the file, all of them end. A group ends with its first failure, so that
// every damage needs ranks of its own: one for each file.
TEST(DamagedCheckpoints, OfSeveralRanksAreFoundByAnyNumberOfThem) {
  for (const char* form : {"FULL_STATE_DICT", "SHARDED_STATE_DICT", "LOCAL_STATE_DICT"}) {
    SCOPED_TRACE(form);
    const TemporaryFolder folder;
    const TrainingJob job = on_ranks(saving_job(folder / "checkpoints"), 2, "FULL_SHARD", form);
    run_ranks({.ranks = 2}, [&](RankGroup& group) { run_of(job, group); });
    const std::string checkpoint = folder / "checkpoints/checkpoint-2/";
    int ranks = 2;
    for (const std::string& name : names_in(checkpoint)) {
      const std::string whole = read_file(checkpoint + name);
      std::ofstream(checkpoint + name) << with_flipped_bit(whole, whole.size() / 2, 3);
      ranks = 5 - ranks;  // 3 and 2 by turns
      run_ranks({.ranks = ranks}, [&](RankGroup& group) {
        const TrainingJob again = resumed(on_ranks(job, ranks, "FULL_SHARD", form));
        try {
          make_engine()->train_job(again, group, {}, [] { return false; });
          ADD_FAILURE() << name << ": the run goes on";
        } catch (const RunError& error) {
          EXPECT_EQ(error.code(), ReasonCode::kWeights) << error.what();
          EXPECT_THAT(error.what(), HasSubstr("checkpoint-2/" + name));
        }
      });
      std::ofstream(checkpoint + name) << whole;
    }
  }
}

class DamagedCheckpoint : public ::testing::Test {
 protected:
  DamagedCheckpoint() { run_of(job_, alone()); }
  std::string refused(const std::string& checkpoint) {
    return refusal(resumed(job_, folder_ / checkpoint), alone());
  }

  TemporaryFolder folder_;
  TrainingJob job_ = saving_job(folder_ / "checkpoints");
};

TEST_F(DamagedCheckpoint, OfAnotherStepIsFoundByItsName) {
  fs::remove_all(folder_ / "checkpoints/checkpoint-2");
  fs::rename(folder_ / "checkpoints/checkpoint-4", folder_ / "checkpoints/checkpoint-2");
  EXPECT_THAT(refused("checkpoints/checkpoint-2"),
              HasSubstr("sftbench_manifest.json: is of step 4; expected step 2, as the folder is "
                        "named"));
}

TEST_F(DamagedCheckpoint, WithoutManifestIsRefusedAndTheOneBeforeIsNamed) {
  fs::remove(folder_ / "checkpoints/checkpoint-4/sftbench_manifest.json");
  const std::string refusal = refused("checkpoints/checkpoint-4");
  EXPECT_THAT(refusal, HasSubstr("cannot resume from " + (folder_ / "checkpoints/checkpoint-4")));
  EXPECT_THAT(refusal, HasSubstr("sftbench_manifest.json: missing: what the folder holds cannot be "
                                 "verified"));
  EXPECT_THAT(refusal, HasSubstr("; before it stands " + (folder_ / "checkpoints/checkpoint-2")));
}

TEST_F(DamagedCheckpoint, WithWeightsOfAnotherFormIsRefused) {
  write_file_atomic(folder_ / "checkpoints/checkpoint-2/model_pieces.json", R"({"pieces": []})");
  EXPECT_THAT(refused("checkpoints/checkpoint-2"),
              HasSubstr("model_pieces.json: does not belong to this folder"));
}

// A number that no run can have saved there is no INTERNAL error, nor is it believed.
TEST_F(DamagedCheckpoint, WithNumbersThatNoRunHasIsRefused) {
  const fs::path folder = folder_ / "checkpoints/checkpoint-2";
  const Json whole = read_json_file((folder / "trainer_state.json").string());
  const auto with = [&](const Json::json_pointer& place, const std::string& value) {
    Json state = whole;
    state[place] = "VALUE";
    std::string text = state.dump(2);
    text.replace(text.find("\"VALUE\""), 7, value);
    Manifest manifest = read_manifest(folder);
    for (FileSum& sum : manifest.files) {
      if (sum.name == "trainer_state.json") sum = write_summed(folder, sum.name, text);
    }
    write_manifest(folder, manifest);
    return refused("checkpoints/checkpoint-2");
  };
  const std::string step = whole["optimizer"].items().begin().key();
  const std::pair<Json::json_pointer, std::string> kWrong[] = {
      {"/global_step"_json_pointer, "a whole number from 2 to 2"},
      {"/updates"_json_pointer, "a whole number from 0 to 2"},
      {"/total_steps"_json_pointer, "a whole number from 2 to "},
      {"/forward_passes"_json_pointer, "a whole number from 0 to "},
      {"/ranks"_json_pointer, "a whole number from 1 to "},
      {"/best_global_step"_json_pointer, "a whole number from 0 to 2"},
      {Json::json_pointer("/optimizer/" + step), "a whole number from 0 to "}};
  for (const auto& [place, expected] : kWrong) {
    for (const char* value : {"-4", "1180591620717411303424", "18446744073709551615", "1.5", "null",
                              "\"2\"", "[2]", "true"}) {
      EXPECT_THAT(with(place, value),
                  ::testing::AllOf(HasSubstr("trainer_state.json: "), HasSubstr(expected)))
          << place.to_string() << " " << value;
    }
  }
  EXPECT_THAT(with("/global_step"_json_pointer, "3"), HasSubstr("global_step: found 3"));
  EXPECT_EQ(with("/global_step"_json_pointer, "2"), "none: the run goes on");
}

// Not damaged, but written by something else: checksums fit, the content does not.
TEST_F(DamagedCheckpoint, ThatWasWrittenBySomethingElseIsRefused) {
  const fs::path folder = folder_ / "checkpoints/checkpoint-2";
  const auto rewritten = [&](const std::string& name, const std::string& text) {
    Manifest manifest = read_manifest(folder);
    for (FileSum& sum : manifest.files) {
      if (sum.name == name) sum = write_summed(folder, name, text);
    }
    write_manifest(folder, manifest);
    return refused("checkpoints/checkpoint-2");
  };
  EXPECT_THAT(rewritten("optimizer_pieces.json", "{}"),
              HasSubstr("optimizer_pieces.json: pieces: not an index of pieces"));
  EXPECT_THAT(rewritten("model.safetensors", "short"), HasSubstr("truncated"));
  EXPECT_THAT(rewritten("trainer_state.json", R"({"global_step": "two"})"),
              HasSubstr("trainer_state.json: global_step: found \"two\""));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
