// What `run` is asked to keep and to go on from: every way to ask for what makes no sense, and a
// run of the executable that is resumed.
#include "cli/save_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "cli/program.h"
#include "cli/trained_run.h"
#include "results/schema_check.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string problem(const SaveOptions& options, TrainingJob job = {},
                    const std::string& results = "results") {
  job.inputs = job.inputs.is_null() ? Json::object() : job.inputs;
  try {
    apply_save_options(options, results, job);
    return "none";
  } catch (const InputError& error) {
    return error.what();
  }
}

void add_checkpoint(const fs::path& folder, int step) {
  write_file_atomic(folder / ("checkpoint-" + std::to_string(step)) / "trainer_state.json", "{}");
}

TEST(SaveOptionsTest, ArePutOverTheJobsPlanWithWholePaths) {
  const fs::path folder = fresh_folder("save_options");
  add_checkpoint(folder / "old", 7);
  TrainingJob job;
  job.inputs = Json::object();
  apply_save_options({.model_directory = (folder / "new/../model/").string(),
                      .checkpoint_directory = (folder / "old").string(),
                      .strategy = "steps",
                      .steps = 3,
                      .total_limit = 2,
                      .resume_from = (folder / "old").string()},
                     "results", job);
  EXPECT_EQ(job.save.model_directory, folder / "model");
  EXPECT_EQ(job.save.checkpoint_directory, folder / "old");
  EXPECT_EQ(job.save.strategy, IntervalStrategy::kSteps);
  EXPECT_EQ(job.save.steps, 3);
  EXPECT_EQ(job.save.total_limit, 2);
  EXPECT_EQ(job.save.resume_from, folder / "old/checkpoint-7");
  const SavePlan before = job.save;
  apply_save_options({}, "results", job);  // as with --job: what is not given stays
  EXPECT_EQ(job.save.model_directory, before.model_directory);
  EXPECT_EQ(job.save.steps, before.steps);
}

TEST(SaveOptionsTest, SayWhatDoesNotGoTogether) {
  const std::string folder = fresh_folder("save_options") / "checkpoints";
  EXPECT_EQ(problem({.checkpoint_directory = folder, .strategy = "step"}),
            "--save-strategy: unknown value 'step'; expected no, steps, epoch; did you mean "
            "'steps'?");
  EXPECT_EQ(problem({.strategy = "epoch"}),
            "--save-strategy: epoch saves checkpoints, and no folder is given; expected "
            "--output-dir DIR or --checkpoint-dir DIR with it");
  EXPECT_EQ(problem({.checkpoint_directory = folder}),
            "--checkpoint-dir: nothing is saved there; expected --save-strategy steps or epoch "
            "with it");
  EXPECT_EQ(problem({.checkpoint_directory = folder, .strategy = "epoch", .steps = 3}),
            "--save-steps: no effect with --save-strategy epoch; expected --save-strategy steps "
            "with it");
  EXPECT_EQ(problem({.total_limit = 3}),
            "--save-total-limit: no effect without checkpoints; expected --save-strategy steps or "
            "epoch with it");
  TrainingJob series;
  series.experiment = "finetune_full_stability-v1.0.0";
  series.runs = 5;
  EXPECT_THAT(problem({.model_directory = folder}, series),
              HasSubstr("finetune_full_stability-v1.0.0 is 5 runs of the same training, of which "
                        "none is saved or resumed"));
  EXPECT_EQ(problem({}, series), "none");
  TrainingJob simulated;
  simulated.backend = kBackendSimulate;
  EXPECT_THAT(problem({.model_directory = folder}, simulated),
              HasSubstr("--backend: simulate trains nothing that could be saved or resumed"));
}

TEST(SaveOptionsTest, KeepTheBestModelOnlyWhereItHasACheckpoint) {
  const fs::path folder = fresh_folder("save_options");
  const SaveOptions saved = {.model_directory = (folder / "model").string(),
                             .checkpoint_directory = (folder / "checkpoints").string(),
                             .strategy = "steps",
                             .steps = 4,
                             .best_model = true};
  TrainingJob job;
  EXPECT_THAT(problem(saved, job),
              HasSubstr("--load-best-model-at-end: nothing is evaluated; expected --eval-data FILE "
                        "or --eval-split X with it"));
  job.evaluation = {"", 0.1, IntervalStrategy::kSteps, 4, 0};
  EXPECT_EQ(problem(saved, job), "none");
  SaveOptions no_model = saved;
  no_model.model_directory.clear();
  EXPECT_THAT(problem(no_model, job), HasSubstr("no model is kept; expected --save-model-dir DIR"));
  job.evaluation.steps = 2;
  EXPECT_THAT(problem(saved, job),
              HasSubstr("--eval-strategy is steps, --save-strategy steps; expected the same "
                        "strategy, and as many steps, for both"));
  job.evaluation.strategy = IntervalStrategy::kEpoch;
  EXPECT_THAT(problem(saved, job), HasSubstr("--eval-strategy is epoch"));
}

TEST(SaveOptionsTest, SayWhichFoldersCannotBeUsed) {
  const fs::path folder = fresh_folder("save_options");
  write_file_atomic(folder / "model" / "thesis.tex", "");
  write_file_atomic(folder / "file", "");
  add_checkpoint(folder / "checkpoints", 4);
  fs::create_directory(folder / "empty");
  EXPECT_THAT(
      problem({.model_directory = (folder / "model").string()}),
      HasSubstr(
          "/model is there already; expected a new folder, an empty one, or that of this run's "
          "checkpoints or results: "
          "nothing is overwritten"));
  EXPECT_EQ(problem({.model_directory = (folder / "empty").string()}), "none");
  EXPECT_THAT(problem({.model_directory = (folder / "file/model").string()}),
              HasSubstr("--save-model-dir: cannot write " + (folder / "file/model").string()));
  EXPECT_THAT(problem({.checkpoint_directory = (folder / "file").string(), .strategy = "epoch"}),
              HasSubstr("--checkpoint-dir: cannot write " + (folder / "file").string()));
  EXPECT_THAT(
      problem({.checkpoint_directory = (folder / "checkpoints").string(), .strategy = "epoch"}),
      HasSubstr("/checkpoints holds checkpoints of another run, the newest of step 4; expected "
                "--resume-from-checkpoint " +
                (folder / "checkpoints").string() + " to go on from there, or another folder"));
  EXPECT_THAT(problem({.resume_from = (folder / "nowhere").string()}),
              HasSubstr("/nowhere: no such folder; expected a checkpoint"));
  EXPECT_THAT(problem({.resume_from = (folder / "model").string()}),
              HasSubstr("/model: no checkpoint; expected a checkpoint, which has "
                        "trainer_state.json, or a folder of them"));
}

// fms-hf-tuning's output_dir and save_model_dir may be one folder, or one in the other.
TEST(SaveOptionsTest, LetCheckpointsModelAndResultsShareAFolder) {
  const std::string folder = fresh_folder("save_options").string();
  const auto problem_with = [&](const std::string& model, const std::string& checkpoints,
                                const std::string& results) {
    return problem({.model_directory = folder + model,
                    .checkpoint_directory = folder + checkpoints,
                    .strategy = "epoch"},
                   {}, folder + results);
  };
  EXPECT_EQ(problem_with("/out", "/out", "/out"), "none");
  EXPECT_EQ(problem_with("/out/save_model_dir", "/out", "/out/results"), "none");
  EXPECT_EQ(problem_with("/out", "/out/checkpoints", "/results"), "none");
  write_file_atomic(fs::path(folder) / "out/training_logs.jsonl", "");
  EXPECT_EQ(problem_with("/out", "/out", "/out"), "none");
  EXPECT_EQ(problem_with("/out", "/elsewhere", "/out/results"), "none");
  EXPECT_THAT(problem_with("/out", "/elsewhere", "/results"),
              HasSubstr("--save-model-dir: " + folder + "/out is there already"));
  write_file_atomic(fs::path(folder) / "out/config.json", "");
  EXPECT_THAT(
      problem_with("/out", "/out", "/out"),
      HasSubstr("--save-model-dir: " + folder +
                "/out/config.json is there already; "
                "expected a folder without a model in it, or that one moved away: nothing is "
                "overwritten"));
}

TEST(SaveOptionsTest, LetNothingLieInACheckpoint) {
  const std::string folder = fresh_folder("save_options").string();
  const auto problem_with = [&](const std::string& model, const std::string& results) {
    return problem({.model_directory = model, .checkpoint_directory = folder, .strategy = "epoch"},
                   {}, results);
  };
  const std::string expected = " lies in " + folder +
                               "/checkpoint-4, where a checkpoint goes; expected a folder that is "
                               "not, and is not in, a folder checkpoint-STEP of --checkpoint-dir";
  EXPECT_EQ(problem_with(folder + "/checkpoint-4", "results"),
            "--save-model-dir: " + folder + "/checkpoint-4" + expected);
  EXPECT_EQ(problem_with(folder + "/checkpoint-4/model", "results"),
            "--save-model-dir: " + folder + "/checkpoint-4/model" + expected);
  EXPECT_EQ(problem_with("", folder + "/checkpoint-4/results"),
            "--output: " + folder + "/checkpoint-4/results" + expected);
  EXPECT_THAT(problem_with(folder + "/.checkpoint-4.saving", "results"),
              HasSubstr(".checkpoint-4.saving, where a checkpoint goes"));
  EXPECT_EQ(problem_with(folder + "/checkpoint-best", folder), "none");
  add_checkpoint(folder, 7);
  EXPECT_THAT(problem({.checkpoint_directory = folder + "/checkpoint-7", .strategy = "epoch"}),
              HasSubstr("--checkpoint-dir: " + folder + "/checkpoint-7 is a checkpoint itself"));
}

// --- an output folder, as fms-hf-tuning's --------------------------------------------------------

SavePlan plan_of(const SaveOptions& options, SavePlan before = {}) {
  TrainingJob job;
  job.inputs = Json::object();
  job.save = std::move(before);
  apply_save_options(options, "results", job);
  return job.save;
}

TEST(OutputFolderTest, GetsCheckpointsAfterEachEpochUnlessAskedOtherwise) {
  const std::string folder = fresh_folder("output_folder") / "out";
  const SavePlan usual = plan_of({.output_directory = folder + "/"});
  EXPECT_EQ(usual.output_directory, folder);
  EXPECT_EQ(usual.checkpoint_directory, folder);
  EXPECT_EQ(usual.strategy, IntervalStrategy::kEpoch);
  EXPECT_EQ(usual.log_strategy, IntervalStrategy::kEpoch);
  const SavePlan none = plan_of({.strategy = "no", .output_directory = folder});
  EXPECT_EQ(none.checkpoint_directory, "");
  EXPECT_EQ(none.output_directory, folder);
  EXPECT_EQ(plan_of({.strategy = "steps", .steps = 3, .output_directory = folder}).steps, 3);
  EXPECT_EQ(plan_of({}, usual).strategy, IntervalStrategy::kEpoch) << "as with --job";
  EXPECT_EQ(plan_of({.strategy = "no"}, usual).checkpoint_directory, "");
  EXPECT_EQ(plan_of({}).output_directory, "");
  const SavePlan logged =
      plan_of({.output_directory = folder, .log_strategy = "steps", .log_steps = 4});
  EXPECT_EQ(logged.log_steps, 4);
}

TEST(OutputFolderTest, IsGoneOnFromOrItsCheckpointsAreMovedAside) {
  const fs::path folder = fresh_folder("output_folder");
  add_checkpoint(folder, 2);
  add_checkpoint(folder, 10);
  const std::string out = folder.string();
  EXPECT_EQ(plan_of({.output_directory = out}).resume_from, folder / "checkpoint-10");
  EXPECT_EQ(plan_of({.strategy = "no", .output_directory = out}).resume_from,
            folder / "checkpoint-10");
  EXPECT_EQ(plan_of({.resume_from = "True", .output_directory = out}).resume_from,
            folder / "checkpoint-10");
  const std::string second = out + "/checkpoint-2";
  EXPECT_EQ(plan_of({.resume_from = second, .output_directory = out}).resume_from, second);
  const SavePlan anew = plan_of({.resume_from = "false", .output_directory = out});
  EXPECT_EQ(anew.resume_from, "");
  EXPECT_TRUE(anew.from_nothing);
  EXPECT_FALSE(plan_of({.resume_from = "true"}, anew).from_nothing);
  EXPECT_TRUE(plan_of({.checkpoint_directory = out, .strategy = "epoch", .resume_from = "False"})
                  .from_nothing);
  EXPECT_TRUE(fs::exists(folder / "checkpoint-10")) << "a plan moves nothing";
}

TEST(OutputFolderTest, SaysWhatDoesNotGoTogether) {
  const fs::path folder = fresh_folder("output_folder");
  const std::string out = folder / "out";
  EXPECT_EQ(problem({.checkpoint_directory = out, .output_directory = out}),
            "--checkpoint-dir: --output-dir says where checkpoints go; expected one of them");
  EXPECT_EQ(problem({.resume_from = "true"}),
            "--resume-from-checkpoint: no folder is given whose checkpoints that means; expected "
            "--output-dir DIR with it, or the folder itself");
  EXPECT_EQ(problem({.resume_from = "false"}), "none");
  EXPECT_EQ(problem({.log_strategy = "steps"}),
            "--logging-strategy: no effect without training_logs.jsonl; expected --output-dir DIR "
            "with it");
  EXPECT_EQ(problem({.log_steps = 2}),
            "--logging-steps: no effect without training_logs.jsonl; expected --output-dir DIR "
            "with it");
  EXPECT_EQ(problem({.output_directory = out, .log_steps = 2}),
            "--logging-steps: no effect with --logging-strategy epoch; expected "
            "--logging-strategy steps with it");
  EXPECT_THAT(problem({.output_directory = out, .log_strategy = "step"}),
              HasSubstr("--logging-strategy: unknown value 'step'; expected no, steps, epoch; did "
                        "you mean 'steps'?"));
  write_file_atomic(folder / "file", "");
  EXPECT_THAT(problem({.output_directory = (folder / "file").string()}),
              HasSubstr("--output-dir: cannot write " + (folder / "file").string()));
  add_checkpoint(folder, 7);
  EXPECT_THAT(
      problem({.output_directory = (folder / "checkpoint-7").string()}),
      HasSubstr("--output-dir: " + (folder / "checkpoint-7").string() + " is a checkpoint itself"));
  TrainingJob series;
  series.runs = 5;
  EXPECT_THAT(problem({.strategy = "no", .output_directory = out}, series),
              HasSubstr("of which none is saved or resumed"));
}

// --- the executable ------------------------------------------------------------------------------

class SavingRunTest : public TrainedRunTest {};

TEST_F(SavingRunTest, IsResumedByTwoRanksAndSaysSo) {
  const ProgramResult first =
      run({"--save-strategy", "steps", "--save-steps", "2", "--checkpoint-dir", path("kept"),
           "--save-model-dir", path("trained")},
          4);
  ASSERT_EQ(first.status, 0) << first.err;
  const Json straight = Json::parse(first.out);
  EXPECT_FALSE(straight["inputs"].contains("save"));
  EXPECT_EQ(straight["extra"]["saved"].size(), 3);
  EXPECT_EQ(straight["extra"]["saved"][2]["path"], path("trained"));
  EXPECT_TRUE(fs::exists(path("trained") + "/model.safetensors"));
  EXPECT_THAT(first.err, HasSubstr("saved " + path("trained") + ": "));

  const ProgramResult second =
      run({"--ranks", "2", "--resume-from-checkpoint", path("kept") + "/checkpoint-2"}, 4);
  ASSERT_EQ(second.status, 0) << second.err;
  const Json resumed = Json::parse(second.out);
  EXPECT_EQ(resumed["extra"]["resumed"]["step"], 2);
  EXPECT_EQ(resumed["extra"]["loss"].size(), 2);
  // bfloat16 parameters: 8 bits, summed in another order.
  EXPECT_NEAR(resumed["extra"]["loss"][1], straight["extra"]["loss"][3], 1e-2);
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "results")) {
    if (entry.path().extension() != ".json") continue;
    EXPECT_EQ(schema_violation(entry.path()), "");
  }
}

TEST_F(SavingRunTest, KeepsAllOfAFolderThatCheckpointsModelAndResultsShare) {
  const std::string out = path("out");
  results_ = out;
  const ProgramResult saved = run({"--save-strategy", "steps", "--save-steps", "2",
                                   "--checkpoint-dir", out, "--save-model-dir", out},
                                  4);
  ASSERT_EQ(saved.status, 0) << saved.err;
  for (const char* name :
       {"checkpoint-2/trainer_state.json", "checkpoint-4/trainer_state.json", "config.json",
        "model.safetensors", "tokenizer.json", "finetune_full_benchmark-v1.0.0"}) {
    EXPECT_TRUE(fs::exists(out + "/" + name)) << name;
  }
  results_ = path("again");
  const ProgramResult again = run({"--resume-from-checkpoint", out + "/checkpoint-2"}, 4);
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(Json::parse(again.out)["extra"]["loss"][1], Json::parse(saved.out)["extra"]["loss"][3]);
}

TEST_F(SavingRunTest, EndsWithItsReasonWhenACheckpointIsDamaged) {
  const ProgramResult first =
      run({"--save-strategy", "steps", "--save-steps", "1", "--checkpoint-dir", path("kept")}, 2);
  ASSERT_EQ(first.status, 0) << first.err;
  const fs::path weights = path("kept") + "/checkpoint-1/model.safetensors";
  std::string content = read_file(weights);
  content[content.size() / 2] ^= 1;
  write_file_atomic(weights, content);
  results_ = path("again");
  const ProgramResult second = run({"--resume-from-checkpoint", path("kept") + "/checkpoint-1"}, 2);
  EXPECT_EQ(second.status, 4);
  const Json reason = Json::parse(second.out)["reason"];
  EXPECT_EQ(reason["code"], "WEIGHTS");
  EXPECT_THAT(reason["message"].get<std::string>(),
              HasSubstr(weights.string() + ": damaged, or a file of another folder"));
}

std::vector<Json> lines_of(const fs::path& path) {
  std::vector<Json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

// Eight entries in batches of 2: an epoch has 4 steps.
TEST_F(SavingRunTest, HasAnOutputFolderAsFmsHfTuningsAndGoesOnFromIt) {
  const std::string out = path("out");
  const ProgramResult first = run({"--output-dir", out, "--save-model-dir", out + "/model"}, 6);
  ASSERT_EQ(first.status, 0) << first.err;
  for (const char* name : {"checkpoint-4", "checkpoint-6", "model/model.safetensors"}) {
    EXPECT_TRUE(fs::exists(out + "/" + name)) << name;
  }
  const Json loss = Json::parse(first.out)["extra"]["loss"];
  std::vector<Json> lines = lines_of(out + "/training_logs.jsonl");
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(lines[0]["name"], "training_loss");
  EXPECT_EQ(lines[0]["data"]["epoch"], 1.0);
  EXPECT_EQ(lines[0]["data"]["step"], 4);
  EXPECT_NEAR(lines[0]["data"]["value"].get<double>(),
              (loss[0].get<double>() + loss[1].get<double>() + loss[2].get<double>() +
               loss[3].get<double>()) /
                  4,
              1e-6);
  EXPECT_THAT(lines[0]["data"]["timestamp"].get<std::string>(),
              ::testing::MatchesRegex("2[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9]+"));
  EXPECT_EQ(lines[1]["data"]["epoch"], 1.5);

  results_ = path("again");
  const ProgramResult more =
      run({"--output-dir", out, "--logging-strategy", "steps", "--logging-steps", "1"}, 8);
  ASSERT_EQ(more.status, 0) << more.err;
  EXPECT_THAT(more.err, HasSubstr(out + " holds checkpoints: this run goes on from checkpoint-6"));
  EXPECT_EQ(Json::parse(more.out)["extra"]["resumed"]["step"], 6);
  lines = lines_of(out + "/training_logs.jsonl");
  ASSERT_EQ(lines.size(), 4);
  EXPECT_EQ(lines[3]["data"]["step"], 8);

  const ProgramResult done = run({"--output-dir", out}, 8);
  EXPECT_THAT(done.out, HasSubstr("nothing is left to train: " + out + "/checkpoint-8"));
  const ProgramResult other = run({"--output-dir", out, "--set", "seed=7"}, 8);
  EXPECT_THAT(other.out, HasSubstr("the checkpoint of another job: seed was 42, and is 7; another "
                                   "--output-dir, or --resume-from-checkpoint false"));
}

// As fms-hf-tuning's, which resumes by itself and saves the model again, in the same folder or
// below it.
TEST_F(SavingRunTest, GoesOnAlsoWhereTheModelWasSavedInTheOutputFolder) {
  for (const std::string model : {"", "/model"}) {
    const std::string out = path("out" + std::to_string(model.size()));
    ASSERT_EQ(run({"--output-dir", out, "--save-model-dir", out + model}, 4).status, 0);
    const std::string before = read_file(out + model + "/model.safetensors");
    results_ = path("again" + std::to_string(model.size()));
    const ProgramResult more = run({"--output-dir", out, "--save-model-dir", out + model}, 8);
    ASSERT_EQ(more.status, 0) << more.err;
    EXPECT_THAT(more.err, HasSubstr("the model in " + out + model +
                                    ", which this training saved before, is replaced at its end"));
    EXPECT_EQ(Json::parse(more.out)["extra"]["resumed"]["step"], 4);
    EXPECT_NE(read_file(out + model + "/model.safetensors"), before);
    // Somebody else's file in the place of one of the model's: said before anything is trained.
    write_file_atomic(out + model + "/config.json", "{}");
    const ProgramResult edited = run({"--output-dir", out, "--save-model-dir", out + model}, 10);
    EXPECT_EQ(edited.status, 2);
    EXPECT_THAT(edited.err, HasSubstr("is there already"));
    EXPECT_EQ(read_file(out + model + "/config.json"), "{}");
  }
}

TEST_F(SavingRunTest, TrainsFromNothingBesideWhatAnEarlierOneHasLeft) {
  const std::string out = path("out");
  ASSERT_EQ(run({"--output-dir", out}, 4).status, 0);
  const ProgramResult anew = run({"--output-dir", out, "--resume-from-checkpoint", "false"}, 4);
  ASSERT_EQ(anew.status, 0) << anew.err;
  EXPECT_THAT(anew.err, HasSubstr("the checkpoints in " + out + " are moved to " + out +
                                  "/earlier-1 before this run saves its first"));
  for (const char* name :
       {"checkpoint-4", "training_logs.jsonl", "earlier-1/checkpoint-4/model.safetensors",
        "earlier-1/training_logs.jsonl"}) {
    EXPECT_TRUE(fs::exists(out + "/" + name)) << name;
  }
  EXPECT_FALSE(Json::parse(anew.out)["extra"].contains("resumed"));
  EXPECT_EQ(lines_of(out + "/training_logs.jsonl").size(), 1);
}

TEST_F(SavingRunTest, ALogBelongsToOneTraining) {
  const std::string out = path("out");
  for (const char* seed : {"seed=1", "seed=2"}) {
    const ProgramResult one = run({"--output-dir", out, "--save-strategy", "no", "--set", seed}, 4);
    ASSERT_EQ(one.status, 0) << one.err;
    EXPECT_EQ(lines_of(out + "/training_logs.jsonl").size(), 1) << seed;
  }
  EXPECT_EQ(lines_of(out + "/earlier-1/training_logs.jsonl").size(), 1);
  // Neither does a run go on with it that resumes from elsewhere.
  const std::string other = path("other");
  ASSERT_EQ(run({"--output-dir", other, "--set", "seed=1"}, 2).status, 0);
  results_ = path("again");
  const ProgramResult more = run(
      {"--output-dir", out, "--set", "seed=1", "--resume-from-checkpoint", other + "/checkpoint-2"},
      4);
  ASSERT_EQ(more.status, 0) << more.err;
  EXPECT_EQ(lines_of(out + "/training_logs.jsonl").size(), 1);
  EXPECT_EQ(lines_of(out + "/earlier-2/training_logs.jsonl").size(), 1);
}

TEST_F(SavingRunTest, SaysWhatIsWrongBeforeItMeasures) {
  const ProgramResult wrong = run({"--save-strategy", "steps"}, 1);
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--save-strategy: steps saves checkpoints, and no folder"));
  EXPECT_FALSE(fs::exists(folder_ / "results"));
  EXPECT_EQ(run({"--save-steps", "0", "--save-strategy", "steps"}, 1).status, 2);
}

// --- sweeps --------------------------------------------------------------------------------------

TEST_F(SavingRunTest, ASweepHasFoldersForEachMeasurementAndGoesOnFromThem) {
  const std::vector<std::string> words = {"--set",
                                          "gradient_checkpointing=false,true",
                                          "--output-dir",
                                          path("out"),
                                          "--save-model-dir",
                                          path("models")};
  const ProgramResult first = run(words, 4, "sweep");
  ASSERT_EQ(first.status, 0) << first.err;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(results_)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  ASSERT_EQ(files.size(), 2);
  for (const fs::path& file : files) {
    const fs::path out = path("out") / file.stem();
    EXPECT_TRUE(fs::exists(out / "checkpoint-4")) << out;
    EXPECT_EQ(lines_of(out / "training_logs.jsonl").size(), 1);
    EXPECT_TRUE(fs::exists(path("models") / file.stem() / "model.safetensors"));
  }
  // As after a crash: one result is not there, and its training had come to step 2.
  const fs::path lost = path("out") / files[0].stem();
  fs::remove(files[0]);
  fs::remove_all(path("models") / files[0].stem());
  fs::remove_all(lost);
  std::vector<std::string> more = words;
  more.insert(more.end(), {"--save-strategy", "steps", "--save-steps", "2"});
  ASSERT_EQ(run(more, 4, "sweep").status, 0);
  fs::remove(files[0]);
  fs::remove_all(path("models") / files[0].stem());
  fs::remove_all(lost / "checkpoint-4");
  const ProgramResult again = run(more, 4, "sweep");
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(read_json_file(files[0].string())["extra"]["resumed"]["step"], 2);
  EXPECT_EQ(schema_violation(files[0]), "");
}

TEST_F(SavingRunTest, EachSampleOfASweepHasFoldersOfItsOwnAndTrainsFromTheBeginning) {
  const ProgramResult swept =
      run({"--repeats", "2", "--output-dir", path("out"), "--save-model-dir", path("models"),
           "--save-strategy", "steps", "--save-steps", "2"},
          4, "sweep");
  ASSERT_EQ(swept.status, 0) << swept.err;
  EXPECT_THAT(swept.err, testing::Not(HasSubstr("something else is there")));
  std::vector<std::string> stems;
  for (const auto& entry : fs::recursive_directory_iterator(results_)) {
    if (entry.path().extension() != ".json") continue;
    const Json result = read_json_file(entry.path().string());
    EXPECT_FALSE(result["extra"].contains("resumed")) << entry.path();
    EXPECT_EQ(result["extra"]["loss"].size(), 4) << entry.path();
    stems.push_back(entry.path().stem().string());
  }
  ASSERT_EQ(stems.size(), 2);
  for (const std::string& stem : stems) {
    EXPECT_TRUE(fs::exists(fs::path(path("out")) / stem / "checkpoint-4")) << stem;
    EXPECT_TRUE(fs::exists(fs::path(path("models")) / stem / "model.safetensors")) << stem;
  }
}

TEST_F(SavingRunTest, ASweepSaysWhatIsWrongForAllCells) {
  const auto refused = [this](const std::vector<std::string>& words) {
    const ProgramResult result = run(words, 1, "sweep");
    EXPECT_EQ(result.status, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(
      refused({"--checkpoint-dir", path("kept")}),
      HasSubstr("--checkpoint-dir: is one folder, and a sweep has one for each measurement; "
                "expected --output-dir DIR"));
  EXPECT_THAT(refused({"--output-dir", path("out"), "--resume-from-checkpoint", path("kept")}),
              HasSubstr("--resume-from-checkpoint: " + path("kept") +
                        " is the checkpoint of one training"));
  EXPECT_THAT(refused({"--save-strategy", "epoch"}), HasSubstr("and no folder is given"));
  EXPECT_THAT(refused({"--output-dir", path("out"), "--backend", "simulate"}),
              HasSubstr("simulate trains nothing that could be saved"));
  write_file_atomic(path("file"), "");
  EXPECT_THAT(refused({"--output-dir", path("file")}), HasSubstr("--output-dir: cannot write"));
}

TEST_F(SavingRunTest, ACellWhoseModelIsInTheWayFailsAlone) {
  const std::vector<std::string> words = {"--save-model-dir", path("models")};
  ASSERT_EQ(run(words, 1, "sweep").status, 0);
  fs::remove_all(results_);
  const fs::path model = fs::directory_iterator(path("models"))->path();
  fs::remove(model / "sftbench_manifest.json");  // not known to be ours
  const ProgramResult again = run(words, 1, "sweep");
  EXPECT_EQ(again.status, 4) << again.err;
  EXPECT_THAT(again.out, HasSubstr("WEIGHTS"));
}

TEST_F(SavingRunTest, ACellThatWasKilledBeforeItsResultIsMeasuredAnew) {
  const std::vector<std::string> words = {"--output-dir", path("out"), "--save-model-dir",
                                          path("models")};
  ASSERT_EQ(run(words, 2, "sweep").status, 0);
  fs::remove_all(results_);
  const ProgramResult again = run(words, 2, "sweep");
  EXPECT_EQ(again.status, 0) << again.out << again.err;
  const fs::path out = fs::directory_iterator(path("out"))->path();
  EXPECT_TRUE(fs::exists(out / "earlier-1" / "checkpoint-2")) << "nothing is lost";
  const fs::path model = fs::path(path("models")) / out.filename();
  EXPECT_TRUE(fs::exists(model / "model.safetensors"));
  EXPECT_TRUE(fs::exists(model.string() + ".earlier-1/model.safetensors"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
