// States that live in pinned host memory and visit the GPU for their update: while one tensor is
// updated, the states of the next one arrive and those of the one before leave, on a stream of
// their own, through two buffers. Explicit copies in place of managed memory, which would migrate
// page by page in the middle of the kernels.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "sftbench/ops/copy_stream.h"

namespace sftbench {

class StatePager {
 public:
  // What comes and leaves together.
  struct Visitor {
    std::vector<torch::Tensor> states;     // copied back
    std::vector<torch::Tensor> read = {};  // not
  };

  explicit StatePager(torch::Device device) : device_(device), copies_(device) {}

  // The state's new home: its values in host memory, pinned where there is a GPU.
  torch::Tensor to_host(const torch::Tensor& state) const;

  // update(i, what visitor i has, on the device: states, then what is read) for each visitor in
  // turn; what it leaves in the states is copied back. REQUIRES: contiguous tensors, on the host.
  using Update = std::function<void(size_t visitor, const std::vector<torch::Tensor>& here)>;
  void visit(const std::vector<Visitor>& visitors, const Update& update);

  // Bytes of the buffers, on the device.
  int64_t buffer_bytes() const;
  // Gives them back; the next visit() makes new ones.
  void release();

 private:
  void make_room(const std::vector<Visitor>& visitors);
  std::vector<torch::Tensor> seats(const Visitor& visitor, size_t number) const;

  torch::Device device_;
  torch::Tensor buffers_[2];  // bytes, as many as the largest visitor has
  ops::CopyStream copies_;
};

}  // namespace sftbench
