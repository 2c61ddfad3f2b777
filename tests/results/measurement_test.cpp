#include "sftbench/results/measurement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/sample_measurement.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;
using testing::StartsWith;

TEST(MeasurementTest, SurvivesTheWayThroughJson) {
  for (const Measurement& m : {sample_valid(), sample_invalid(), sample_failed()}) {
    const Json json = to_json(m);
    EXPECT_EQ(to_json(measurement_from_json(Json::parse(json.dump()), "file")), json);
  }
}

TEST(MeasurementTest, EachOutcomeHasItsExitStatusAndProperties) {
  EXPECT_EQ(exit_code(Status::kValid), 0);
  EXPECT_EQ(exit_code(Status::kInvalid), 3);
  EXPECT_EQ(exit_code(Status::kFailed), 4);
  EXPECT_EQ(sample_invalid().measured, Json::parse(R"({"is_valid": 0})"));
  EXPECT_EQ(sample_failed().measured, Json::object());
  Measurement m;
  EXPECT_THROW(set_outcome(m, Status::kValid, {}), std::logic_error);
}

std::string error_of(Json json) {
  try {
    measurement_from_json(json, "r.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(MeasurementTest, ADefectiveFileIsNamedByItsKey) {
  Json json = to_json(sample_failed());
  json.erase("entity_id");
  EXPECT_EQ(error_of(json), "r.json: entity_id: the key is missing");
  json = to_json(sample_failed());
  json["schema"] = "sftbench.measurement/9";
  EXPECT_EQ(error_of(json),
            "r.json: schema: found 'sftbench.measurement/9'; expected 'sftbench.measurement/1'");
  json = to_json(sample_failed());
  json["reason"]["code"] = "BAD_LUCK";
  EXPECT_EQ(error_of(json), "r.json: reason.code: unknown value 'BAD_LUCK'");
  json = to_json(sample_failed());
  json["inputs"] = 7;
  EXPECT_EQ(error_of(json), "r.json: inputs: found 7; expected an object");
  json = to_json(sample_failed());
  json["command"] = nullptr;
  EXPECT_EQ(error_of(json), "r.json: command: found null; expected a text");
}

TEST(MeasurementTest, PeopleReadPropertiesWithUnits) {
  const std::string text = render(sample_valid(), OutputFormat::kTable);
  EXPECT_THAT(text, StartsWith("experiment  SFTTrainer.finetune_full_benchmark-v1.0.0\n"
                               "entity      model_name.m-number_gpus.0\n"
                               "status      valid\n"
                               "speed       1.02 k tokens/s, 6.25 s per step (median of 2 steps)\n"
                               "loss        3 at the first step, not finite at the last\n"
                               "memory      1000 B of the host at the peak of a process\n"
                               "MFU         none: CPU\n"
                               "energy      none: no GPU took part\n\n"
                               "property"));
  EXPECT_THAT(text, testing::Not(HasSubstr("gpu_power_watts_avg")));
  EXPECT_THAT(text, testing::EndsWith("and 13 of GPUs, all 0: no GPU took part\n"));
  EXPECT_THAT(text, testing::ContainsRegex("train_runtime +12\\.5  s\n"));
  EXPECT_THAT(text, testing::ContainsRegex("train_tokens_per_second +1024  tokens/s\n"));
}

TEST(MeasurementTest, PeopleReadWhatGpusDid) {
  Measurement m = sample_valid();
  m.inputs["number_gpus"] = 2;
  m.measured["train_tokens_per_gpu_per_second"] = 512.0;
  m.extra["warmup_steps"] = 1;
  m.extra["phase_seconds"] = {
      {"data", 0.01}, {"forward", 2}, {"backward", 3.6}, {"optimizer", 0.8}, {"rest", 0.09}};
  m.extra["evaluation"] = {
      {"loss", 2.5}, {"perplexity", 12.25}, {"entries", 16}, {"best_loss", 2.25}, {"best_step", 4}};
  m.extra["mfu"]["value"] = 0.4312;
  m.extra["memory_bytes"]["device_peak_allocated"] = {3221225472, 1073741824};
  m.extra["gpu_energy_joules"] = {1200.0, 1300.0};
  const std::string text = render(m, OutputFormat::kTable);
  EXPECT_THAT(text,
              HasSubstr("speed       1.02 k tokens/s (512 per GPU), 6.5 s per step (median of "
                        "1 step)\n"));
  EXPECT_THAT(text,
              HasSubstr("phases      forward 31 %, backward 55 %, optimizer 12 %, rest 1 %\n"));
  EXPECT_THAT(text, HasSubstr("evaluation  loss 2.5, perplexity 12.25 at the end (16 entries); the "
                              "least loss was 2.25, after step 4\n"));
  EXPECT_THAT(text, HasSubstr("memory      3.00 GiB of a GPU at the peak\n"));
  EXPECT_THAT(text, HasSubstr("MFU         43.1 %\n"));
  EXPECT_THAT(text, HasSubstr("energy      2.50 kJ by GPUs\n"));
  EXPECT_THAT(text, testing::ContainsRegex("gpu_power_watts_avg +0  W\n"));
}

TEST(MeasurementTest, ALossThatIsTheLeastIsSaidOnce) {
  Measurement m = sample_valid();
  m.extra["evaluation"] = {
      {"loss", 2.5}, {"perplexity", 12.25}, {"entries", 16}, {"best_loss", 2.5}, {"best_step", 4}};
  EXPECT_THAT(render(m, OutputFormat::kTable), testing::Not(HasSubstr("the least loss")));
}

TEST(MeasurementTest, SaysWhatTokensCostWhereThereIsAPrice) {
  Measurement m = sample_valid();
  m.measured["dataset_tokens_per_second"] = 1000.0;  // 3.6 million an hour
  EXPECT_THAT(
      render(m, OutputFormat::kTable, DevicePrices::all_at(1.8)),
      HasSubstr("cost        0.5 USD per million dataset tokens, 3.60 M of them in an hour, "
                "at 1.8 USD an hour for the machine\n"));
  m.inputs["number_gpus"] = 2;
  const DevicePrices prices = DevicePrices::all_at(1.8);
  EXPECT_THAT(render(m, OutputFormat::kTable, prices),
              HasSubstr("cost        1 USD per million dataset tokens, 3.60 M of them in an hour, "
                        "at 1.8 USD an hour for each of 2 GPUs\n"));
  const Json json = Json::parse(render(m, OutputFormat::kJson, prices));
  EXPECT_EQ(json["cost"]["per_million_dataset_tokens"], 1.0);
  EXPECT_EQ(json["cost"]["dataset_tokens_per_hour"], 3.6e6);
  EXPECT_EQ(json["cost"]["devices"], 2.0);
  EXPECT_THAT(render(m, OutputFormat::kCsv, prices), HasSubstr("usd_per_million_dataset_tokens"));
  EXPECT_FALSE(Json::parse(render(m, OutputFormat::kJson)).contains("cost"));
  EXPECT_THAT(render(m, OutputFormat::kTable), testing::Not(HasSubstr("\ncost ")));
  EXPECT_THAT(render(sample_failed(), OutputFormat::kTable, prices),
              testing::Not(HasSubstr("\ncost ")));
}

TEST(MeasurementTest, PeopleReadThatTheMachineWasBusy) {
  Measurement m = sample_valid();
  m.extra["run_queue_wait_share"] = 0.04;
  EXPECT_EQ(render(m, OutputFormat::kTable), render(sample_valid(), OutputFormat::kTable));
  m.extra["run_queue_wait_share"] = 0.38;
  EXPECT_THAT(render(m, OutputFormat::kTable),
              HasSubstr("warning     this machine was busy: threads waited 38 % of the training "
                        "time for a processor; speed is too low, and times are too high\n"));
}

TEST(MeasurementTest, PeopleReadWhyThereAreNoProperties) {
  EXPECT_EQ(render(sample_failed(), OutputFormat::kTable),
            "experiment  SFTTrainer.finetune_full_benchmark-v1.0.0\n"
            "entity      model_name.m-number_gpus.0\n"
            "status      failed: NCCL: communication between GPUs failed\n"
            "evidence    NCCL Error 2\n"
            "log         results/x.log\n");
}

TEST(MeasurementTest, CsvHasOneRowWithAColumnForEveryProperty) {
  const std::string text = render(sample_invalid(), OutputFormat::kCsv);
  EXPECT_THAT(text,
              StartsWith("experiment_id,entity_id,status,reason,gpu_compute_utilization_min,"));
  EXPECT_THAT(text, HasSubstr("\nSFTTrainer.finetune_full_benchmark-v1.0.0,"
                              "model_name.m-number_gpus.0,invalid,OOM_GPU,,"));
  EXPECT_THAT(text, testing::EndsWith(",,0\n"));
}

TEST(MeasurementTest, JsonIsTheWholeMeasurement) {
  EXPECT_EQ(Json::parse(render(sample_valid(), OutputFormat::kJson)), to_json(sample_valid()));
  const std::string line = render(sample_valid(), OutputFormat::kJsonLines);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(Json::parse(line), to_json(sample_valid()));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
