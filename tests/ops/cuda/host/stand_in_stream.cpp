// Kernels that run on the host in a build for GPUs: behind what the current stream does, and into
// the graph that is being captured.
#include "ops/cuda/host/stand_in_stream.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <cuda_runtime_api.h>

#include <utility>

namespace sftbench::ops::host {

void run_on_stream(std::function<void()> kernel) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  const bool captured =
      c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
  // Work of the default stream is done when it is put (src/train/phantom/streams.h).
  if (!captured && stream != at::cuda::getDefaultCUDAStream()) stream.synchronize();
  kernel();
  if (!captured) return;
  // A graph may be launched as long as the process lives.
  auto* const kept = new std::function<void()>(std::move(kernel));
  const auto run = [](void* data) { (*static_cast<std::function<void()>*>(data))(); };
  C10_CUDA_CHECK(cudaLaunchHostFunc(stream, run, kept));
}

}  // namespace sftbench::ops::host
