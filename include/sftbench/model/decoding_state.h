// What layers keep of the positions that rows have had, so that the next ones are computed alone:
// the cache of transformers' generate().
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <deque>

namespace sftbench {

class DecodingState {
 public:
  // Positions of each row that all layers have had, prompt tuning's virtual tokens among them.
  int64_t length() const { return length_; }

  // Layers come in the same order in each pass. What the next of them keeps, undefined in the first
  // pass.
  torch::Tensor& next() {
    if (next_ == kept_.size()) kept_.emplace_back();
    return kept_[next_++];
  }

  // A pass over so many further positions is over.
  void end_pass(int64_t positions) {
    length_ += positions;
    next_ = 0;
  }

 private:
  std::deque<torch::Tensor> kept_;
  size_t next_ = 0;
  int64_t length_ = 0;
};

}  // namespace sftbench
