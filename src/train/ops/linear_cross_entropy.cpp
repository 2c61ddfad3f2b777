#include "sftbench/ops/linear_cross_entropy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/cross_entropy_impl.h"
#include "ops/gemm.h"
#include "ops/shapes.h"
#include "sftbench/base/cpu_instructions.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/grad_accumulation.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kOp = "linear_cross_entropy";
// In AMX tiles, products of 120 rows with a large weight take as long as products of 490
// (bench/results/kernels.md).
constexpr int64_t kChunkBytes = int64_t{32} << 20, kTileChunkBytes = int64_t{128} << 20;
// A GPU's products want many rows. Every chunk rounds the weight's gradient once more, so that of a
// weight that is trained is large enough for a whole micro-batch.
constexpr int64_t kGpuChunkBytes = int64_t{256} << 20, kGpuTrainedChunkBytes = int64_t{2} << 30;
constexpr int64_t kGpuRows = 256;  // of the tiles of its products

// How rows are divided into chunks of logits.
struct Chunks {
  int64_t rows, count, most_rows;
  bool whole_tiles;

  static Chunks of(const Tensor& hidden, const Tensor& weight, int64_t rows, bool weight_too,
                   bool capped) {
    // The slopes of a cap are wide.
    const int64_t slope_bytes = capped ? static_cast<int64_t>(sizeof(float)) : 0;
    const int64_t row_bytes = weight.size(0) * (hidden.element_size() + slope_bytes);
    if (!hidden.is_cuda()) {
      const bool tiles =
          hidden.scalar_type() == torch::kBFloat16 && cpu_instructions() == CpuInstructions::kAmx;
      const int64_t bytes = tiles ? kTileChunkBytes : kChunkBytes;
      const int64_t most = std::max<int64_t>(1, bytes / row_bytes);
      const int64_t count = (rows + most - 1) / most;
      return {rows, count, count == 0 ? 0 : (rows + count - 1) / count, false};
    }
    const int64_t bytes = weight_too ? kGpuTrainedChunkBytes : kGpuChunkBytes;
    const int64_t tiles = std::max<int64_t>(1, bytes / row_bytes / kGpuRows);
    const int64_t most = std::min(rows, tiles * kGpuRows);
    return {rows, most == 0 ? 0 : (rows + most - 1) / most, most, true};
  }

  int64_t begin(int64_t chunk) const {
    return whole_tiles ? std::min(rows, chunk * most_rows) : rows * chunk / count;
  }
};

// The positions that have a label; the others have neither loss nor gradient and are left out.
struct Labeled {
  Tensor hidden, labels;
  Tensor positions;  // undefined if all positions are labeled
};

// GPUs compute them all: to count them the host would have to wait.
Labeled labeled_only(const Tensor& hidden, const Tensor& labels) {
  if (!hidden.is_cpu()) return {hidden, labels.contiguous(), Tensor()};
  const Tensor positions = (labels != kIgnoredLabel).nonzero().squeeze(-1);
  if (positions.numel() == labels.numel()) return {hidden, labels.contiguous(), Tensor()};
  return {hidden.index_select(0, positions), labels.index_select(0, positions), positions};
}

// The kernel of GPUs makes the loss NaN instead: to look, the host would have to wait.
void check_labels(const Tensor& labels, int64_t vocabulary) {
  if (labels.numel() == 0 || !labels.is_cpu()) return;
  const int64_t lowest = labels.min().item<int64_t>(), highest = labels.max().item<int64_t>();
  require(lowest >= 0 && highest < vocabulary, kOp,
          "labels must be " + std::to_string(kIgnoredLabel) + " or in [0, " +
              std::to_string(vocabulary) + ")",
          std::to_string(lowest < 0 ? lowest : highest));
}

// One of the products that make the logits, and its gradients.
struct Factor {
  Factor(Tensor rows, const Tensor& matrix, bool x_wanted, bool weight_wanted)
      : x(std::move(rows)), weight(matrix), x_too(x_wanted), weight_too(weight_wanted) {
    adds_to_grad = weight_too && accumulates_in_place(weight) && weight.grad().defined();
    dw = adds_to_grad ? weight.grad() : weight_too ? torch::empty_like(weight) : Tensor();
    if (weight_too && !adds_to_grad && x.size(0) == 0) dw.zero_();
    if (x_too) dx = torch::empty_like(x);
  }

  void add_to(Tensor& logits, int64_t begin, int64_t end) const {
    add_matmul_nt(logits, x.slice(0, begin, end), weight);
  }
  void go_back(const Tensor& logits, int64_t begin, int64_t end, bool first) {
    if (x_too) matmul_nn_into(dx.slice(0, begin, end), logits, weight);
    if (weight_too)
      matmul_tn_into(dw, logits, x.slice(0, begin, end), adds_to_grad || !first ? 1.0 : 0.0);
  }

  Tensor x, weight;  // [labeled positions, H], [V, H]
  bool x_too, weight_too;
  bool adds_to_grad = false;
  Tensor dx, dw;  // undefined where they are not wanted
};

struct Result {
  Tensor loss;
  // Of each product: hidden's [N, H], if wanted, and the weight's [V, H], if wanted; undefined
  // where it went into weight.grad().
  std::vector<Tensor> gradients;
};

auto cross_entropy_for(const Tensor& hidden) {
#if SFTBENCH_CUDA
  if (has_cuda_kernels(hidden)) return cross_entropy_cuda;
#endif
  return has_cpu_kernels(hidden) ? cross_entropy_cpu : cross_entropy_aten;
}

// In place, and the slope there: what a gradient behind the cap is multiplied with. libtorch 1.13
// has no tanh of float16 on CPUs.
Tensor cap(Tensor& logits, const LogitForm& form) {
  Tensor slope = logits.to(wide_dtype(logits), /*non_blocking=*/false, /*copy=*/true);
  slope.mul_(form.scale / form.cap).tanh_();
  logits.copy_(slope).mul_(form.cap);
  return slope.square_().neg_().add_(1).mul_(form.scale);
}

// operands: hidden and weight of each product; wanted: which of them a gradient is wanted of.
Result compute(at::TensorList operands, const std::vector<bool>& wanted, const Tensor& labels,
               const LogitForm& form, const LossDenominator& denominator) {
  const torch::NoGradGuard no_grad;
  const Tensor &hidden = operands[0], &weight = operands[1];
  const Labeled in = labeled_only(hidden, labels);
  check_labels(in.labels, weight.size(0));
  const int64_t count = in.labels.numel(), vocabulary = weight.size(0);
  const auto chunks = Chunks::of(hidden, weight, count, wanted[1], form.cap > 0);
  const Tensor buffer = torch::empty({chunks.most_rows, vocabulary}, hidden.options());
  const auto cross_entropy = cross_entropy_for(hidden);
  const bool any = std::find(wanted.begin(), wanted.end(), true) != wanted.end();
  const double gradient_scale = any ? 1.0 / denominator.value : 0.0;

  std::vector<Factor> factors;
  for (size_t i = 0; i < operands.size(); i += 2) {
    const Tensor x = i == 0                   ? in.hidden
                     : in.positions.defined() ? operands[i].index_select(0, in.positions)
                                              : operands[i];
    factors.emplace_back(x, operands[i + 1], wanted[i], wanted[i + 1]);
  }
  Tensor loss = torch::zeros({}, hidden.options().dtype(torch::kFloat64));
  for (int64_t chunk = 0; chunk < chunks.count; ++chunk) {
    const int64_t begin = chunks.begin(chunk), end = chunks.begin(chunk + 1);
    Tensor logits = buffer.narrow(0, 0, end - begin);
    matmul_nt_into(logits, in.hidden.slice(0, begin, end), weight);
    for (size_t i = 1; i < factors.size(); ++i) factors[i].add_to(logits, begin, end);
    const Tensor slope = form.cap > 0 ? cap(logits, form) : Tensor();
    loss +=
        cross_entropy(logits, in.labels.slice(0, begin, end), slope.defined() ? 1.0 : form.scale,
                      gradient_scale, denominator.on_device);
    if (slope.defined()) logits.copy_(slope.mul_(logits));
    for (Factor& factor : factors) factor.go_back(logits, begin, end, chunk == 0);
  }
  Result result = {denominator.divide(loss).to(wide_dtype(hidden)), {}};
  for (size_t i = 0; i < factors.size(); ++i) {
    Tensor& dx = factors[i].dx;
    if (dx.defined() && in.positions.defined())
      dx = torch::zeros_like(operands[2 * i]).index_copy_(0, in.positions, dx);
    result.gradients.push_back(dx);
    result.gradients.push_back(factors[i].adds_to_grad ? Tensor() : factors[i].dw);
  }
  return result;
}

std::vector<bool> wanted_of(at::TensorList operands) {
  std::vector<bool> wanted;
  for (const Tensor& operand : operands) wanted.push_back(operand.requires_grad());
  return wanted;
}

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static Tensor forward(AutogradContext* ctx, at::TensorList operands, const Tensor& labels,
                        const LogitForm& form, const LossDenominator& denominator) {
    Result result = compute(operands, wanted_of(operands), labels, form, denominator);
    variable_list saved = std::move(result.gradients);
    for (size_t i = 1; i < operands.size(); i += 2) saved.push_back(operands[i]);
    ctx->save_for_backward(std::move(saved));
    return result.loss;
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const size_t count =
        saved.size() / 3;  // products, with a hidden's, a weight's gradient and a weight each
    variable_list gradients(saved.begin(), saved.begin() + static_cast<ptrdiff_t>(2 * count));
    for (size_t i = 0; i < count; ++i) {
      const Tensor& weight = saved[2 * count + i];
      Tensor& weight_gradient = gradients[2 * i + 1];
      scale(gradients[2 * i], weight_gradient, weight, output_gradients[0]);
      if (!weight_gradient.defined() || !accumulates_in_place(weight)) continue;
      // A tied embedding, or another loss, may have made the gradient meanwhile.
      Tensor& grad = weight.mutable_grad();
      grad = grad.defined() ? grad.add_(weight_gradient) : weight_gradient;
      weight_gradient = Tensor();
    }
    gradients.resize(gradients.size() + 3);  // labels, form, denominator
    return gradients;
  }

 private:
  // On a GPU the host does not wait for the number.
  static void scale(Tensor& hidden_gradient, Tensor& weight_gradient, const Tensor& weight,
                    const Tensor& upstream) {
    const auto apply = [&](const auto& factor) {
      if (hidden_gradient.defined()) hidden_gradient.mul_(factor);
      if (weight_gradient.defined()) weight_gradient.mul_(factor);
    };
    if (!upstream.is_cpu()) return apply(upstream);
    const double factor = upstream.item<double>();
    if (factor == 1.0) return;
    if (weight.requires_grad() && !weight_gradient.defined()) {
      throw std::logic_error(
          "linear_cross_entropy: the weight's gradient was added to in the forward pass, so the "
          "loss must be the "
          "root of backward() with gradient 1 (a loss scale goes into the denominator), got " +
          std::to_string(factor));
    }
    apply(factor);
  }
};

}  // namespace

Tensor LossDenominator::divide(const Tensor& numerator) const {
  return on_device.defined() ? numerator / on_device.to(numerator.scalar_type())
                             : numerator / value;
}

Tensor LogitForm::of(const Tensor& logits) const {
  const Tensor scaled = scale == 1.0 ? logits : logits * scale;
  if (cap == 0) return scaled;
  return torch::tanh((scaled / cap).to(wide_dtype(scaled))).to(scaled.scalar_type()) * cap;
}

Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                            const LogitForm& form, const LossDenominator& denominator,
                            const LogitAddend& addend) {
  require_float(hidden, kOp, "hidden");
  require(!denominator.on_device.defined() || has_cuda_kernels(hidden), kOp,
          "a denominator on a device needs kernels there", describe(hidden));
  require(hidden.dim() == 2, kOp, "hidden must be [N, H]", describe(hidden));
  require_like(weight, kOp, "weight", {-1, hidden.size(1)}, hidden);
  require(
      labels.defined() && labels.scalar_type() == torch::kInt64 && labels.dim() == 1 &&
          labels.size(0) == hidden.size(0) && labels.device() == hidden.device(),
      kOp,
      "labels must be int64 [" + std::to_string(hidden.size(0)) + "] on " + hidden.device().str(),
      describe(labels));
  variable_list operands = {hidden.contiguous(), weight};
  if (addend.hidden.defined()) {
    require_like(addend.hidden, kOp, "addend.hidden", {hidden.size(0), -1}, hidden);
    require_like(addend.weight, kOp, "addend.weight", {weight.size(0), addend.hidden.size(1)},
                 hidden);
    operands.insert(operands.end(), {addend.hidden.contiguous(), addend.weight.contiguous()});
  }
  const std::vector<bool> wanted = wanted_of(operands);
  const bool any = std::find(wanted.begin(), wanted.end(), true) != wanted.end();
  if (any && torch::GradMode::is_enabled())
    return LinearCrossEntropy::apply(at::TensorList(operands), labels, form, denominator);
  return compute(operands, std::vector<bool>(operands.size(), false), labels, form, denominator)
      .loss;
}

}  // namespace sftbench::ops
