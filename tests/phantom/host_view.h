// Tensors of the phantom device seen from the host: their memory is host memory, so a view costs
// nothing and what is written to it is written to the tensor.
#pragma once

#include "sftbench/base/torch.h"

namespace sftbench::phantom {

// A CPU tensor over the same memory, with the same sizes and strides. Tensors of other devices and
// undefined ones as they are.
torch::Tensor host_view(const torch::Tensor& tensor);

// A tensor of the device with the values of a CPU tensor.
torch::Tensor to_device(const torch::Tensor& host, torch::Device device);

// Gives a result that had no size yet (out= of an empty tensor) its size and values.
void take_over(const torch::Tensor& host, const torch::Tensor& tensor);

}  // namespace sftbench::phantom
