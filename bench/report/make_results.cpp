// Writes a directory of COUNT results as a campaign would leave it: every field of a real result
// file, twenty steps each, one in ten out of memory, one in fifty failed. The figures follow a
// formula with noise; nothing was measured.
//
// usage: make_results DIR COUNT
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "sftbench/measure/measured_properties.h"
#include "sftbench/plan/resolve.h"
#include "sftbench/results/measurement.h"
#include "sftbench/space/entity.h"

namespace {

using namespace sftbench;

constexpr const char* kExperiment = "finetune_full_benchmark-v1.0.0";
constexpr int kSteps = 20;

constexpr std::array<const char*, 4> kModels = {"smollm2-135m", "granite-3.1-2b", "llama3.1-8b",
                                                "mistral-7b-v0.1"};

// The i-th point of a space of models, lengths, GPUs and batch sizes.
PropertyValues entity(size_t i) {
  PropertyValues values;
  values.emplace_back("model_name", kModels[i % kModels.size()]);
  i /= kModels.size();
  values.emplace_back("model_max_length", 512 << (i % 6));
  i /= 6;
  values.emplace_back("number_gpus", 1 << (i % 4));
  i /= 4;
  values.emplace_back("batch_size", static_cast<int64_t>(8 + 8 * i));
  return values;
}

Json inputs(const PropertyValues& values) {
  Json all = Json::parse(R"({
    "accelerate_config_fsdp_transformer_layer_cls_to_wrap": null,
    "accelerate_config_mixed_precision": "no", "auto_stop_method": null, "batch_size": 1,
    "bf16": false, "dataset_id": "news-tokens-16384plus-entries-4096",
    "dataset_image_field": null, "dataset_kwargs_skip_prepare_dataset": false,
    "dataset_text_field": "output", "distributed_backend": "FSDP", "enable_roce": false,
    "fast_kernels": ["True", "True", "True"], "fast_moe": 0, "flash_attn": true,
    "fms_hf_tuning_version": "2.1.2", "fsdp_sharding_strategy": "FULL_SHARD",
    "fsdp_state_dict_type": "FULL_STATE_DICT", "fsdp_use_orig_params": true,
    "gpu_model": "NVIDIA-H100-80GB-HBM3", "gradient_accumulation_steps": 4,
    "gradient_checkpointing": true, "gradient_checkpointing_use_reentrant": false,
    "max_steps": 20, "model_max_length": 512, "model_name": "m", "num_train_epochs": 1.0,
    "number_gpus": 1, "number_nodes": 1, "optim": "adamw_torch",
    "remove_unused_columns": true, "stop_after_seconds": -1.0, "torch_dtype": "bfloat16"})");
  for (const auto& [name, value] : values) all[name] = value;
  return all;
}

class Writer {
 public:
  explicit Writer(std::filesystem::path directory) : folder_(std::move(directory) / kExperiment) {
    std::filesystem::create_directories(folder_);
  }

  void write(size_t i) {
    const PropertyValues values = entity(i);
    Measurement m;
    m.experiment = kExperiment;
    m.experiment_id = std::string("SFTTrainer.") + kExperiment + "-max_steps.20";
    m.entity_id = entity_id({static_cast<int64_t>(i), values});
    m.inputs = inputs(values);
    m.environment = environment_;
    m.started_at = "2026-11-21T07:38:02.123Z";
    m.finished_at = "2026-11-21T07:38:22.456Z";
    m.command = "sftbench sweep experiments/spaces/gpu_batch_sizes.yaml -o results --entity " +
                std::to_string(i);
    finish(m, i);
    const std::string key = measurement_key(kExperiment, m.inputs);
    std::ofstream file(folder_ / (key + ".json"));
    file << to_json(m).dump(2) << "\n";
    if (!file.flush()) throw std::runtime_error("cannot write to " + folder_.string());
  }

 private:
  double noisy(double value) { return value * (1 + 0.02 * normal_(generator_)); }

  void finish(Measurement& m, size_t i) {
    const std::string log = "results/" + std::string(kExperiment) + "/x.log";
    if (i % 10 == 9) {
      return set_outcome(m, Status::kInvalid,
                         {ReasonCode::kOomGpu, "the GPU's memory does not suffice",
                          "CUDA out of memory. Tried to allocate 2.00 GiB", log});
    }
    if (i % 50 == 25) {
      return set_outcome(m, Status::kFailed,
                         {ReasonCode::kNccl, "communication between GPUs failed",
                          "NCCL error: unhandled system error", log});
    }
    m.status = Status::kValid;
    const double rate = noisy(3000.0 * m.inputs["number_gpus"].get<double>());
    for (const std::string_view name : kMeasuredProperties) {
      m.measured[std::string(name)] = noisy(50);
    }
    m.measured["dataset_tokens_per_second"] = rate;
    m.measured["is_valid"] = 1;
    m.extra = Json::parse(R"({
      "tokens": {"padded": 12800, "dataset": 12000, "loss_bearing": 11000},
      "token_rates": {"padded_tokens_per_second": 1024.0, "dataset_tokens_per_second": 960.0,
        "loss_bearing_tokens_per_second": 880.0, "padded_tokens_per_second_per_device": 1024.0},
      "warmup_steps": 0, "loss": [], "grad_norm": [], "learning_rate": [], "step_seconds": [],
      "parameters": {"total": 134515008, "trainable": 134515008}, "compute_dtype": "bfloat16",
      "padding": "longest", "warnings": [], "tokenizer": "builtin",
      "mfu": {"value": 0.41, "model_flops_per_token": 6e9, "peak_flops_per_device": 989e12,
        "achieved_flops_per_device": 4.05e14, "llmforge_value": 0.38, "reason": null},
      "memory_bytes": {"device_peak_allocated": [], "device_peak_reserved": [],
        "host_peak_rss": [2147483648]},
      "gpu_energy_joules": [], "system_samples": 14,
      "startup_seconds": {"weights": 0.5, "tokenize": 0.1, "first_step": 7.5}})");
    m.extra["mfu"]["value"] = noisy(0.4);
    for (int gpu = 0; gpu < m.inputs["number_gpus"].get<int>(); ++gpu) {
      const auto bytes = static_cast<int64_t>(noisy(4e10));
      m.extra["memory_bytes"]["device_peak_allocated"].push_back(bytes);
      m.extra["memory_bytes"]["device_peak_reserved"].push_back(bytes + (1 << 20));
      m.extra["gpu_energy_joules"].push_back(noisy(5000));
    }
    for (int step = 0; step < kSteps; ++step) {
      m.extra["loss"].push_back(noisy(3.0 / (1 + 0.1 * step)));
      m.extra["grad_norm"].push_back(noisy(1));
      m.extra["learning_rate"].push_back(1e-5 * std::cos(0.07 * step));
      m.extra["step_seconds"].push_back(noisy(0.5));
    }
  }

  std::filesystem::path folder_;
  std::mt19937_64 generator_{7};
  std::normal_distribution<double> normal_;
  const Json environment_ = Json::parse(R"({
    "version": "0.1.0", "commit": "1a2b3c4d5e6f", "build_type": "Release", "compiler": "GCC 12.2.0",
    "sanitizers": null, "libtorch": "2.11.0", "blas": "MKL", "onednn": null, "cuda": "12.8",
    "nccl": "2.27", "driver": "570.86", "gpus": ["NVIDIA H100 80GB HBM3"], "threads": 8,
    "cpu": "AMD EPYC", "cores": 16, "memory_bytes": 137438953472, "kernel": "Linux 6.1",
    "host": "node-7", "launcher": "none"})");
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: make_results DIR COUNT\n");
    return 2;
  }
  Writer writer(argv[1]);
  const size_t count = std::stoul(argv[2]);
  for (size_t i = 0; i < count; ++i) writer.write(i);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "make_results: %s\n", error.what());
  return 1;
}
