// States that live in pinned host memory and visit the GPU for their update: while one tensor is
// updated, the states of the next one arrive and those of the one before leave, on a stream of
// their own, through two buffers. Explicit copies in place of managed memory, which would migrate
// page by page in the middle of the kernels.
#pragma once

#include <torch/types.h>

#include <functional>
#include <memory>
#include <vector>

namespace sftbench {

class StatePager {
 public:
  explicit StatePager(torch::Device device);
  ~StatePager();
  StatePager(const StatePager&) = delete;
  StatePager& operator=(const StatePager&) = delete;

  // The state's new home: its values in host memory, pinned where there is a GPU.
  torch::Tensor to_host(const torch::Tensor& state) const;

  // update(i, states of visitor i on the device) for each visitor in turn; what it leaves in the
  // states is copied back. REQUIRES: tensors of to_host(), as many per visitor.
  using Update = std::function<void(size_t visitor, const std::vector<torch::Tensor>& states)>;
  void visit(const std::vector<std::vector<torch::Tensor>>& visitors, const Update& update);

 private:
  struct Streams;

  void make_room(const std::vector<std::vector<torch::Tensor>>& visitors);
  std::vector<torch::Tensor> seats(const std::vector<torch::Tensor>& states, size_t visitor) const;

  torch::Device device_;
  std::vector<torch::Tensor> buffers_[2];  // of bytes, as many as the largest visitor has
  std::unique_ptr<Streams> streams_;
};

}  // namespace sftbench
