// The implementations behind adamw.h; lists are checked. The CPU ones want contiguous tensors of a
// dtype with kernels.
#pragma once

#include "sftbench/ops/adamw.h"

namespace sftbench::ops {

using TensorList = std::vector<torch::Tensor>;

void adamw_step_cpu(const TensorList& parameters, const TensorList& gradients,
                    const TensorList& first_moments, const TensorList& second_moments,
                    const AdamWStep& step);
void adamw_step_aten(const TensorList& parameters, const TensorList& gradients,
                     const TensorList& first_moments, const TensorList& second_moments,
                     const AdamWStep& step);

double sum_of_squares_cpu(const TensorList& tensors);
double sum_of_squares_aten(const TensorList& tensors);

}  // namespace sftbench::ops
