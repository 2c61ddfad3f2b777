// Measurements as a run would leave them, with figures that are easy to recognize.
#pragma once

#include "sftbench/measure/measured_properties.h"
#include "sftbench/results/measurement.h"

namespace sftbench {

inline Measurement sample_begun() {
  Measurement m;
  m.experiment = "finetune_full_benchmark-v1.0.0";
  m.experiment_id = "SFTTrainer.finetune_full_benchmark-v1.0.0";
  m.entity_id = "model_name.m-number_gpus.0";
  m.inputs = {{"batch_size", 1},
              {"fast_kernels", nullptr},
              {"model_max_length", 512},
              {"model_name", "m"},
              {"number_gpus", 0}};
  m.environment = Json::parse(R"({
    "version": "0.1.0", "commit": "abc", "build_type": "Release", "compiler": "GCC 12.2.0",
    "sanitizers": null, "libtorch": "1.13.1", "blas": "OpenBLAS", "onednn": "v2.6.0", "cuda": null, "nccl": null,
    "driver": null, "gpus": [], "threads": 2, "cpu": "Xeon", "cores": 2, "memory_bytes": 8000000000,
    "kernel": "Linux 6.1", "host": "h", "launcher": "none"})");
  m.started_at = "2026-11-21T07:38:02.123Z";
  m.finished_at = "2026-11-21T07:38:22.456Z";
  m.command = "sftbench run space.yaml";
  return m;
}

inline Measurement sample_valid() {
  Measurement m = sample_begun();
  m.status = Status::kValid;
  for (const std::string_view name : kMeasuredProperties) m.measured[std::string(name)] = 0.0;
  m.measured["train_runtime"] = 12.5;
  m.measured["train_tokens_per_second"] = 1024.0;
  m.measured["is_valid"] = 1;
  m.extra = Json::parse(R"({
    "tokens": {"padded": 12800, "dataset": 12000, "loss_bearing": 11000},
    "token_rates": {"padded_tokens_per_second": 1024.0, "dataset_tokens_per_second": 960.0,
                    "loss_bearing_tokens_per_second": 880.0, "padded_tokens_per_second_per_device": 1024.0},
    "warmup_steps": 0, "loss": [3.0, null], "grad_norm": [1.0, 2.0], "learning_rate": [0.0, 1e-5],
    "step_seconds": [6.0, 6.5], "parameters": {"total": 10, "trainable": 10},
    "compute_dtype": "bfloat16", "padding": "longest", "warnings": [], "tokenizer": "builtin",
    "mfu": {"value": null, "model_flops_per_token": 60.0, "peak_flops_per_device": null,
            "achieved_flops_per_device": 61440.0, "llmforge_value": null, "reason": "CPU"},
    "memory_bytes": {"device_peak_allocated": [], "device_peak_reserved": [], "host_peak_rss": [1000]},
    "gpu_energy_joules": [], "system_samples": 14,
    "startup_seconds": {"weights": 0.5, "tokenize": 0.1, "first_step": 7.5}})");
  return m;
}

// Of two ranks, as measure/rank_metrics.h writes them.
inline Measurement sample_of_ranks() {
  Measurement m = sample_valid();
  const Json rank = Json::parse(R"({
    "rank": 0, "node": 0, "host": "h", "step_seconds": {"min": 6.0, "median": 6.25, "max": 6.5},
    "busy_seconds": 6.0, "wait_fraction": 0.04, "samples": 8,
    "tokens": {"padded": 6400, "dataset": 6000, "loss_bearing": 5500}, "padded_tokens_per_second": 512.0,
    "memory_bytes": {"parameters": 10, "gradients": 10, "optimizer_state": 20, "gathered_peak": 5,
                     "device_peak_allocated": null, "device_peak_reserved": null, "host_peak_rss": 1000}})");
  Json second = rank;
  second["rank"] = 1;
  m.extra["ranks"] = {rank, second};
  m.extra["communication"] = Json::parse(R"({
    "wait_fraction": {"min": 0.04, "mean": 0.06, "max": 0.08}, "sent_bytes_per_step": 30.0, "stragglers": [0],
    "collectives": [{"group": "shards", "operation": "all_gather", "calls_per_step": 6.0,
                     "sent_bytes_per_step": {"min": 30.0, "max": 30.0}, "seconds_per_step": 0.5}]})");
  m.extra["sharding"] = Json::parse(R"({
    "strategy": "FULL_SHARD", "ranks": 2, "nodes": 1, "gradient_sync": "last", "reduce_dtype": null,
    "parameter_bytes": 10, "gradient_bytes": 10, "optimizer_state_bytes": 20, "gathered_peak_bytes": 5})");
  return m;
}

// Of a mixture of experts.
inline Measurement sample_of_mixture() {
  Measurement m = sample_valid();
  m.extra["experts"] = Json::parse(R"({
    "count": 2, "per_token": 1, "ranks": 2, "tokens_per_expert": [8.0, 8.5], "imbalance": [1.5, 1.0],
    "worst_imbalance": [1.75, 1.0], "busiest_share": [0.875, 0.5], "rank_imbalance": [1.5, 1.0],
    "tokens_by_layer": [[17, 16], [14, 19]]})");
  return m;
}

// Of several runs.
inline Measurement sample_stability() {
  Measurement m = sample_begun();
  m.experiment = "finetune_full_stability-v1.0.0";
  m.status = Status::kValid;
  m.measured = {{"f_gpu_oom", 0.0}, {"f_other_error", 0.5}, {"f_no_error", 0.5}, {"is_valid", 1}};
  m.extra = Json::parse(R"({"f_hang": 0.5, "runs": [
    {"end": "no_error", "seconds": 3.5, "started_at": "2026-11-21T07:38:02.123Z", "reason": null,
     "loss": [3.0], "step_seconds": [0.5],
     "memory_bytes": {"device_peak_allocated": [], "device_peak_reserved": [], "host_peak_rss": [1000]}},
    {"end": "other_error", "seconds": 60.0, "started_at": "2026-11-21T07:38:06.000Z",
     "reason": {"code": "HANG", "message": "no sign of progress", "evidence": null, "log": "x.log"}}]})");
  return m;
}

inline Measurement sample_invalid() {
  Measurement m = sample_begun();
  set_outcome(m, Status::kInvalid,
              {ReasonCode::kOomGpu, "the GPU's memory does not suffice", "CUDA out of memory", ""});
  return m;
}

inline Measurement sample_failed() {
  Measurement m = sample_begun();
  set_outcome(
      m, Status::kFailed,
      {ReasonCode::kNccl, "communication between GPUs failed", "NCCL Error 2", "results/x.log"});
  return m;
}

}  // namespace sftbench
