#include "sftbench/ops/adafactor.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/cpu/update_dispatch.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

double root_mean_square(double sum_of_squares, int64_t numel) {
  return std::sqrt(sum_of_squares / static_cast<double>(numel));
}

double rate_of(const AdafactorStep& step, double parameter_rms) {
  return step.least_parameter_rms < 0
             ? step.learning_rate
             : step.learning_rate * std::max(step.least_parameter_rms, parameter_rms);
}

void move_towards(Tensor& mean, const Tensor& value, double beta2) {
  mean.mul_(beta2).add_(value, 1.0 - beta2);
}

// --- any device, any number of dimensions --------------------------------------------------------

void step_on_aten(const Tensor& parameter, const Tensor& gradient, FactoredSquares& squares,
                  const AdafactorStep& step) {
  const Tensor g = gradient.to(torch::kFloat32) * step.gradient_scale;
  const Tensor u = g.square() + step.epsilon;
  Tensor direction;
  if (squares.whole.defined()) {
    move_towards(squares.whole, u, step.beta2);
    direction = g * squares.whole.rsqrt();
  } else {
    move_towards(squares.rows, u.mean(-1), step.beta2);
    move_towards(squares.columns, u.mean(-2), step.beta2);
    const Tensor rows = (squares.rows / squares.rows.mean(-1, /*keepdim=*/true)).rsqrt();
    direction = g * (rows.unsqueeze(-1) * squares.columns.rsqrt().unsqueeze(-2));
  }
  // Stays on the device: no value is fetched.
  const Tensor rms = direction.square().mean().sqrt();
  direction = direction / (rms / step.clip_threshold).clamp_min(1.0);
  const Tensor p = parameter.to(torch::kFloat32);
  Tensor rate = torch::full({}, step.learning_rate, p.options());
  if (step.least_parameter_rms >= 0) {
    rate = rate * p.square().mean().sqrt().clamp_min(step.least_parameter_rms);
  }
  parameter.copy_(p * (1.0 - rate * step.weight_decay) - direction * rate);
}

// --- a matrix on the CPU -------------------------------------------------------------------------

// Rows are dealt in a fixed number of chunks, so that sums do not depend on the number of threads.
constexpr int64_t kChunks = 32;

class MatrixStep {
 public:
  MatrixStep(const Tensor& parameter, const Tensor& gradient)
      : parameter_(parameter),
        gradient_(gradient.contiguous()),
        kernels_(cpu_update_kernels(parameter)),
        rows_(gradient_.size(0)),
        columns_(gradient_.size(1)) {}

  void run(FactoredSquares& squares, const AdafactorStep& step) {
    collect_squares(squares, step);
    row_factors_ = (squares.rows / squares.rows.mean()).rsqrt_();
    column_factors_ = squares.columns.rsqrt();
    const double rms = root_mean_square(sum_of_direction_squares(), rows_ * columns_) *
                       std::abs(step.gradient_scale);
    const double rate = rate_of(step, parameter_rms(step));
    apply(static_cast<float>(rate * step.gradient_scale / std::max(1.0, rms / step.clip_threshold)),
          static_cast<float>(1.0 - rate * step.weight_decay));
  }

 private:
  // body(row, chunk) for each row.
  template <class Body>
  void for_each_row(const Body& body) const {
    const int64_t chunk_rows = (rows_ + kChunks - 1) / kChunks;
    at::parallel_for(0, kChunks, 1, [&](int64_t first, int64_t last) {
      for (int64_t chunk = first; chunk < last; ++chunk) {
        const int64_t end = std::min(rows_, (chunk + 1) * chunk_rows);
        for (int64_t row = chunk * chunk_rows; row < end; ++row) body(row, chunk);
      }
    });
  }

  void collect_squares(FactoredSquares& squares, const AdafactorStep& step) {
    Tensor row_sums = torch::empty({rows_}), column_sums = torch::zeros({kChunks, columns_});
    auto* sums = row_sums.data_ptr<float>();
    auto* columns = column_sums.data_ptr<float>();
    const auto scale = static_cast<float>(step.gradient_scale);
    const auto floor = static_cast<float>(step.epsilon);
    for_each_row([&](int64_t row, int64_t chunk) {
      sums[row] = kernels_.factored_squares(element(gradient_, row * columns_),
                                            columns + chunk * columns_, columns_, scale, floor);
    });
    move_towards(squares.rows, row_sums / columns_, step.beta2);
    move_towards(squares.columns, column_sums.sum(0) / rows_, step.beta2);
  }

  double sum_of_direction_squares() const {
    std::vector<double> sums(kChunks, 0.0);
    const auto* row_factors = row_factors_.data_ptr<float>();
    const auto* column_factors = column_factors_.data_ptr<float>();
    for_each_row([&](int64_t row, int64_t chunk) {
      const double factor = row_factors[row];
      sums[chunk] +=
          factor * factor *
          kernels_.factored_norm(element(gradient_, row * columns_), column_factors, columns_);
    });
    double total = 0.0;
    for (const double sum : sums) total += sum;
    return total;
  }

  double parameter_rms(const AdafactorStep& step) const {
    if (step.least_parameter_rms < 0) return 0.0;
    std::vector<double> sums(kChunks, 0.0);
    const CpuKernels& kernels = cpu_kernels(parameter_);
    for_each_row([&](int64_t row, int64_t chunk) {
      sums[chunk] += kernels.sum_of_squares(element(parameter_, row * columns_), columns_);
    });
    double total = 0.0;
    for (const double sum : sums) total += sum;
    return root_mean_square(total, rows_ * columns_);
  }

  void apply(float step_size, float decay) const {
    const auto* row_factors = row_factors_.data_ptr<float>();
    const auto* column_factors = column_factors_.data_ptr<float>();
    for_each_row([&](int64_t row, int64_t) {
      kernels_.factored_apply(element(parameter_, row * columns_),
                              element(gradient_, row * columns_), column_factors, columns_,
                              row_factors[row] * step_size, decay);
    });
  }

  const Tensor& parameter_;
  Tensor gradient_;
  const CpuUpdateKernels& kernels_;
  int64_t rows_, columns_;
  Tensor row_factors_, column_factors_;
};

}  // namespace

FactoredSquares make_factored_squares(const Tensor& parameter) {
  const auto options = parameter.options().dtype(torch::kFloat32).requires_grad(false);
  if (parameter.dim() < 2) return {{}, {}, torch::zeros(parameter.sizes(), options)};
  std::vector<int64_t> rows = parameter.sizes().vec(), columns = rows;
  rows.pop_back();
  columns.erase(columns.end() - 2);
  return {torch::zeros(rows, options), torch::zeros(columns, options), {}};
}

void adafactor_step(const Tensor& parameter, const Tensor& gradient, FactoredSquares& squares,
                    const AdafactorStep& step) {
  const torch::NoGradGuard no_grad;
  require_float(parameter, "adafactor_step", "parameter");
  require_like(gradient, "adafactor_step", "gradient", parameter.sizes().vec(), parameter);
  if (parameter.numel() == 0) return;
  if (parameter.dim() == 2 && has_cpu_kernels(parameter) && parameter.is_contiguous()) {
    MatrixStep(parameter, gradient).run(squares, step);
  } else {
    step_on_aten(parameter, gradient, squares, step);
  }
}

}  // namespace sftbench::ops
