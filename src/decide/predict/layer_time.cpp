#include "predict/layer_time.h"

#include <algorithm>
#include <cmath>

#include "sftbench/plan/known_model.h"

namespace sftbench {
namespace {

constexpr double kTileRows = 128, kTileColumns = 256;
constexpr double kSmallTile = 64 * 64;
constexpr double kTail = 0.5;        // of a wave, on average
constexpr double kTileFixed = 128;   // of a tile's time: it begins and ends as this much depth
constexpr double kHeadSize = 128;    // for which flash attention is fastest
constexpr double kHeadPower = 0.15;  // heads of 64 are a tenth slower (Dao 2023, figure 4)
constexpr double kNearShape = 0.05;  // squared doublings within which shapes are one
constexpr double kPassBytes = 2;     // of a bfloat16 value
// A value is written, and the product reads it.
constexpr double kDequantizedBytes = 2 * kPassBytes;
constexpr double kNibbleBytes = 0.5;
constexpr double kCastBytes = 6;  // of a float32 weight that autocast reads and writes as bfloat16

// Attention without tiles multiplies what the mask hides, too. It writes and reads each score in 16
// bit as the product leaves it, scaled and masked, in 32 bit through the softmax, and in 16 bit to
// the second product; backward the gradients of the same.
constexpr double kMaskedShare = 2, kProductBackward = 2;
constexpr double kScoreBytesForward = 2 + 4 + 4 + 6 + 6 + 2,
                 kScoreBytesBackward = 2 + 8 + 6 + 4 + 4;

constexpr double kAdapterUnits = 2;  // its two matrices
// Passes of ops/dora.cpp: over a weight that is read in 16 bit and summed in 32, and over values of
// its outputs.
constexpr double kNormBytes = 2 + 4 + 4 + 4;
constexpr Passes kMagnitudeValues = {6, 15};

class LayerClock {
 public:
  LayerClock(const TrainingJob& job, const ModelWork& work, const MachineModel& machine)
      : job_(job),
        work_(work),
        machine_(machine),
        stack_(machine.stack),
        rows_(static_cast<double>(work.positions)),
        value_bytes_(job.precision.autocast == Autocast::kNo
                         ? static_cast<double>(row_of(job.precision.torch_dtype).bytes)
                         : kPassBytes) {}

  PassSeconds layer(Recompute recompute) const {
    PassSeconds device = products();
    const double last_product = work_.last_product * 2 * rows_ / rate_of_weights();
    const double scan = work_.scan_flops / machine_.flops_per_s;
    const double scores = written_scores();
    const bool tiled = scores == 0;
    const double attention = tiled ? work_.attention_flops / attention_rate()
                                   : kMaskedShare * work_.attention_flops / machine_.flops_per_s;
    device.forward += attention + scan;
    device.backward +=
        (tiled ? kAttentionBackward : kProductBackward) * attention + kScanBackward * scan;
    device.forward += weight_seconds(stack_.dequantize.forward) +
                      elements(forward_bytes() + scores * kScoreBytesForward);
    device.backward += weight_seconds(stack_.dequantize.backward) +
                       elements(backward_bytes() + scores * kScoreBytesBackward);
    if (work_.layer_flops.recomputed > 0) {
      const bool some_products =
          recompute == Recompute::kTorchEveryOtherProduct ||
          (recompute == Recompute::kJob && !job_.activations.gradient_checkpointing);
      device.recomputed = some_products ? work_.layer_flops.recomputed / machine_.flops_per_s
                                        : device.forward - last_product;
    }
    return machine_.launches_add ? with_launches(device) : no_less_than_launches(device);
  }

  PassSeconds head() const {
    if (machine_.head_flops_per_s > 0) {  // the loss is part of the rate
      const double rate = machine_.head_flops_per_s / machine_.compute_scale;
      return {work_.head_flops.forward / rate, 0, work_.head_flops.backward / rate};
    }
    const auto vocabulary = static_cast<double>(work_.vocabulary);
    const double tail = 1 + tail_of_product(rows_, vocabulary, machine_.multiprocessors);
    const Passes& loss = job_.kernels.fused_loss ? stack_.loss_fused : stack_.loss;
    const double logits = rows_ * vocabulary * kPassBytes;
    const auto seconds = [&](double flops, double passes) {
      return machine_.compute_scale *
             (flops / machine_.flops_per_s * tail + elements(logits * passes));
    };
    const double again = stack_.logit_tile_rows > 0 ? work_.head_flops.forward : 0;
    return {seconds(work_.head_flops.forward, loss.forward), 0,
            seconds(again + work_.head_flops.backward, loss.backward)};
  }

 private:
  double attention_rate() const {
    if (machine_.attention_flops_per_s <= 0) return machine_.flops_per_s;
    const double head = std::min(1.0, work_.head_size / kHeadSize);
    return machine_.attention_flops_per_s * stack_.attention_scale * std::pow(head, kHeadPower);
  }
  // This program's attention with sinks has tiles in any case.
  double written_scores() const {
    if (work_.scores == 0 || stack_.logit_bytes > 0) return work_.scores;
    return known_model(job_.model).config.attention.sinks ? 0 : work_.scores;
  }
  double elements(double bytes) const {
    return machine_.element_bytes_per_s > 0 ? bytes / machine_.element_bytes_per_s : 0;
  }
  double rate_of_weights() const {
    return machine_.fp8_flops_per_s > 0 ? machine_.fp8_flops_per_s : machine_.flops_per_s;
  }
  double seconds(double rows, double columns, double inner, double times = 1) const {
    if (!machine_.products.empty())
      return times * 2 * rows * columns * inner / rate_of_product(machine_, rows, columns, inner);
    const double fixed = machine_.multiprocessors > 0 ? kTileFixed : 0;
    return times * 2 * rows * columns * (inner + fixed) / rate_of_weights() *
           (1 + tail_of_product(rows, columns, machine_.multiprocessors));
  }

  // Results, gradients of inputs, gradients of weights.
  void add_linear(const LinearWork& linear, PassSeconds& passes) const {
    const double rows = rows_ * linear.share_of_positions;
    passes.forward += seconds(rows, linear.out, linear.in, linear.count);
    passes.backward += seconds(rows, linear.in, linear.out, linear.count);
    if (linear.trained) passes.backward += seconds(linear.out, linear.in, rows, linear.count);
    if (machine_.fp8_flops_per_s > 0) {  // operands of the forward pass, then gradients, are cast
      const double bytes = stack_.fp8_bytes * linear.count;
      passes.forward += elements(bytes * (rows + linear.out) * linear.in);
      passes.backward += elements(bytes * rows * linear.out);
    }
    if (linear.adapter_rank <= 0) return;
    const bool float32 = job_.precision.autocast == Autocast::kNo;
    const double rate = machine_.flops_per_s / (float32 ? stack_.adapter_slowdown : 1);
    const double adapter =
        2 * linear.adapter_rank * (linear.in + linear.out) * rows * linear.count / rate;
    passes.forward += adapter;
    passes.backward += 2 * adapter;
    if (linear.has_magnitude) add_magnitude(linear, rows, rate, passes);
  }

  // Norms of the weight's rows, and under dropout a second product: of what is dropped.
  void add_magnitude(const LinearWork& linear, double rows, double rate,
                     PassSeconds& passes) const {
    const double weights = linear.in * linear.out * linear.count;
    passes.forward += 2 * linear.adapter_rank * weights / rate + elements(kNormBytes * weights);
    if (job_.lora.dropout <= 0) return;
    passes.forward += seconds(rows, linear.out, linear.in, linear.count);
    passes.backward += seconds(rows, linear.in, linear.out, linear.count);
  }

  PassSeconds products() const {
    PassSeconds passes;
    for (const LinearWork& linear : work_.linears) add_linear(linear, passes);
    return passes;
  }

  // Weights that are not used as they are kept.
  double weight_seconds(double passes) const {
    const bool casts = job_.precision.autocast != Autocast::kNo &&
                       job_.precision.torch_dtype == ParameterDtype::kFloat32;
    const double read = stack_.quantized_bytes > 0 ? stack_.quantized_bytes : kNibbleBytes;
    return elements(work_.quantized_elements * (read + kDequantizedBytes) * passes +
                    (casts ? work_.weight_elements * kCastBytes : 0));
  }

  double bytes_of(double Passes::*pass) const {
    const bool fused = job_.kernels.fused_rms_norm || work_.layer_norm;
    const Passes& norm = fused ? stack_.norm_fused : stack_.norm;
    const Passes& rope = job_.kernels.fused_rope ? stack_.rope_fused : stack_.rope;
    double values = 2 * work_.hidden * (norm.*pass + stack_.residual.*pass) +
                    work_.rotated * rope.*pass + work_.activated * stack_.activation.*pass;
    for (const LinearWork& linear : work_.linears) {
      if (work_.quantized_elements > 0) {
        values += linear.count * linear.share_of_positions *
                  (linear.in * stack_.quantized_in.*pass + linear.out * stack_.quantized_out.*pass);
      }
      if (linear.adapter_rank <= 0) continue;
      values += linear.count * linear.share_of_positions *
                (linear.in * stack_.adapter_in.*pass +
                 linear.out * (stack_.adapter_out.*pass +
                               (linear.has_magnitude ? kMagnitudeValues.*pass : 0.0)));
    }
    return rows_ * value_bytes_ * values;
  }
  double forward_bytes() const { return bytes_of(&Passes::forward); }
  double backward_bytes() const { return bytes_of(&Passes::backward); }

  double adapters() const {
    double count = 0;
    for (const LinearWork& linear : work_.linears) {
      if (linear.adapter_rank > 0) count += linear.count;
    }
    return count;
  }
  double launches_s(double Passes::*pass) const {
    double quantized = 0;
    if (work_.quantized_elements > 0) {
      for (const LinearWork& linear : work_.linears) quantized += linear.count;
    }
    const double launches = stack_.launches.*pass + adapters() * (stack_.adapter_launches.*pass) +
                            work_.experts * stack_.expert_launches;
    return launches * stack_.launch_s + quantized * stack_.quantized_s;
  }

  PassSeconds with_launches(PassSeconds device) const {
    const double scale = machine_.compute_scale;
    const bool again = device.recomputed > 0;
    return {scale * device.forward + launches_s(&Passes::forward),
            scale * device.recomputed + (again ? launches_s(&Passes::forward) : 0),
            scale * device.backward + launches_s(&Passes::backward)};
  }

  PassSeconds no_less_than_launches(PassSeconds device) const {
    if (job_.kernels.step_graph) return device;  // the host launches once a step
    const StrategyRow& strategy = row_of(job_.parallel.strategy);
    const bool sharded = strategy.shards() && is_distributed(job_);
    const double unit_s = sharded ? stack_.unit_s : 0;
    // Fused kernels reduce the gradients of adapters themselves.
    // Measured where parameters are gathered for each pass, as ZeRO 2 does not.
    const bool reshards = sharded && strategy.reshard_after_forward;
    const bool wraps = reshards && !job_.kernels.fused_rms_norm;
    const double adapters_s = wraps ? kAdapterUnits * adapters() * stack_.adapter_unit_s : 0;
    const double forward_host = launches_s(&Passes::forward) + adapters_s;
    const double backward_host = launches_s(&Passes::backward) + adapters_s;
    // The backward pass is launched behind the recomputation: one of them can hide the other's gap.
    if (device.recomputed > 0) {
      const double both = device.recomputed + device.backward;
      const double least = forward_host + backward_host;
      device.backward += std::max(0.0, least - both);
    } else {
      device.backward = std::max(device.backward, backward_host);
    }
    device.forward = std::max(device.forward, forward_host) + unit_s;
    device.backward += unit_s;
    return device;
  }

  const TrainingJob& job_;
  const ModelWork& work_;
  const MachineModel& machine_;
  const StackModel& stack_;
  double rows_;
  double value_bytes_;
};

}  // namespace

double tail_of_product(double rows, double columns, int64_t multiprocessors) {
  if (multiprocessors <= 0) return 0;
  const auto parts = static_cast<double>(multiprocessors);
  const double tiles = std::ceil(rows / kTileRows) * std::ceil(columns / kTileColumns);
  // Small products are cut into small tiles, which are half as fast, as long as there are enough.
  const double small_tiles = rows * columns / kSmallTile;
  return std::min(kTail * parts / tiles, std::max(1.0, parts / small_tiles));
}

double rate_of_product(const MachineModel& machine, double rows, double columns, double inner) {
  double weights = 0, sum = 0;
  for (const ProductRate& known : machine.products) {
    const double distance = std::pow(std::log2(rows / known.rows), 2) +
                            std::pow(std::log2(columns / known.out), 2) +
                            std::pow(std::log2(inner / known.in), 2);
    const double weight = 1 / std::pow(distance + kNearShape, 2);
    weights += weight;
    sum += weight * std::log(known.flops_per_s);
  }
  return std::exp(sum / weights);
}

WorkSeconds work_seconds(const TrainingJob& job, const ModelWork& work, const MachineModel& machine,
                         Recompute recompute) {
  const LayerClock clock(job, work, machine);
  return {clock.layer(recompute), clock.head()};
}

}  // namespace sftbench
