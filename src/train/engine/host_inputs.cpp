#include "engine/host_inputs.h"

#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

namespace sftbench {

// What is computed next may take the memory that a copy read.
void HostInputs::arrive(Travel& travel) {
  if (!travel.on_device.defined()) return;
  copies_.wait(travel.copies);
  travel = Travel();
}

void HostInputs::clear() {
  arrive(leaving_);
  arrive(coming_);
  host_.clear();
}

void HostInputs::put(const torch::Tensor& input) {
  const torch::NoGradGuard no_grad;
  arrive(leaving_);
  const torch::Tensor host = ops::empty_on_host(input.sizes(), input.scalar_type(), device_);
  leaving_.on_device = input.detach();
  leaving_.copies = copies_.start([&] { host.copy_(leaving_.on_device, /*non_blocking=*/true); });
  host_.push_back(host);
}

void HostInputs::begin_backward() {
  arrive(leaving_);
  fetch();
}

void HostInputs::fetch() {
  if (host_.empty() || coming_.on_device.defined()) return;
  const torch::NoGradGuard no_grad;
  coming_.on_device = torch::empty_like(host_.back(), torch::TensorOptions().device(device_));
  coming_.copies =
      copies_.start([&] { coming_.on_device.copy_(host_.back(), /*non_blocking=*/true); });
}

torch::Tensor HostInputs::take() {
  check(!host_.empty(), "an input is taken once");
  fetch();
  copies_.wait(coming_.copies);
  torch::Tensor input = std::exchange(coming_, Travel()).on_device;
  host_.pop_back();
  fetch();
  return input;
}

}  // namespace sftbench
