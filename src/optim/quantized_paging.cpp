#include "optim/quantized_paging.h"

#ifdef SFTBENCH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include <algorithm>

#include "sftbench/base/torch.h"

namespace sftbench {

// The copies' stream and what the two streams tell each other. On a CPU everything happens in
// order already.
#ifdef SFTBENCH_CUDA
struct StatePager::Streams {
  c10::cuda::CUDAStream copies;
  at::cuda::CUDAEvent arrived[2], updated[2], allocated, left;

  explicit Streams(torch::Device device)
      : copies(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {}

  c10::cuda::CUDAStream updates() const {
    return c10::cuda::getCurrentCUDAStream(copies.device_index());
  }
  void copies_wait_for_allocation() {
    allocated.record(updates());
    allocated.block(copies);
  }
  template <class Copies>
  void copy(const Copies& run) {
    const c10::cuda::CUDAStreamGuard guard(copies);
    run();
  }
  void note_arrival(size_t buffer) { arrived[buffer].record(copies); }
  void updates_wait_for_arrival(size_t buffer) { arrived[buffer].block(updates()); }
  void copies_wait_for_update(size_t buffer) {
    updated[buffer].record(updates());
    updated[buffer].block(copies);
  }
  // Then the buffers can be given back, and the host may read the states once the updates' stream is
  // done.
  void updates_wait_for_copies() {
    left.record(copies);
    left.block(updates());
  }
  void finish() { copies.synchronize(); }
};
#else
struct StatePager::Streams {
  explicit Streams(torch::Device) {}
  void copies_wait_for_allocation() {}
  template <class Copies>
  void copy(const Copies& run) {
    run();
  }
  void note_arrival(size_t) {}
  void updates_wait_for_arrival(size_t) {}
  void copies_wait_for_update(size_t) {}
  void updates_wait_for_copies() {}
  void finish() {}
};
#endif

StatePager::StatePager(torch::Device device)
    : device_(device), streams_(std::make_unique<Streams>(device)) {}

// An update may have thrown while states were on their way.
StatePager::~StatePager() {
  try {
    streams_->finish();
  } catch (const std::exception&) {
    // The device is lost, and with it what was under way.
  }
}

torch::Tensor StatePager::to_host(const torch::Tensor& state) const {
  const auto options =
      torch::TensorOptions().dtype(state.scalar_type()).pinned_memory(device_.is_cuda());
  const torch::Tensor host = torch::empty(state.sizes(), options);
  host.copy_(state);
  return host;
}

void StatePager::make_room(const std::vector<std::vector<torch::Tensor>>& visitors) {
  const size_t count = visitors.front().size();
  for (auto& buffer : buffers_) {
    buffer.resize(count);
    for (size_t k = 0; k < count; ++k) {
      int64_t bytes = 0;
      for (const auto& states : visitors) {
        bytes = std::max(bytes, static_cast<int64_t>(states[k].nbytes()));
      }
      if (buffer[k].defined() && buffer[k].numel() >= bytes) continue;
      buffer[k] = torch::empty({bytes}, torch::dtype(torch::kUInt8).device(device_));
    }
  }
  streams_->copies_wait_for_allocation();
}

std::vector<torch::Tensor> StatePager::seats(const std::vector<torch::Tensor>& states,
                                             size_t visitor) const {
  std::vector<torch::Tensor> views;
  for (size_t k = 0; k < states.size(); ++k) {
    const torch::Tensor bytes =
        buffers_[visitor % 2][k].narrow(0, 0, static_cast<int64_t>(states[k].nbytes()));
    views.push_back(bytes.view(states[k].scalar_type()).view(states[k].sizes()));
  }
  return views;
}

void StatePager::visit(const std::vector<std::vector<torch::Tensor>>& visitors,
                       const Update& update) {
  if (visitors.empty()) return;
  const torch::NoGradGuard no_grad;
  make_room(visitors);
  const auto fetch = [&](size_t i) {
    streams_->copy([&] {
      const std::vector<torch::Tensor> there = seats(visitors[i], i);
      for (size_t k = 0; k < there.size(); ++k) there[k].copy_(visitors[i][k], true);
    });
    streams_->note_arrival(i % 2);
  };
  fetch(0);
  for (size_t i = 0; i < visitors.size(); ++i) {
    // The buffer of the next one was left by the one before: on the copies' stream, earlier.
    if (i + 1 < visitors.size()) fetch(i + 1);
    const std::vector<torch::Tensor> here = seats(visitors[i], i);
    streams_->updates_wait_for_arrival(i % 2);
    update(i, here);
    streams_->copies_wait_for_update(i % 2);
    streams_->copy([&] {
      for (size_t k = 0; k < here.size(); ++k) visitors[i][k].copy_(here[k], true);
    });
  }
  streams_->updates_wait_for_copies();
}

}  // namespace sftbench
