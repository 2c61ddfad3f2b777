#include "sftbench/ops/grouped_linear.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/gemm.h"
#include "ops/grouped_products.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/grad_accumulation.h"
#include "sftbench/ops/recomputation.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Blocks of a result that one thread computes. Large enough that packing an operand once more costs
// little, small enough that a few experts occupy many threads. A GPU's product occupies all of it,
// and costs a launch.
struct BlockLimit {
  int64_t rows, columns;
};

BlockLimit block_limit(const Tensor& on) {
  constexpr int64_t kWhole = std::numeric_limits<int32_t>::max();
  return on.is_cpu() ? BlockLimit{512, 1024} : BlockLimit{kWhole, kWhole};
}

struct ExpertBlock {
  int64_t expert;
  int64_t row, rows;        // of the result
  int64_t column, columns;  // of the result
  int64_t work;             // multiply-adds
};

// One tensor for all experts, or one for each.
class ExpertMatrices {
 public:
  explicit ExpertMatrices(std::vector<Tensor> tensors) : tensors_(std::move(tensors)) {}

  bool stacked() const {
    return tensors_.size() == 1 && tensors_[0].defined() && tensors_[0].dim() == 3;
  }
  int64_t count() const {
    return stacked() ? tensors_[0].size(0) : static_cast<int64_t>(tensors_.size());
  }
  Tensor operator[](int64_t expert) const {
    return stacked() ? tensors_[0].select(0, expert) : tensors_[static_cast<size_t>(expert)];
  }
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<Tensor> tensors_;
};

using Offsets = std::vector<int64_t>;

// All products of one call as one launch each, where that can be had.
class GroupedLaunch {
 public:
  // Of experts that lie in one tensor. `ends` [E] on the device as a former call had them, or
  // undefined.
  GroupedLaunch(const Tensor& rows, const ExpertMatrices& weights, const Offsets& offsets,
                Tensor ends = {})
      : possible_(weights.stacked() && has_grouped_products(rows, weights.tensors()[0])),
        ends_(std::move(ends)) {
    if (possible_ && !ends_.defined()) ends_ = ends_of_experts(offsets, rows.device());
  }

  explicit operator bool() const { return possible_; }
  const Tensor& ends() const { return ends_; }

 private:
  bool possible_;
  Tensor ends_;
};

int64_t first_row(const Offsets& offsets, int64_t expert) {
  return offsets[static_cast<size_t>(expert)];
}

int64_t row_count(const Offsets& offsets, int64_t expert) {
  return first_row(offsets, expert + 1) - first_row(offsets, expert);
}

void add_blocks(std::vector<ExpertBlock>& blocks, BlockLimit limit, int64_t expert, int64_t first,
                int64_t rows, int64_t columns, int64_t depth) {
  for (int64_t row = 0; row < rows; row += limit.rows) {
    for (int64_t column = 0; column < columns; column += limit.columns) {
      const int64_t r = std::min(limit.rows, rows - row);
      const int64_t c = std::min(limit.columns, columns - column);
      blocks.push_back({expert, first + row, r, column, c, r * c * depth});
    }
  }
}

// Blocks of [T, columns]: the rows of each expert.
std::vector<ExpertBlock> blocks_of_rows(const Offsets& offsets, BlockLimit limit, int64_t columns,
                                        int64_t depth) {
  std::vector<ExpertBlock> blocks;
  for (int64_t expert = 0; expert + 1 < static_cast<int64_t>(offsets.size()); ++expert) {
    add_blocks(blocks, limit, expert, first_row(offsets, expert), row_count(offsets, expert),
               columns, depth);
  }
  return blocks;
}

// Blocks of [E, rows, columns]: sums over the rows of each expert that has any.
std::vector<ExpertBlock> blocks_of_matrices(const Offsets& offsets, BlockLimit limit, int64_t rows,
                                            int64_t columns) {
  std::vector<ExpertBlock> blocks;
  for (int64_t expert = 0; expert + 1 < static_cast<int64_t>(offsets.size()); ++expert) {
    const int64_t depth = row_count(offsets, expert);
    if (depth > 0) add_blocks(blocks, limit, expert, 0, rows, columns, depth);
  }
  return blocks;
}

// Long blocks first, so that threads end together. A GPU computes one product after the other.
void run_blocks(std::vector<ExpertBlock> blocks, const Tensor& on,
                const std::function<void(const ExpertBlock&)>& multiply) {
  if (!on.is_cpu()) {
    std::for_each(blocks.begin(), blocks.end(), multiply);
    return;
  }
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const ExpertBlock& a, const ExpertBlock& b) { return a.work > b.work; });
  parallel_tasks(static_cast<int64_t>(blocks.size()), [&](int64_t i, int64_t) {
    const torch::NoGradGuard no_grad;  // of this thread
    multiply(blocks[static_cast<size_t>(i)]);
  });
}

Tensor expert_block(const Tensor& matrix, const ExpertBlock& block) {
  return matrix.narrow(0, block.row, block.rows).narrow(1, block.column, block.columns);
}

// out = x w^T + bias with rows of w [out, in], or x w + bias with columns of w [in, out].
void multiply_rows(const Tensor& out, const Tensor& x, const ExpertMatrices& weights,
                   const Offsets& offsets, const Tensor& bias, bool transposed) {
  const auto blocks = blocks_of_rows(offsets, block_limit(out), out.size(1), x.size(1));
  run_blocks(blocks, out, [&](const ExpertBlock& block) {
    const Tensor rows = x.narrow(0, block.row, block.rows);
    const Tensor w = weights[block.expert].narrow(transposed ? 0 : 1, block.column, block.columns);
    const Tensor b = bias.defined()
                         ? bias.select(0, block.expert).narrow(0, block.column, block.columns)
                         : Tensor();
    transposed ? matmul_nt_into(expert_block(out, block), rows, w, b)
               : matmul_nn_into(expert_block(out, block), rows, w, b);
  });
}

// The same products in a tensor of their own.
Tensor product_of_rows(const Tensor& x, const ExpertMatrices& weights, const Offsets& offsets,
                       const GroupedLaunch& at_once, const Tensor& bias, bool transposed) {
  if (at_once) {
    const Tensor& all = weights.tensors()[0];
    const Tensor y = grouped_rows(x, transposed ? all.transpose(1, 2) : all, at_once.ends());
    if (bias.defined()) add_expert_bias(y, bias, at_once.ends());
    return y;
  }
  Tensor y = torch::empty({x.size(0), weights[0].size(transposed ? 0 : 1)}, x.options());
  multiply_rows(y, x, weights, offsets, bias, transposed);
  return y;
}

Tensor forward_rows(const Tensor& x, const ExpertMatrices& weights, const Offsets& offsets,
                    const GroupedLaunch& at_once, const Tensor& bias, ExpertLayout layout) {
  const bool out_in = layout == ExpertLayout::kOutIn;
  if (values_needed()) return product_of_rows(x, weights, offsets, at_once, bias, out_in);
  return torch::zeros({x.size(0), weights[0].size(out_in ? 0 : 1)}, x.options());
}

// left^T right over the rows of each expert, [E, ..]; of one without rows 0.
Tensor sums_at_once(const Offsets& offsets, const GroupedLaunch& at_once, const Tensor& left,
                    const Tensor& right) {
  Tensor sums = grouped_matrices(left, right, at_once.ends());
  for (int64_t expert = 0; expert < sums.size(0); ++expert) {
    if (row_count(offsets, expert) == 0) sums[expert].zero_();
  }
  return sums;
}

// The gradient of experts in one tensor. libtorch's kernel adds to nothing.
Tensor weight_gradient_at_once(const Tensor& weights, const Offsets& offsets,
                               const GroupedLaunch& at_once, const Tensor& left,
                               const Tensor& right) {
  return accumulate_gradient(weights, [&](Tensor& target, double beta) {
    if (beta == 0.0) target = Tensor();  // its memory can be the product's
    const Tensor sums = sums_at_once(offsets, at_once, left, right);
    if (beta == 0.0) {
      target = sums;
    } else {
      target.add_(sums);
    }
  });
}

// Sums over the rows of each expert into the gradients of its weights; returns what the backward
// returns for each tensor of them.
variable_list weight_gradients(const ExpertMatrices& weights, const Offsets& offsets,
                               const Tensor& left, const Tensor& right) {
  variable_list returned, targets;
  std::vector<double> betas;
  // All products are dealt to threads together, so the targets are gathered first and filled then.
  for (const Tensor& weight : weights.tensors()) {
    if (!weight.requires_grad()) {
      returned.emplace_back();
      targets.emplace_back();
      betas.push_back(0.0);
      continue;
    }
    returned.push_back(accumulate_gradient(weight, [&](Tensor& target, double beta) {
      targets.push_back(target);
      betas.push_back(beta);
    }));
  }
  const torch::NoGradGuard no_grad;
  const auto tensor_of = [&](int64_t expert) {
    return weights.stacked() ? size_t{0} : static_cast<size_t>(expert);
  };
  const ExpertMatrices into(targets);
  for (int64_t expert = 0; expert < weights.count(); ++expert) {
    const size_t tensor = tensor_of(expert);
    if (targets[tensor].defined() && betas[tensor] == 0.0 && row_count(offsets, expert) == 0) {
      into[expert].zero_();
    }
  }
  const auto blocks = blocks_of_matrices(offsets, block_limit(left), left.size(1), right.size(1));
  run_blocks(blocks, left, [&](const ExpertBlock& block) {
    const size_t tensor = tensor_of(block.expert);
    if (!targets[tensor].defined()) return;
    const int64_t first = first_row(offsets, block.expert);
    const int64_t count = row_count(offsets, block.expert);
    const Tensor l = left.narrow(0, first, count).narrow(1, block.row, block.rows);
    const Tensor r = right.narrow(0, first, count).narrow(1, block.column, block.columns);
    matmul_tn_into(expert_block(into[block.expert], block), l, r, betas[tensor]);
  });
  return returned;
}

Tensor bias_gradient(const Tensor& bias, const Offsets& offsets, const Tensor& y_gradient) {
  return accumulate_gradient(bias, [&](Tensor& target, double beta) {
    for (int64_t expert = 0; expert < bias.size(0); ++expert) {
      Tensor row = target.select(0, expert);
      const int64_t count = row_count(offsets, expert);
      if (beta == 0.0) row.zero_();
      if (count > 0) row.add_(y_gradient.narrow(0, first_row(offsets, expert), count).sum(0));
    }
  });
}

// Sums as products with ones, of as many columns as the kernel takes.
Tensor bias_gradient_at_once(const Tensor& bias, const Offsets& offsets,
                             const GroupedLaunch& at_once, const Tensor& y_gradient) {
  constexpr int64_t kColumns = 8;
  return accumulate_gradient(bias, [&](Tensor& target, double beta) {
    const Tensor ones = torch::ones({y_gradient.size(0), kColumns}, y_gradient.options());
    const Tensor sums = sums_at_once(offsets, at_once, y_gradient, ones).select(-1, 0);
    beta == 0.0 ? target.copy_(sums) : target.add_(sums);
  });
}

bool any_requires_grad(const std::vector<Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const Tensor& tensor) { return tensor.requires_grad(); });
}

class GroupedLinear : public torch::autograd::Function<GroupedLinear> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const OptionalTensor& optional_bias,
                        at::TensorList weight_list, const Offsets& offsets, ExpertLayout layout) {
    const Tensor bias = optional_bias ? *optional_bias : Tensor();
    const ExpertMatrices weights(weight_list.vec());
    variable_list saved = {any_requires_grad(weights.tensors()) ? x : Tensor(), bias};
    saved.insert(saved.end(), weights.tensors().begin(), weights.tensors().end());
    ctx->save_for_backward(saved);
    const GroupedLaunch at_once(x, weights, offsets);
    ctx->saved_data["x_requires_grad"] = x.requires_grad();
    ctx->saved_data["offsets"] = offsets;
    ctx->saved_data["out_in"] = layout == ExpertLayout::kOutIn;
    ctx->saved_data["ends"] = at_once.ends();
    return forward_rows(x, weights, offsets, at_once, bias, layout);
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor& bias = saved[1];
    const ExpertMatrices weights({saved.begin() + 2, saved.end()});
    const Offsets offsets = ctx->saved_data["offsets"].toIntVector();
    const bool out_in = ctx->saved_data["out_in"].toBool();
    const Tensor y_gradient = output_gradients[0].contiguous();
    const GroupedLaunch at_once(y_gradient, weights, offsets, ctx->saved_data["ends"].toTensor());
    variable_list gradients(2);
    if (ctx->saved_data["x_requires_grad"].toBool()) {
      gradients[0] = product_of_rows(y_gradient, weights, offsets, at_once, {}, !out_in);
    }
    if (bias.defined() && bias.requires_grad()) {
      gradients[1] = at_once ? bias_gradient_at_once(bias, offsets, at_once, y_gradient)
                             : bias_gradient(bias, offsets, y_gradient);
    }
    variable_list of_weights(weights.tensors().size());
    if (x.defined()) {
      const Tensor &left = out_in ? y_gradient : x, &right = out_in ? x : y_gradient;
      if (at_once) {
        of_weights = {weight_gradient_at_once(weights.tensors()[0], offsets, at_once, left, right)};
      } else {
        of_weights = weight_gradients(weights, offsets, left, right);
      }
    }
    gradients.insert(gradients.end(), of_weights.begin(), of_weights.end());
    gradients.resize(gradients.size() + 2);  // of offsets and layout
    return gradients;
  }
};

void check_offsets(const Offsets& offsets, int64_t experts, const Tensor& x) {
  std::string found = "[";
  for (const int64_t offset : offsets) {
    found += (found.size() > 1 ? ", " : "") + std::to_string(offset);
  }
  const bool fits = static_cast<int64_t>(offsets.size()) == experts + 1 && offsets.front() == 0 &&
                    offsets.back() == x.size(0) && std::is_sorted(offsets.begin(), offsets.end());
  require(fits, "grouped_linear",
          "offsets must be " + std::to_string(experts + 1) + " ascending numbers from 0 to " +
              std::to_string(x.size(0)),
          found + "]");
}

Tensor apply_grouped(const Tensor& x, const std::vector<Tensor>& weights, const Offsets& offsets,
                     const Tensor& bias, ExpertLayout layout) {
  const ExpertMatrices experts(weights);
  check_offsets(offsets, experts.count(), x);
  if (bias.defined()) {
    const int64_t out = experts[0].size(layout == ExpertLayout::kOutIn ? 0 : 1);
    require_like(bias, "grouped_linear", "bias", {experts.count(), out}, x);
  }
  const Tensor rows = x.contiguous();
  const bool differentiable =
      torch::GradMode::is_enabled() &&
      (x.requires_grad() || any_requires_grad(weights) || (bias.defined() && bias.requires_grad()));
  if (!differentiable) {
    return forward_rows(rows, experts, offsets, {rows, experts, offsets}, bias, layout);
  }
  const OptionalTensor optional_bias = bias.defined() ? OptionalTensor(bias) : OptionalTensor();
  return GroupedLinear::apply(rows, optional_bias, at::TensorList(weights), offsets, layout);
}

void check_rows(const Tensor& x) {
  require_float(x, "grouped_linear", "x");
  require(x.dim() == 2, "grouped_linear", "x must be [T, in]", describe(x));
}

}  // namespace

Tensor grouped_linear(const Tensor& x, const Tensor& weights, const Offsets& offsets,
                      const Tensor& bias, ExpertLayout layout) {
  check_rows(x);
  const bool out_in = layout == ExpertLayout::kOutIn;
  require_like(weights, "grouped_linear", "weights",
               out_in ? Offsets{-1, -1, x.size(1)} : Offsets{-1, x.size(1), -1}, x);
  require(weights.size(0) > 0, "grouped_linear", "there must be an expert", describe(weights));
  return apply_grouped(x, {weights}, offsets, bias, layout);
}

Tensor grouped_linear(const Tensor& x, const std::vector<Tensor>& weights, const Offsets& offsets,
                      const Tensor& bias, ExpertLayout layout) {
  check_rows(x);
  require(!weights.empty(), "grouped_linear", "there must be an expert", "none");
  const bool out_in = layout == ExpertLayout::kOutIn;
  const int64_t out =
      weights[0].defined() && weights[0].dim() == 2 ? weights[0].size(out_in ? 0 : 1) : -1;
  for (const Tensor& weight : weights) {
    require_like(weight, "grouped_linear", "each weight",
                 out_in ? Offsets{out, x.size(1)} : Offsets{x.size(1), out}, x);
  }
  return apply_grouped(x, weights, offsets, bias, layout);
}

}  // namespace sftbench::ops
