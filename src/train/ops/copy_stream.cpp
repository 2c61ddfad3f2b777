#include "sftbench/ops/copy_stream.h"

#ifdef SFTBENCH_CUDA
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

#include "sftbench/base/torch.h"

namespace sftbench::ops {

#ifdef SFTBENCH_CUDA
struct CopyStream::Event {
  at::cuda::CUDAEvent done;
};

struct CopyStream::Streams {
  c10::cuda::CUDAStream copies;
  at::cuda::CUDAEvent computed;

  explicit Streams(torch::Device device)
      : copies(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {}

  c10::cuda::CUDAStream computation() const {
    return c10::cuda::getCurrentCUDAStream(copies.device_index());
  }

  Copies start(const std::function<void()>& queue) {
    computed.record(computation());
    computed.block(copies);
    const c10::cuda::CUDAStreamGuard guard(copies);
    queue();
    auto event = std::make_shared<Event>();
    event->done.record(copies);
    return event;
  }

  void wait(Event& event) const { event.done.block(computation()); }
  void finish() const { copies.synchronize(); }
};
#else
struct CopyStream::Event {};
struct CopyStream::Streams {
  explicit Streams(torch::Device) {}
  Copies start(const std::function<void()>&) { return {}; }
  void wait(Event&) const {}
  void finish() const {}
};
#endif

CopyStream::CopyStream(torch::Device device) {
  if (device.is_cuda()) streams_ = std::make_unique<Streams>(device);
}

// Whoever used it may have thrown while copies were under way.
CopyStream::~CopyStream() {
  if (!streams_) return;
  try {
    streams_->finish();
  } catch (const std::exception&) {
    // The device is lost, and with it what was under way.
  }
}

CopyStream::Copies CopyStream::start(const std::function<void()>& queue) {
  if (streams_) return streams_->start(queue);
  queue();
  return {};
}

void CopyStream::wait(const Copies& copies) const {
  if (copies) streams_->wait(*copies);
}

void CopyStream::finish() const {
  if (streams_) streams_->finish();
}

torch::Tensor empty_on_host(torch::IntArrayRef sizes, torch::Dtype dtype, torch::Device device) {
  return torch::empty(sizes, torch::TensorOptions().dtype(dtype).pinned_memory(device.is_cuda()));
}

}  // namespace sftbench::ops
