#include "parallel/nccl_communicators.h"
#include "sftbench/base/error.h"

namespace sftbench {

ProcessMesh::MakeCommunicator nccl_communicators(RankGroup&, const std::string&, torch::Device) {
  throw RunError(ReasonCode::kUnsupported,
                 "this build has no NCCL, so that GPUs cannot train together: build with "
                 "-DSFTBENCH_CUDA=ON and nccl.h (Debian: libnccl-dev)");
}

}  // namespace sftbench
