// Adafactor's update (Shazeer and Stern 2018): the mean of squares of a matrix is kept as the means
// of its rows and of its columns. One step reads the gradient three times and holds no copy of it.
// Source: transformers.optimization.Adafactor; AdaLomo (Lv et al. 2023) has the same with a
// learning rate that follows the parameter's size.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace sftbench::ops {

// float32. Tensors of two and more dimensions are factored over the last two.
struct FactoredSquares {
  torch::Tensor rows;     // [..., R]: mean over the last dimension
  torch::Tensor columns;  // [..., C]: mean over the last but one
  torch::Tensor whole;    // of the parameter's shape, where that has fewer than two dimensions
};
FactoredSquares make_factored_squares(const torch::Tensor& parameter);

struct AdafactorStep {
  double learning_rate = 0;
  double beta2 = 0;           // of this step: 1 - t^-0.8
  double epsilon = 1e-30;     // added to the squares
  double clip_threshold = 1;  // on the root mean square of the update
  double weight_decay = 0;
  double gradient_scale = 1;
  double least_parameter_rms =
      -1;  // not negative: the rate is multiplied by max(this, RMS(parameter))
};

// Updates parameter and squares in place; the gradient is only read.
// std::invalid_argument when the gradient does not match the parameter.
void adafactor_step(const torch::Tensor& parameter, const torch::Tensor& gradient,
                    FactoredSquares& squares, const AdafactorStep& step);

}  // namespace sftbench::ops
