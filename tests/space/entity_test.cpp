#include "sftbench/space/entity.h"

#include <gtest/gtest.h>

#include "sftbench/base/json.h"
#include "space_text.h"

namespace sftbench {
namespace SFTBENCH_FILE {

TEST(PythonStrTest, FloatsPrintAsPythonPrintsThem) {
  const Json golden = read_json_file(SFTBENCH_TEST_DATA "/space/python_str.json");
  ASSERT_GT(golden.size(), 200U);
  for (const Json& row : golden) EXPECT_EQ(python_str(row["value"]), row["str"].get<std::string>());
}

TEST(PythonStrTest, OtherValuesPrintAsAdosIdentifiersShowThem) {
  EXPECT_EQ(python_str(nullptr), "None");
  EXPECT_EQ(python_str(true), "1");
  EXPECT_EQ(python_str(false), "0");
  EXPECT_EQ(python_str(512), "512");
  EXPECT_EQ(python_str("None"), "None");
  EXPECT_EQ(python_str(Json({"True", "True", "True"})), "['True', 'True', 'True']");
  EXPECT_EQ(python_str(Json({true, false, nullptr, 1, 0.5})), "[True, False, None, 1, 0.5]");
  EXPECT_EQ(python_str(Json({"it's", "a\\b"})), "[\"it's\", 'a\\\\b']");
}

TEST(IdentifierTest, EntityIdIsAdos) {
  const Entity entity{0,
                      {{"model_name", "smollm2-135m"},
                       {"number_gpus", 0},
                       {"model_max_length", 512},
                       {"batch_size", 1}}};
  EXPECT_EQ(entity_id(entity),
            "batch_size.1-model_max_length.512-model_name.smollm2-135m-number_gpus.0");
  Entity old = entity;
  old.ids = AdoIds::k17;
  EXPECT_EQ(entity_id(old),
            "model_name.smollm2-135m-number_gpus.0-model_max_length.512-batch_size.1");
  EXPECT_EQ(entity_id({0, {{"a", 1e-5}, {"b", 2.0}, {"c", true}, {"d", nullptr}}}),
            "a.1e-05-b.2.0-c.1-d.None");
}

TEST(IdentifierTest, ExperimentIdIsAdosAndSortsTheParameterizationSince18) {
  const Space space =
      parse(space_text(kRequired,
                       "[{property: {identifier: fms_hf_tuning_version}, value: 2.8.2}, "
                       "{property: {identifier: stop_after_seconds}, value: 30}, "
                       "{property: {identifier: flash_attn}, value: false}]"));
  ExperimentReference reference = space.experiments.front();
  const std::string now =
      "SFTTrainer.finetune_full_benchmark-v1.0.0-flash_attn.0-fms_hf_tuning_version.2.8.2-stop_"
      "after_seconds.30";
  const std::string before =
      "SFTTrainer.finetune_full_benchmark-v1.0.0-fms_hf_tuning_version.2.8.2-stop_after_seconds.30-"
      "flash_attn.0";
  EXPECT_EQ(experiment_id(reference), now);
  reference.ids = AdoIds::k17;
  EXPECT_EQ(experiment_id(reference), before);
  EXPECT_TRUE(is_experiment_id(reference, now));
  EXPECT_TRUE(is_experiment_id(reference, before));
  EXPECT_FALSE(is_experiment_id(reference, "SFTTrainer.finetune_full_benchmark-v1.0.0"));
}

TEST(RequestTest, InputsAreDefaultsThenParameterizationThenEntityInCanonicalForm) {
  const Space space = parse(
      space_text(std::string(kRequired) +
                     "  - {identifier: gradient_checkpointing, propertyDomain: {values: [0]}}\n"
                     "  - {identifier: num_train_epochs, propertyDomain: {values: [2]}}\n",
                 "[{property: {identifier: max_steps}, value: 8.0}]"));
  const MeasurementRequest request = make_request(space.entity(0), space.experiments.front());
  // Without r and lora_alpha, which have no effect on full fine-tuning.
  EXPECT_EQ(request.inputs.size(), space.experiments.front().experiment->properties.size() - 2);
  EXPECT_EQ(request.inputs.count("r"), 0U);
  EXPECT_EQ(request.entity.dump(),
            R"({"model_name":"smollm2-135m","number_gpus":0,"model_max_length":512,"batch_size":1,)"
            R"("gradient_checkpointing":0,"num_train_epochs":2})");
  EXPECT_EQ(request.inputs["max_steps"].dump(), "8");
  EXPECT_EQ(request.inputs["num_train_epochs"].dump(), "2.0");
  EXPECT_EQ(request.inputs["gradient_checkpointing"], false);
  EXPECT_EQ(request.inputs["torch_dtype"], "bfloat16");
  EXPECT_TRUE(request.inputs["gpu_model"].is_null());
  EXPECT_EQ(
      request.entity_id,
      "batch_size.1-gradient_checkpointing.0-model_max_length.512-model_name.smollm2-135m-num_"
      "train_epochs.2-number_gpus.0");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
