// Buffers of one size that are handed out and given back: gathered units and their gradients live
// in as many as are ever needed at once, and the next unit finds the memory of the one before the
// last.
#pragma once

#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sftbench {

// Bytes of all buffers that the pools of a rank handed out.
class BufferAccount {
 public:
  void add(int64_t bytes) {
    bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, bytes_);
  }
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  int64_t bytes_ = 0, peak_bytes_ = 0;
};

class BufferPool {
 public:
  BufferPool(int64_t bytes, torch::Device device, BufferAccount& account)
      : bytes_(bytes), device_(device), account_(account) {}

  // [bytes] uint8, with any content.
  torch::Tensor take() {
    account_.add(bytes_);
    if (free_.empty()) {
      return torch::empty({bytes_}, torch::TensorOptions().dtype(torch::kUInt8).device(device_));
    }
    torch::Tensor buffer = free_.back();
    free_.pop_back();
    return buffer;
  }

  void give_back(torch::Tensor& buffer) {
    account_.add(-bytes_);
    free_.push_back(std::move(buffer));
    buffer.reset();
  }

 private:
  int64_t bytes_;
  torch::Device device_;
  BufferAccount& account_;
  std::vector<torch::Tensor> free_;
};

}  // namespace sftbench
