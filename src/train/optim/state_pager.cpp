#include "optim/state_pager.h"

#include <algorithm>

#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

constexpr int64_t kSeatAlignmentBytes = 256;  // of a seat

int64_t seat_bytes(const torch::Tensor& tensor) {
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  return (bytes + kSeatAlignmentBytes - 1) / kSeatAlignmentBytes * kSeatAlignmentBytes;
}

int64_t seat_bytes(const std::vector<torch::Tensor>& tensors) {
  int64_t bytes = 0;
  for (const torch::Tensor& tensor : tensors) bytes += seat_bytes(tensor);
  return bytes;
}

}  // namespace

torch::Tensor StatePager::to_host(const torch::Tensor& state) const {
  const torch::Tensor host = ops::empty_on_host(state.sizes(), state.scalar_type(), device_);
  host.copy_(state);
  return host;
}

void StatePager::make_room(const std::vector<Visitor>& visitors) {
  int64_t bytes = 0;
  for (const Visitor& visitor : visitors) {
    bytes = std::max(bytes, seat_bytes(visitor.states) + seat_bytes(visitor.read));
  }
  for (torch::Tensor& buffer : buffers_) {
    if (buffer.defined() && buffer.numel() >= bytes) continue;
    buffer = torch::empty({bytes}, torch::dtype(torch::kUInt8).device(device_));
  }
}

std::vector<torch::Tensor> StatePager::seats(const Visitor& visitor, size_t number) const {
  std::vector<torch::Tensor> views;
  int64_t begin = 0;
  for (const std::vector<torch::Tensor>* tensors : {&visitor.states, &visitor.read}) {
    for (const torch::Tensor& tensor : *tensors) {
      views.push_back(buffers_[number % 2]
                          .narrow(0, begin, static_cast<int64_t>(tensor.nbytes()))
                          .view(tensor.scalar_type())
                          .view(tensor.sizes()));
      begin += seat_bytes(tensor);
    }
  }
  return views;
}

void StatePager::visit(const std::vector<Visitor>& visitors, const Update& update) {
  if (visitors.empty()) return;
  const torch::NoGradGuard no_grad;
  make_room(visitors);
  // The buffer of the next one was left by the one before the last: on the copies' stream, earlier.
  const auto fetch = [&](size_t i) {
    return copies_.start([&] {
      const Visitor& visitor = visitors[i];
      const std::vector<torch::Tensor> there = seats(visitor, i);
      const size_t states = visitor.states.size();
      for (size_t k = 0; k < there.size(); ++k) {
        there[k].copy_(k < states ? visitor.states[k] : visitor.read[k - states],
                       /*non_blocking=*/true);
      }
    });
  };
  ops::CopyStream::Copies arriving = fetch(0), left;
  for (size_t i = 0; i < visitors.size(); ++i) {
    const ops::CopyStream::Copies arrived = arriving;
    if (i + 1 < visitors.size()) arriving = fetch(i + 1);
    const std::vector<torch::Tensor> here = seats(visitors[i], i);
    copies_.wait(arrived);
    update(i, here);
    left = copies_.start([&] {
      const std::vector<torch::Tensor>& states = visitors[i].states;
      for (size_t k = 0; k < states.size(); ++k) states[k].copy_(here[k], /*non_blocking=*/true);
    });
  }
  // Then the buffers can be given back, and the host may read the states once the computation is
  // done.
  copies_.wait(left);
}

int64_t StatePager::buffer_bytes() const {
  int64_t bytes = 0;
  for (const torch::Tensor& buffer : buffers_) {
    if (buffer.defined()) bytes += static_cast<int64_t>(buffer.nbytes());
  }
  return bytes;
}

void StatePager::release() {
  for (torch::Tensor& buffer : buffers_) buffer.reset();
}

}  // namespace sftbench
