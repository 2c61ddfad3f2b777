#include "phantom/recorded.h"

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <cuda_runtime_api.h>

#include <utility>

namespace sftbench::phantom {

bool is_captured() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

void put_into_graph(std::function<void()> work) {
  // A graph may be launched as long as the process lives.
  auto* const kept = new std::function<void()>(std::move(work));
  const auto run = [](void* data) {
    const at::AutoDispatchBelowADInplaceOrView without_autograd;
    (*static_cast<std::function<void()>*>(data))();
  };
  C10_CUDA_CHECK(cudaLaunchHostFunc(at::cuda::getCurrentCUDAStream(), run, kept));
}

}  // namespace sftbench::phantom
