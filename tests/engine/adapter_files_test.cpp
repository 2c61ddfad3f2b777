// Adapter folders written by peft (tests/reference/adapters.py), read and written as a run does
// that resumes and saves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "engine/choose_tuning.h"
#include "engine/encode_entries.h"
#include "engine/peft_adapter.h"
#include "engine/prepare_data.h"
#include "engine/save_state.h"
#include "engine/saving_fixture.h"
#include "model/golden.h"
#include "sftbench/base/torch.h"
#include "sftbench/checkpoint/safetensors_writer.h"
#include "tuning/exact_adapters.h"

namespace sftbench {
namespace SFTBENCH_FILE {

struct Adapted {
  explicit Adapted(const std::string& name) : job(without_dropout(adapter_job(name))) {
    run = prepare_run(job, alone());
    load_adapter(adapter_folder(name) + "/initial", run, alone());
  }

  static TrainingJob without_dropout(TrainingJob job) {
    job.lora.dropout = 0;
    return job;
  }

  Json peft_config() const {
    return choose_tuning(job, prepare_tokenizer(job.model))->peft_config(*run.model);
  }

  std::vector<int32_t> invocation() const {
    return invocation_of(job, prepare_tokenizer(job.model));
  }

  // Of whole rows.
  TokenRows rows(const torch::Tensor& input_ids) const {
    TokenRows rows(input_ids);
    if (invocation().empty()) return rows;
    MicroBatch batch;
    batch.batch = input_ids.size(0);
    batch.length = input_ids.size(1);
    const torch::Tensor ids = input_ids.cpu();
    batch.input_ids.assign(ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>() + ids.numel());
    batch.labels = batch.input_ids;
    batch.lengths.assign(static_cast<size_t>(batch.batch), batch.length);
    rows.silent = read_batch(batch, {.device = input_ids.device(), .invocation = invocation()})
                      .on_device.silent;
    return rows;
  }

  TrainingJob job;
  TrainingRun run;
};

class PeftAdapter : public ::testing::TestWithParam<const char*> {};

TEST_P(PeftAdapter, GivesPeftsLogits) {
  Adapted adapted(GetParam());
  Tensors golden = read_tensors(adapter_folder(GetParam()) + "/golden.safetensors");
  const torch::NoGradGuard no_grad;
  torch::Tensor logits = adapted.run.model->logits(adapted.rows(golden.at("input_ids")));
  const torch::Tensor& expected = golden.at("logits");
  ASSERT_EQ(logits.sizes(), expected.sizes());
  EXPECT_LE(relative_difference(logits, expected), 1e-5);  // float32, in another order of sums
}

// What peft wrote, read and written again, is what peft wrote: names, shapes, dtypes and values.
TEST_P(PeftAdapter, IsWrittenAsPeftWritesIt) {
  Adapted adapted(GetParam());
  const sftbench::TemporaryFolder temporary;
  // For adapters.py --check, which loads it with peft.
  const char* kept = std::getenv("SFTBENCH_KEEP_ADAPTERS");
  const std::filesystem::path folder = kept != nullptr
                                           ? std::filesystem::path(kept) / GetParam()
                                           : std::filesystem::path(temporary / "adapter");
  std::filesystem::create_directories(folder);
  const TrainedState state = state_of(adapted.run, alone(), adapted.peft_config());
  SavedPieces pieces;
  save_model(state, "", "FULL", folder, pieces);
  TrainingJob of_some_base = adapted.job;
  of_some_base.model.weights_directory = "some/base";
  save_description(state, of_some_base, {}, folder);
  const Tensors found = read_tensors(folder / "adapter_model.safetensors");
  const Tensors expected =
      read_tensors(adapter_folder(GetParam()) + "/initial/adapter_model.safetensors");
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_EQ(found.count(name), 1u) << name;
    EXPECT_EQ(found.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(torch::equal(found.at(name), tensor)) << name;
  }
  const Json written = read_json_file((folder / "adapter_config.json").string());
  const Json peft = read_json_file(adapter_folder(GetParam()) + "/initial/adapter_config.json");
  EXPECT_EQ(written["base_model_name_or_path"], "some/base");
  for (const auto& [key, value] : written.items()) {
    if (key == "base_model_name_or_path" || key == "prompt_tuning_init") continue;
    EXPECT_EQ(value, peft.value(key, Json())) << key;
  }
  if (kept != nullptr) {
    std::filesystem::copy_file(adapter_folder(GetParam()) + "/golden.safetensors",
                               folder / "golden.safetensors",
                               std::filesystem::copy_options::overwrite_existing);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, PeftAdapter,
                         ::testing::Values("llama-lora_qv", "llama-lora_all", "llama-prompt",
                                           "mistral-lora_qv", "mistral-lora_all", "mistral-prompt",
                                           "granite-lora_qv", "granite-lora_all", "granite-prompt",
                                           "llama-alora_qv", "granite-alora_all",
                                           "granitemoehybrid-alora_all", "granite-dora"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

LoraPlan exact_plan(const Json& golden) {
  const LoraOptions options = exact_options(golden).lora;
  return {.rank = options.rank,
          .alpha = options.alpha,
          .dropout = options.dropout,
          .target_modules = options.target_modules,
          .use_rslora = options.rank_stabilized,
          .modules_to_save = options.modules_to_save,
          .rank_pattern = options.rank_pattern,
          .alpha_pattern = options.alpha_pattern};
}

// Adapters with drawn values, saved as a run does. adapters.py --check loads them with peft.
class SavedForPeft : public ::testing::TestWithParam<std::string> {};

TEST_P(SavedForPeft, HasPeftsNamesAndShapes) {
  const Json& golden = exact_cases().at(GetParam());
  TrainingJob job = job_of(golden_run(golden["model"].get<std::string>() + "-float32"));
  job.tuning = TuningMethod::kLora;
  job.lora = exact_plan(golden);
  TrainingRun run = prepare_run(job, alone());
  std::vector<NamedParameter> trained = run.model->parameters();
  std::erase_if(trained, [](const auto& named) { return !named.tensor->requires_grad(); });
  draw_adapters(trained);
  const sftbench::TemporaryFolder temporary;
  const char* kept = std::getenv("SFTBENCH_KEEP_ADAPTERS");
  const fs::path folder =
      kept != nullptr ? fs::path(kept) / GetParam() : fs::path(temporary / "adapter");
  fs::create_directories(folder);
  const Tokenizer tokenizer = prepare_tokenizer(job.model);
  const TrainedState state =
      state_of(run, alone(), choose_tuning(job, tokenizer)->peft_config(*run.model));
  SavedPieces pieces;
  save_model(state, "", "FULL", folder, pieces);
  save_description(state, job, {}, folder);
  std::map<std::string, std::vector<int64_t>> saved;
  for (const auto& [name, tensor] : read_tensors(folder / "adapter_model.safetensors"))
    saved[name] = tensor.sizes().vec();
  EXPECT_EQ(saved, saved_by_peft(golden));
  if (kept == nullptr) return;
  const torch::NoGradGuard no_grad;
  const torch::Tensor ids = Golden::matrix_of(golden["input_ids"]);
  const torch::Tensor logits = run.model->logits(ids).to(torch::kFloat32).contiguous();
  SafetensorsWriter writer(folder / "golden.safetensors",
                           {{"input_ids", StoredDtype::kI64, ids.sizes().vec()},
                            {"logits", StoredDtype::kF32, logits.sizes().vec()}});
  writer.append(ids.data_ptr(), ids.nbytes());
  writer.append(logits.data_ptr(), logits.nbytes());
  writer.finish();
}

INSTANTIATE_TEST_SUITE_P(Cases, SavedForPeft, ::testing::ValuesIn(exact_case_names()),
                         [](const auto& tested) { return test_name_of(tested.param); });

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
