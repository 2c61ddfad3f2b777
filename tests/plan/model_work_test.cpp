#include "plan/model_work.h"

#include <gtest/gtest.h>

namespace sftbench {
namespace SFTBENCH_FILE {

// Hidden 8; 4 heads of 4 with a state of 5 in one group; a shared MLP of 16. in_proj gives z (16),
// x, b and c (16 + 5 + 5) and dt (4).
TEST(ModelWorkTest, AScanCountsSevenFlopsForEachValueOfItsState) {
  TrainingJob job;
  job.model.name = "hybrid";
  job.model.hf_config = {{"model_type", "granitemoehybrid"},
                         {"vocab_size", 10},
                         {"hidden_size", 8},
                         {"num_hidden_layers", 2},
                         {"num_attention_heads", 2},
                         {"num_key_value_heads", 1},
                         {"intermediate_size", 16},
                         {"shared_intermediate_size", 16},
                         {"num_local_experts", 0},
                         {"mamba_n_heads", 4},
                         {"mamba_d_head", 4},
                         {"mamba_d_state", 5},
                         {"mamba_expand", 2},
                         {"max_position_embeddings", 64}};
  job.data.model_max_length = 32;
  job.batches.per_device_batch_size = 2;
  job.activations.gradient_checkpointing = false;
  constexpr double kPositions = 64;
  constexpr double kProducts = 2 * kPositions * (8 * 46 + 16 * 8 + 8 * 32 + 16 * 8);
  constexpr double kScan = 7 * kPositions * 4 * 4 * 5;
  const UnitFlops flops = model_work(job, Recompute::kJob).layer_flops;
  EXPECT_DOUBLE_EQ(flops.forward, kProducts + kScan);
  EXPECT_DOUBLE_EQ(flops.backward, 2 * kProducts + 2 * kScan);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
