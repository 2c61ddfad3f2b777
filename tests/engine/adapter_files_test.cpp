// Adapter folders written by peft (tests/reference/adapters.py), read and written as a run does that
// resumes and saves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "engine/encode_entries.h"
#include "engine/peft_adapter.h"
#include "engine/prepare_data.h"
#include "engine/save_state.h"
#include "engine/saving_fixture.h"
#include "model/golden.h"
#include "sftbench/base/torch.h"

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
    TuningOptions options;
    options.lora = {job.lora.rank, job.lora.alpha,      job.lora.dropout, job.lora.target_modules,
                    invocation(),  job.lora.use_rslora, job.lora.use_dora};
    options.prompt.virtual_tokens = job.prompt.virtual_tokens;
    return make_tuning(job.tuning, options)->peft_config(*run.model);
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
  save_model(state, "FULL", folder, pieces);
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

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
