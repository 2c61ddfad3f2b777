// explain names the part of a step that is off; own evidence says what contradicts itself.
#include "sftbench/advise/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "results/result_files.h"
#include "results/sample_measurement.h"
#include "sftbench/advise/evidence.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/plan/job_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

Prediction predicted(int64_t gpus) {
  const MachineOverrides overrides;
  Oracle oracle({}, {}, overrides, Catalog::shipped());
  const Experiment& experiment = *Catalog::shipped().experiment("finetune_full_benchmark-v1.0.0");
  return oracle.predict(request_of(experiment, {{"model_name", "llama3.1-8b"},
                                                {"gpu_model", "NVIDIA-H100-80GB-HBM3"},
                                                {"number_gpus", gpus},
                                                {"model_max_length", 2048},
                                                {"batch_size", 2 * gpus}}));
}

// A result whose step took `factor` times the predicted one, as `extra` says.
Explanation explained(const Prediction& prediction, double factor, Json extra) {
  const double step_s = factor * prediction.cost.step_s;
  const OwnMeasurement own{"r.json", prediction.job, step_s, step_s, 1, step_s, 20e9};
  return explain(own, extra, prediction, Uncertainty(ResidualTable::shipped()));
}

Json phases(double forward, double backward, double data, double optimizer, double rest) {
  return {{"phase_seconds",
           {{"data", data},
            {"forward", forward},
            {"backward", backward},
            {"optimizer", optimizer},
            {"rest", rest}}}};
}

TEST(ExplainTest, AStepAsPredictedHasNothingOff) {
  const Prediction p = predicted(1);
  const StepCost& c = p.cost;
  const Explanation e =
      explained(p, 1, phases(c.compute_s / 3, 2 * c.compute_s / 3, 0, c.optimizer_s, c.host_s));
  EXPECT_THAT(e.sentence, HasSubstr("Nothing is off"));
  EXPECT_TRUE(e.within);
  ASSERT_EQ(e.terms.front().name, "step");
  EXPECT_DOUBLE_EQ(*e.terms.front().measured, *e.terms.front().predicted);
  EXPECT_EQ(e.terms[1].name, "compute");
  EXPECT_NEAR(*e.terms[1].measured, c.compute_s, 1e-9);
  EXPECT_EQ(e.terms[2].measured, 0) << "one rank waits for nobody";
  EXPECT_EQ(e.terms.back().unit, std::string("GiB"));
  EXPECT_DOUBLE_EQ(*e.terms.back().measured, 20e9 / (1 << 30));
  EXPECT_DOUBLE_EQ(*e.terms.back().predicted, c.memory.total() / (1 << 30));
}

TEST(ExplainTest, SlowProductsAndSlowDataAreNamed) {
  const Prediction p = predicted(1);
  const double s = p.cost.step_s;
  EXPECT_THAT(explained(p, 3, phases(s, 2 * s, 0, p.cost.optimizer_s, 0)).sentence,
              AllOf(HasSubstr("200 % longer"), HasSubstr("are computation"), HasSubstr("GFLOP/s"),
                    HasSubstr("outside the interval")));
  EXPECT_THAT(explained(p, 2, phases(s / 3, 2 * s / 3, s, p.cost.optimizer_s, 0)).sentence,
              HasSubstr("data comes too slowly"));
  EXPECT_THAT(explained(p, 2, Json::object()).sentence, HasSubstr("did not time its parts"));
}

// Terms that are off by a twentieth of the step, or less, are not named.
TEST(ExplainTest, EachPartThatTookTheTimeIsNamedAndNoOther) {
  const Prediction p = predicted(1);
  const StepCost& c = p.cost;
  const double s = c.step_s, forward = c.compute_s / 3, backward = 2 * forward;
  const auto sentence = [&](double factor, const Json& extra) {
    return explained(p, factor, extra).sentence;
  };
  EXPECT_THAT(sentence(3, phases(forward, backward, 0, c.optimizer_s + 2 * s, c.host_s)),
              HasSubstr(" s go to optimizer, where "));
  EXPECT_THAT(sentence(3, phases(forward, backward, 0, c.optimizer_s, c.host_s + 2 * s)),
              HasSubstr(" s go to host and rest, where "));
  EXPECT_THAT(sentence(3, phases(forward, backward, 0.14 * s, c.optimizer_s, c.host_s)),
              HasSubstr("no part of it stands out"))
      << "of 3 s";
  EXPECT_THAT(sentence(3, phases(forward, backward, 0.16 * s, c.optimizer_s, c.host_s)),
              HasSubstr("data comes too slowly"));
  EXPECT_THAT(sentence(0.5, phases(forward / 2, backward / 2, 0, c.optimizer_s, c.host_s)),
              AllOf(HasSubstr("The step takes 50 % shorter than predicted, which is outside"),
                    HasSubstr("are computation")));
  EXPECT_THAT(sentence(0.97, phases(forward, backward, 0, c.optimizer_s, c.host_s)),
              HasSubstr("Nothing is off: the step takes 3 % shorter"));
  const Interval interval = Uncertainty(ResidualTable::shipped()).interval(Figure::kTime, p.at);
  ASSERT_GT(interval.high, 1.06);
  EXPECT_THAT(sentence(1.06, phases(forward, backward, 0.06 * s, c.optimizer_s, c.host_s)),
              AllOf(HasSubstr("6 % longer than predicted, which the interval allows: "),
                    HasSubstr("data comes too slowly")));
}

TEST(ExplainTest, ASlowLinkIsNamedWithItsRate) {
  const Prediction p = predicted(8);
  const double step_s = 4 * p.cost.step_s;
  const CollectiveCost& gather = p.cost.collectives.front();
  Json collective = {{"group", gather.group}, {"operation", gather.operation}};
  collective["sent_bytes_per_step"]["max"] = gather.sent_bytes;
  collective["seconds_per_step"] = gather.sent_bytes / 3e9;
  Json extra;
  extra["communication"]["wait_fraction"]["mean"] = 0.75;
  extra["communication"]["collectives"].push_back(collective);
  const Explanation e = explained(p, 4, extra);
  EXPECT_THAT(e.sentence, AllOf(HasSubstr("all_gather at 3 GB/s"), HasSubstr("links")));
  EXPECT_NEAR(*e.terms[2].measured, 0.75 * step_s, 1e-9);
  // The largest of several is named, and the links only where they have less than half of the rate.
  Json more = extra;
  Json small = collective;
  small["operation"] = "reduce_scatter";
  small["seconds_per_step"] = gather.sent_bytes / 4e9;
  const double rate = gather.sent_bytes / gather.seconds;
  for (const double share : {0.49, 0.51}) {
    Json& all = more["communication"]["collectives"];
    collective["seconds_per_step"] = gather.sent_bytes / (share * rate);
    small["seconds_per_step"] = 0.5 * collective["seconds_per_step"].get<double>();
    all = {small, collective};
    const std::string sentence = explained(p, 4, more).sentence;
    EXPECT_THAT(sentence, HasSubstr("most of it all_gather at "));
    EXPECT_EQ(sentence.find("links") != std::string::npos, share < 0.5) << share;
  }
  EXPECT_FALSE(explained(p, 4, Json::object()).terms[2].measured) << "several ranks may wait";
  extra["phase_seconds"] = {{"forward", 0.5 * step_s}, {"backward", 0.4375 * step_s}};
  EXPECT_NEAR(*explained(p, 4, extra).terms[1].measured, 0.1875 * step_s, 1e-9)
      << "waiting is part of the passes";
}

TEST(ExplainTest, ACollectiveThatTakesNoTimeHasNoRate) {
  Prediction p = predicted(8);
  CollectiveCost& gather = p.cost.collectives.front();
  Json collective = {{"group", gather.group}, {"operation", gather.operation}};
  collective["sent_bytes_per_step"]["max"] = gather.sent_bytes;
  collective["seconds_per_step"] = 0.0;
  Json extra;
  extra["communication"]["wait_fraction"]["mean"] = 0.75;
  const auto note = [&] {
    extra["communication"]["collectives"] = {collective};
    const Explanation e = explained(p, 4, extra);
    for (const Term& term : e.terms) {
      if (term.name == gather.operation) return term.note;
    }
    return std::string("none");
  };
  EXPECT_THAT(note(), HasSubstr("0 GB/s sent, predicted "));
  gather.seconds = 0;
  EXPECT_EQ(note(), "0 GB/s sent");
  collective["seconds_per_step"] = gather.sent_bytes / 3e9;
  EXPECT_EQ(note(), "3 GB/s sent");
  collective["group"] = "another";
  gather.seconds = 1;
  EXPECT_EQ(note(), "3 GB/s sent") << "what was predicted is of one group";
}

TEST(ExplainTest, AMachineThatIsSharedIsNamedFirst) {
  const Prediction p = predicted(1);
  Json extra = phases(p.cost.step_s, 0, 0, 0, p.cost.step_s);
  extra["run_queue_wait_share"] = 0.4;
  EXPECT_THAT(explained(p, 2, extra).sentence,
              AllOf(HasSubstr("40 %"), HasSubstr("other work shares this machine")));
  for (const auto& [share, factor] : {std::pair(0.09, 2.0), {0.1, 2.0}, {0.1, 0.5}}) {
    extra["run_queue_wait_share"] = share;
    EXPECT_EQ(explained(p, factor, extra).sentence.find("shares this machine") != std::string::npos,
              share == 0.1 && factor > 1)
        << share << factor;
  }
}

// Phases are means over the steps, so the step that they are parts of must be one, too.
TEST(ExplainTest, ThePartsOfUnevenStepsAddUpToTheStep) {
  const Prediction p = predicted(1);
  const double s = p.cost.step_s;
  Json extra = phases(0.5 * s, 1.25 * s, 0.05 * s, 0.15 * s, 0.05 * s);  // of 2 s
  extra["step_seconds"] = {s, s, s, 5 * s};
  extra["tokens"]["padded"] = 4 * 2 * 2048;
  extra["memory_bytes"]["device_peak_allocated"] = Json::array();
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("uneven-" + std::to_string(::getpid()) + ".json");
  Json result = {{"schema", "sftbench.measurement/1"}, {"status", "valid"}, {"extra", extra}};
  result["job"] = job_file(p.job);
  write_file_atomic(file, result.dump());
  const OwnMeasurement own = read_own_measurement(file.string());
  std::filesystem::remove(file);
  const Explanation e = explain(own, extra, p, Uncertainty(ResidualTable::shipped()));
  double parts = 0;
  for (const char* name :
       {"compute", "waiting for communication", "optimizer", "data", "host and rest"}) {
    for (const Term& term : e.terms) parts += term.name == name ? *term.measured : 0;
  }
  EXPECT_NEAR(*e.terms.front().measured, 2 * s, 1e-9);
  EXPECT_NEAR(parts, *e.terms.front().measured, 1e-9);
  EXPECT_TRUE(e.within) << "the median is as predicted";
  EXPECT_THAT(e.sentence, AllOf(HasSubstr("Single steps are slow: step 4 takes"),
                                HasSubstr("the interval allows")));
}

// --- own evidence --------------------------------------------------------------------------------

class OwnEvidenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("sftbench-own-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_ / "evidence");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  OwnEvidence read() const {
    const MachineOverrides overrides;
    Oracle oracle({}, {}, overrides, Catalog::shipped());
    return read_own_evidence(folder_.string(), oracle, Catalog::shipped());
  }

  static Evidence row(const std::string& source, double tokens_per_second) {
    Evidence row;
    row.source = source;
    row.stack = "sftbench";
    row.experiment = "finetune_full_benchmark-v1.0.0";
    row.outcome = EvidenceOutcome::kValid;
    row.tokens_per_second = tokens_per_second;
    row.inputs = {{"model_name", "llama3-8b"},
                  {"gpu_model", "NVIDIA-A100-SXM4-80GB"},
                  {"number_gpus", 1},
                  {"model_max_length", 1024},
                  {"batch_size", 4}};
    return row;
  }

  std::filesystem::path folder_;
};

TEST_F(OwnEvidenceTest, MeasurementsThatContradictEachOtherAreNamed) {
  write_file_atomic(
      folder_ / "evidence" / "t.jsonl",
      evidence_text({row("t.csv:3", 3500), row("t.csv:4", 3400), row("t.csv:9", 900)}));
  const OwnEvidence evidence = read();
  EXPECT_EQ(evidence.imported, 3);
  EXPECT_EQ(evidence.residuals.size(), 3u);
  ASSERT_EQ(evidence.warnings.size(), 1u);
  EXPECT_THAT(evidence.warnings.front(),
              AllOf(HasSubstr("t.csv:3 and t.csv:9"), HasSubstr("3500 and 900 tokens/s")));
}

TEST_F(OwnEvidenceTest, ARowOfMemoryAloneIsComparedToo) {
  Evidence memory = row("t.csv:3", 0);
  memory.tokens_per_second.reset();
  memory.allocated_bytes = 7e10;
  write_file_atomic(folder_ / "evidence" / "t.jsonl", evidence_text({memory}));
  const OwnEvidence evidence = read();
  EXPECT_EQ(evidence.imported, 1);
  ASSERT_EQ(evidence.residuals.size(), 1u);
  EXPECT_EQ(evidence.residuals.front().figure, Figure::kMemory);
}

// A result of llama3.1-8b on one H100: steps of four micro-batches of two rows, in seconds, and
// what its GPU drew.
Measurement result_of(std::vector<double> seconds, double watts = 0, int64_t warmup = 0) {
  Measurement result = sample_valid();
  const TrainingJob job = predicted(1).job;
  result.inputs = job.inputs;
  result.job = job_file(job);
  result.measured["gpu_power_watts_avg"] = watts;
  result.extra["tokens"]["padded"] = 4 * 2 * 1000 * (std::ssize(seconds) - warmup);
  result.extra["step_seconds"] = std::move(seconds);
  result.extra["warmup_steps"] = warmup;
  return result;
}

TEST_F(OwnEvidenceTest, AMeasurementIsItsTypicalStepBehindTheWarmUp) {
  const auto read = [this](const Measurement& result) {
    put(folder_, result, "k");
    return read_own_measurement((folder_ / result.experiment / "k.json").string());
  };
  const OwnMeasurement all = read(result_of({9, 2, 1, 4}));
  EXPECT_EQ(all.step_s, 2) << "the first step also asks for memory";
  EXPECT_EQ(all.mean_step_s, 4);
  EXPECT_EQ(all.slowest_step, 1);
  EXPECT_EQ(all.slowest_step_s, 9);
  EXPECT_EQ(all.job.data.model_max_length, 1000) << "rows on average";
  EXPECT_FALSE(all.gpu_watts || all.allocated_bytes);
  Measurement warm = result_of({9, 2, 1, 4}, 250, 1);
  warm.extra["memory_bytes"]["device_peak_allocated"] = {0, 3e9, 4e9};
  warm.extra["memory_bytes"]["host_peak_tensors"] = {5e9, 0};
  const OwnMeasurement behind = read(warm);
  EXPECT_EQ(behind.step_s, 2);
  EXPECT_DOUBLE_EQ(behind.mean_step_s, 7.0 / 3);
  EXPECT_EQ(behind.slowest_step, 4);
  EXPECT_EQ(behind.job.data.model_max_length, 1000);
  EXPECT_EQ(behind.gpu_watts, 250);
  EXPECT_EQ(behind.allocated_bytes, 5e9);
  warm.extra["memory_bytes"]["host_peak_tensors"] = {0, 0};
  warm.extra["tokens"]["padded"] = 1;
  EXPECT_EQ(read(warm).allocated_bytes, 4e9);
  EXPECT_EQ(read(warm).job.data.model_max_length, 1) << "a row has a position";
  for (const int64_t warmup : {4, 5}) {
    EXPECT_THROW(read(result_of({9, 2, 1, 4}, 0, warmup)), InputError) << warmup;
  }
  EXPECT_THROW(read(result_of({0, 0, 0})), InputError) << "steps took no time";
}

TEST_F(OwnEvidenceTest, ValidResultsOfAFolderThatWereMeasuredCount) {
  put(folder_, result_of({1, 2, 2}, 100), "a");
  put(folder_, result_of({1, 2, 2}, 300), "b");
  put(folder_, result_of({1, 2, 2}, 200), "c");
  Measurement simulated = result_of({1, 2, 2}, 900), without_steps = result_of({}, 900);
  simulated.environment["backend"] = "simulate";
  put(folder_, simulated, "d");
  put(folder_, without_steps, "e");
  put(folder_, sample_invalid(), "f");
  const OwnEvidence evidence = read();
  EXPECT_EQ(evidence.results, 3);
  EXPECT_EQ(evidence.imported, 0);
  EXPECT_EQ(evidence.residuals.size(), 3u);
  EXPECT_THAT(evidence.warnings, ::testing::IsEmpty());
  EXPECT_THAT(evidence.gpu_watts,
              ::testing::ElementsAre(::testing::Pair("NVIDIA-H100-80GB-HBM3", 200)));
  put(folder_, result_of({1, 9, 9}), "g");
  EXPECT_THAT(read().warnings, ::testing::ElementsAre(HasSubstr("say 2 and 9 s per step")));
  put(folder_, result_of({0, 0, 0}), "h");
  EXPECT_THAT(read().warnings, ::testing::Contains(HasSubstr("steps took no time")));
}

TEST_F(OwnEvidenceTest, AFolderWithoutAnythingToCompareIsRefused) {
  try {
    read();
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("nothing to compare predictions with"));
  }
  write_file_atomic(folder_ / "result.json", "{\"status\": \"failed\"}");
  EXPECT_THROW(read_own_measurement((folder_ / "result.json").string()), InputError);
  for (const char* content :
       {"[1, 2]", "3", "null", "\"valid\"", R"({"status": 3, "extra": {}})"}) {
    write_file_atomic(folder_ / "result.json", content);
    EXPECT_THROW(read_own_measurement((folder_ / "result.json").string()), InputError) << content;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
