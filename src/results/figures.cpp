#include "results/result_reader.h"

namespace sftbench {

const std::vector<FigureSpec>& figure_specs() {
  using Take = FigureSpec::Take;
  static const std::vector<FigureSpec> kSpecs = {
      {"padded_tokens_per_second", "extra", "/token_rates/padded_tokens_per_second"},
      {"padded_tokens_per_second_per_device", "extra",
       "/token_rates/padded_tokens_per_second_per_device"},
      {"loss_bearing_tokens_per_second", "extra", "/token_rates/loss_bearing_tokens_per_second"},
      {"mfu", "extra", "/mfu/value"},
      {"mfu_reason", "extra", "/mfu/reason"},
      {"llmforge_mfu", "extra", "/mfu/llmforge_value"},
      {"achieved_flops_per_device", "extra", "/mfu/achieved_flops_per_device"},
      {"peak_flops_per_device", "extra", "/mfu/peak_flops_per_device"},
      {"device_peak_allocated_bytes", "extra", "/memory_bytes/device_peak_allocated", Take::kMax},
      {"device_peak_reserved_bytes", "extra", "/memory_bytes/device_peak_reserved", Take::kMax},
      {"host_peak_rss_bytes", "extra", "/memory_bytes/host_peak_rss", Take::kMax},
      {"gpu_energy_joules", "extra", "/gpu_energy_joules", Take::kSum},
      {"strategy", "extra", "/sharding/strategy"},
      {"ranks", "extra", "/sharding/ranks"},
      {"parameter_bytes_per_rank", "extra", "/sharding/parameter_bytes"},
      {"gradient_bytes_per_rank", "extra", "/sharding/gradient_bytes"},
      {"optimizer_state_bytes_per_rank", "extra", "/sharding/optimizer_state_bytes"},
      {"gathered_peak_bytes", "extra", "/sharding/gathered_peak_bytes"},
      {"wait_fraction", "extra", "/communication/wait_fraction/mean"},
      {"sent_bytes_per_step", "extra", "/communication/sent_bytes_per_step"},
      {"expert_ranks", "extra", "/experts/ranks"},
      {"expert_imbalance_last", "extra", "/experts/imbalance", Take::kLast},
      {"busiest_expert_share_last", "extra", "/experts/busiest_share", Take::kLast},
      {"stragglers", "extra", "/communication/stragglers", Take::kCount},
      {"padded_tokens", "extra", "/tokens/padded"},
      {"dataset_tokens", "extra", "/tokens/dataset"},
      {"loss_bearing_tokens", "extra", "/tokens/loss_bearing"},
      {"steps", "extra", "/step_seconds", Take::kCount},
      {"warmup_steps", "extra", "/warmup_steps"},
      {"resumed_at_step", "extra", "/resumed/step"},
      {"loss_first", "extra", "/loss", Take::kFirst},
      {"loss_last", "extra", "/loss", Take::kLast},
      {"grad_norm_last", "extra", "/grad_norm", Take::kLast},
      {"weights_seconds", "extra", "/startup_seconds/weights"},
      {"tokenize_seconds", "extra", "/startup_seconds/tokenize"},
      {"first_step_seconds", "extra", "/startup_seconds/first_step"},
      {"data_seconds", "extra", "/phase_seconds/data"},
      {"forward_seconds", "extra", "/phase_seconds/forward"},
      {"backward_seconds", "extra", "/phase_seconds/backward"},
      {"optimizer_seconds", "extra", "/phase_seconds/optimizer"},
      {"eval_loss", "extra", "/evaluation/loss"},
      {"eval_perplexity", "extra", "/evaluation/perplexity"},
      {"best_eval_loss", "extra", "/evaluation/best_loss"},
      {"parameters_total", "extra", "/parameters/total"},
      {"parameters_trainable", "extra", "/parameters/trainable"},
      {"compute_dtype", "extra", "/compute_dtype"},
      {"padding_mode", "extra", "/padding"},
      {"padding_fraction", "extra", "/padding_fraction"},
      {"run_queue_wait_share", "extra", "/run_queue_wait_share"},
      {"f_hang", "extra", "/f_hang"},
      {"tokenizer", "extra", "/tokenizer"},
      {"warnings", "extra", "/warnings", Take::kJoined},
      {"host", "environment", "/host"},
      {"cpu", "environment", "/cpu"},
      {"cores", "environment", "/cores"},
      {"threads", "environment", "/threads"},
      {"host_memory_bytes", "environment", "/memory_bytes"},
      {"gpus", "environment", "/gpus", Take::kJoined},
      {"driver", "environment", "/driver"},
      {"cuda", "environment", "/cuda"},
      {"nccl", "environment", "/nccl"},
      {"libtorch", "environment", "/libtorch"},
      {"blas", "environment", "/blas"},
      {"onednn", "environment", "/onednn"},
      {"kernel", "environment", "/kernel"},
      {"launcher", "environment", "/launcher"},
      {"concurrent_cells", "environment", "/concurrent_cells", Take::kItself, "/neighbours"},
      {"backend", "environment", "/backend"},
      {"version", "environment", "/version"},
      {"commit", "environment", "/commit"},
      {"build_type", "environment", "/build_type"},
      {"sanitizers", "environment", "/sanitizers"},
  };
  return kSpecs;
}

const Record::Names* figure_names() {
  static const Record::Names kNames = [] {
    Record::Names names;
    for (const FigureSpec& spec : figure_specs()) names.push_back(spec.name);
    return names;
  }();
  return &kNames;
}

}  // namespace sftbench
