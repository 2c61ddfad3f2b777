// Inputs of layers that wait for the backward pass in the host's memory (DeepSpeed's
// cpu_checkpointing). Each leaves while its layer computes, and comes back while the layer above
// does its backward pass: beside the computation, at most two of them are on the device.
#pragma once

#include <torch/types.h>

#include <vector>

#include "sftbench/ops/copy_stream.h"

namespace sftbench {

class HostInputs {
 public:
  explicit HostInputs(torch::Device device) : device_(device), copies_(device) {}

  // Forgets what was put.
  void clear();
  // The forward pass: the input of the next layer, whose computation is about to be queued.
  void put(const torch::Tensor& input);
  // The backward pass begins: what is taken first sets out.
  void begin_backward();
  // The last input that was put and not taken, on the device.
  torch::Tensor take();

  bool empty() const { return host_.empty(); }

 private:
  struct Travel {
    torch::Tensor on_device;  // undefined: nothing is under way
    ops::CopyStream::Copies copies;
  };

  void arrive(Travel& travel);
  void fetch();

  torch::Device device_;
  std::vector<torch::Tensor> host_;
  Travel leaving_, coming_;
  ops::CopyStream copies_;  // behind what it copies: it waits for that at its end
};

}  // namespace sftbench
