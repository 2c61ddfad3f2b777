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

// One direction for all elements, and how far to go along it. All of it stays on the device: no
// value is fetched.
Tensor rate_on_device(const AdafactorStep& step, const Tensor& sum_of_parameter_squares,
                      int64_t numel) {
  Tensor rate = torch::full({}, step.learning_rate, sum_of_parameter_squares.options());
  if (step.least_parameter_rms < 0) return rate;
  const Tensor rms = (sum_of_parameter_squares / static_cast<double>(numel)).sqrt();
  return rate * rms.clamp_min(step.least_parameter_rms);
}

Tensor clip_divisor(const AdafactorStep& step, const Tensor& sum_of_direction_squares,
                    int64_t numel) {
  const Tensor rms = (sum_of_direction_squares / static_cast<double>(numel)).sqrt();
  return (rms / step.clip_threshold).clamp_min(1.0);
}

// What is held in float32 at a time: 64 MiB of each of three tensors, however large the parameter
// is.
constexpr int64_t kBandNumel = int64_t{1} << 24;

void step_of_vector(const Tensor& parameter, const Tensor& gradient, FactoredSquares& squares,
                    const AdafactorStep& step) {
  const int64_t numel = parameter.numel();
  const auto for_each_part = [&](const auto& body) {
    for (int64_t first = 0; first < numel; first += kBandNumel) {
      const int64_t count = std::min(kBandNumel, numel - first);
      const auto part = [&](const Tensor& all) { return all.view(-1).narrow(0, first, count); };
      body(part(parameter), part(gradient).to(torch::kFloat32) * step.gradient_scale,
           part(squares.whole));
    }
  };
  Tensor of_directions = torch::zeros({}, squares.whole.options());
  Tensor of_parameters = torch::zeros_like(of_directions);
  for_each_part([&](const Tensor& p, const Tensor& g, Tensor mean) {
    move_towards(mean, g.square() + step.epsilon, step.beta2);
    of_directions.add_((g * mean.rsqrt()).square_().sum());
    if (step.least_parameter_rms >= 0) of_parameters.add_(p.to(torch::kFloat32).square().sum());
  });
  const Tensor rate = rate_on_device(step, of_parameters, numel);
  const Tensor step_size = rate / clip_divisor(step, of_directions, numel);
  const Tensor decay = 1.0 - rate * step.weight_decay;
  for_each_part([&](const Tensor& p, const Tensor& g, const Tensor& mean) {
    p.copy_((p.to(torch::kFloat32) * decay).sub_((g * mean.rsqrt()).mul_(step_size)));
  });
}

// Matrices, one after another where there are several, in bands of rows.
class BandStep {
 public:
  BandStep(const Tensor& parameter, const Tensor& gradient, const AdafactorStep& step)
      : parameter_(as_matrices(parameter)), gradient_(as_matrices(gradient)), step_(step) {}

  void run(FactoredSquares& squares) {
    collect_squares(squares);
    row_factors_ = as_rows((squares.rows / squares.rows.mean(-1, /*keepdim=*/true)).rsqrt());
    column_factors_ = as_rows(squares.columns.rsqrt());
    Tensor of_directions = torch::zeros({}, row_factors_.options());
    Tensor of_parameters = torch::zeros_like(of_directions);
    for_each_band([&](const Band& band) {
      of_directions.add_(direction(band).square_().sum());
      if (step_.least_parameter_rms >= 0)
        of_parameters.add_(band.of(parameter_).to(torch::kFloat32).square().sum());
    });
    const Tensor rate = rate_on_device(step_, of_parameters, parameter_.numel());
    const Tensor step_size = rate / clip_divisor(step_, of_directions, parameter_.numel());
    const Tensor decay = 1.0 - rate * step_.weight_decay;
    for_each_band([&](const Band& band) {
      const Tensor rows = band.of(parameter_);
      rows.copy_((rows.to(torch::kFloat32) * decay).sub_(direction(band).mul_(step_size)));
    });
  }

 private:
  struct Band {
    int64_t matrix, first_row, rows;
    // Of tensors [matrices, rows, ...].
    Tensor of(const Tensor& all) const { return all[matrix].narrow(0, first_row, rows); }
  };

  static Tensor as_matrices(const Tensor& tensor) {
    return tensor.view({-1, tensor.size(-2), tensor.size(-1)});
  }
  static Tensor as_rows(const Tensor& factors) { return factors.view({-1, factors.size(-1)}); }

  template <class Body>
  void for_each_band(const Body& body) const {
    const int64_t rows = parameter_.size(1), width = parameter_.size(2);
    const int64_t at_once = std::max<int64_t>(1, kBandNumel / width);
    for (int64_t matrix = 0; matrix < parameter_.size(0); ++matrix) {
      for (int64_t row = 0; row < rows; row += at_once)
        body(Band{matrix, row, std::min(at_once, rows - row)});
    }
  }

  Tensor scaled_gradient(const Band& band) const {
    return band.of(gradient_).to(torch::kFloat32) * step_.gradient_scale;
  }

  Tensor direction(const Band& band) const {
    return scaled_gradient(band)
        .mul_(band.of(row_factors_).unsqueeze(-1))
        .mul_(column_factors_[band.matrix]);
  }

  void collect_squares(FactoredSquares& squares) const {
    Tensor row_means = torch::empty_like(squares.rows),
           column_sums = torch::zeros_like(squares.columns);
    const Tensor rows = as_rows(row_means), columns = as_rows(column_sums);
    for_each_band([&](const Band& band) {
      const Tensor u = scaled_gradient(band).square_().add_(step_.epsilon);
      band.of(rows).copy_(u.mean(-1));
      columns[band.matrix].add_(u.sum(0));
    });
    move_towards(squares.rows, row_means, step_.beta2);
    move_towards(squares.columns, column_sums / static_cast<double>(parameter_.size(1)),
                 step_.beta2);
  }

  Tensor parameter_, gradient_;  // [matrices, rows, columns]
  const AdafactorStep& step_;
  Tensor row_factors_, column_factors_;  // [matrices, rows], [matrices, columns]
};

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
    return;
  }
  const Tensor whole = parameter.contiguous(), whole_gradient = gradient.contiguous();
  if (parameter.dim() < 2) {
    step_of_vector(whole, whole_gradient, squares, step);
  } else {
    BandStep(whole, whole_gradient, step).run(squares);
  }
  if (!whole.is_same(parameter)) parameter.copy_(whole);
}

}  // namespace sftbench::ops
