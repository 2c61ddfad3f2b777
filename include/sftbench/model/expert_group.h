// The ranks that divide the experts of a mixture among them. The model asks for the exchange of
// rows, and knows nothing of ranks otherwise.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace sftbench {

class ExpertGroup {
 public:
  virtual ~ExpertGroup() = default;

  virtual int64_t size() const = 0;
  virtual int64_t rank() const = 0;

  // counts [N, n] int64 on the CPU: part r is for rank r -> the parts for this rank, by rank.
  virtual torch::Tensor exchange_counts(const torch::Tensor& counts) = 0;

  // rows [sum of sent, H], contiguous: sent[r] of them go to rank r. received [sum of `received`,
  // H] has them when the returned function returns. Until then both are the exchange's.
  using Wait = std::function<void()>;
  virtual Wait start(const torch::Tensor& rows, const std::vector<int64_t>& sent,
                     const torch::Tensor& received, const std::vector<int64_t>& count) = 0;
};

}  // namespace sftbench
