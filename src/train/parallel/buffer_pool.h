// Buffers that are handed out and given back, those of one size for one another: gathered units and
// their gradients live in as many as are ever needed at once, and the next unit finds the memory of
// the one before the last.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace sftbench {

class BufferPool {
 public:
  explicit BufferPool(torch::Device device) : device_(device) {}

  // [bytes] uint8, with any content.
  torch::Tensor take(int64_t bytes) {
    taken_bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, taken_bytes_);
    std::vector<torch::Tensor>& free = free_[bytes];
    if (free.empty()) {
      return torch::empty({bytes}, torch::TensorOptions().dtype(torch::kUInt8).device(device_));
    }
    torch::Tensor buffer = std::move(free.back());
    free.pop_back();
    return buffer;
  }

  void give_back(torch::Tensor buffer) {
    taken_bytes_ -= buffer.numel();
    free_[buffer.numel()].push_back(std::move(buffer));
  }

  // The most that was handed out at once.
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  torch::Device device_;
  std::map<int64_t, std::vector<torch::Tensor>> free_;
  int64_t taken_bytes_ = 0, peak_bytes_ = 0;
};

}  // namespace sftbench
