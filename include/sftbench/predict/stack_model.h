// What an implementation adds to a model's products: the traffic of its element-wise kernels, the
// launches of its kernels, the copies of its optimizer. Counted from its source, not fitted to a
// model or a GPU (config/stacks.yaml). The cost model predicts this program, and with another
// profile the Python stack whose measurements others published.
//
// A pass is one read or write of a 2-byte value. The numbers of a pair are those of the forward and
// of the backward pass.
#pragma once

#include <string>
#include <vector>

#include "sftbench/variants/tuning_method.h"

namespace sftbench {

struct Passes {
  double forward = 0;
  double backward = 0;
};

struct StackModel {
  std::string name = "sftbench";
  Passes norm;        // of a value that a norm reads, plain operators
  Passes norm_fused;  // with a kernel of its own
  Passes rope;        // of a value of queries and keys
  Passes rope_fused;
  Passes activation;  // of a value of the inner width
  Passes residual;    // of a value of the hidden width, twice a layer
  Passes loss;        // of a logit
  Passes loss_fused;
  Passes adapter_in;            // of a value that goes into an adapted linear
  Passes adapter_out;           // of a value that comes out of it
  double attention_scale = 1;   // of the rate that attention reaches: older kernels are slower
  double adapter_slowdown = 1;  // of adapters' products without autocast: float32 beside bfloat16
  Passes dequantize;            // of a quantized weight, each time that it is used
  Passes quantized_in;          // of a value that goes into a quantized linear
  Passes quantized_out;         // of a value that comes out of it
  double fp8_bytes = 0;         // of a value's cast to float8, with its scale and transposed copy
  double update_scale = 1;      // traffic of the update over reading and writing everything once
  double update_copies = 0;     // of the trained parameters, while they are updated
  // Values that wait for the backward pass, over those of this engine; with fused norms.
  double kept_scale = 1;
  double kept_scale_fused = 1;
  // Of layers that are not recomputed; 0: as kept_scale.
  double kept_waiting = 0;
  double sharded_checkpoints = 1;  // copies of what a sharded layer is recomputed from
  double logit_bytes = 0;          // that the loss holds at its peak, per logit; 0: of this engine
  double logit_bytes_fused = 0;
  // Of a tile of logits that the loss overwrites with their gradient; 0: it has no tiles.
  double logit_tile_rows = 0, logit_tile_columns = 0;
  // Less, where a model's loss takes logits as they are: the float32 copies, and with fused
  // kernels.
  double narrow_logits = 0, narrow_logits_fused = 0;
  Passes launches;             // kernels of a layer
  Passes adapter_launches;     // beside these, of an adapted linear
  double expert_launches = 0;  // for each expert of a layer, in each pass
  double quantized_bytes = 0;  // of a quantized weight, with its scales; 0: of 4 bits
  double quantized_s = 0;      // of the host, for each 4-bit linear and pass
  double launch_s = 0;         // of the host, for each
  double unit_s = 0;           // that the device waits for the host, for a sharded unit and pass
  // Of the host, for each matrix of an adapter that is a sharded unit of its own; 0: none is.
  double adapter_unit_s = 0;
  double contention = 0;  // of a collective's time, by which what computes beside it takes longer
  double step_s = 0;      // of a step: what is done once
  double context_bytes = 0;            // that a process takes of its device before it allocates
  double communicator_bytes = 0;       // beside these, with several ranks
  bool recomputes_all_layers = false;  // the last one, too
  bool frees_gradients = false;        // behind the update, so that a step's first pass has none
  bool reduces_each_micro_batch = false;
  bool upcasts_shards = false;  // autocast keeps trained shards in float32
  bool adapters_in_float32 = false;
  // Frozen and trained parameters of a sharded unit are one: its gradient covers all of them.
  bool flat_gradients = false;
  // Weights of 16 bits stand beside float32 weights and states, of which each rank has a part.
  // Shards of all weights begin with stage 3 of ZeRO, until then each rank has them whole.
  bool keeps_master_weights = false;
  bool fused_by_default =
      false;  // loss, norms and positions have kernels of their own unless it is told otherwise
  // Beside 4-bit layers, the residual stream is float32 where nothing is sharded.
  bool widens_beside_quantized = false;
  // Of activations and logits, free blocks that the allocator keeps; with layers that are
  // recomputed.
  double fragmentation = 0, fragmentation_recomputed = 0;
  bool updates_in_backward = false;  // each parameter, whose gradient is freed there and then
  std::string keys;                  // what turns a stack with a switch on in its programs

  static StackModel named(const std::string& name);  // InputError with the names that there are
  static std::vector<std::string> names();
};

// What most people train with: Hugging Face's Trainer, and peft. Over weights in 4 bits,
// bitsandbytes.
inline constexpr const char *kPeoplesStack = "transformers",
                            *kNf4Stack = "transformers-bitsandbytes";

// What a program of `stack` quantizes weights with, where the method does.
std::string stack_beside(const std::string& stack, TuningMethod method);

// The same program with the loss of another one, and `stack` where there is none: Liger's, which
// holds no logits, or that of trl from 1.15 on, which has tiles of them.
inline constexpr const char *kLigerLoss = "-liger", *kTrlLoss = "-trl",
                            *kUpdatesInBackward = "-in-backward";
std::string stack_with(const std::string& stack, const std::string& loss);

}  // namespace sftbench
