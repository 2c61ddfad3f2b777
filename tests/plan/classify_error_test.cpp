#include "sftbench/plan/classify_error.h"

#include <gtest/gtest.h>

#include <new>

namespace sftbench {
namespace SFTBENCH_FILE {

struct Case {
  const char* name;
  const char* what;
  ReasonCode code;
  const char* evidence;
};

// Texts as the libraries write them; 1_13 and 2_x name the libtorch generation.
const Case kCases[] = {
    {"CudaOutOfMemory_1_13",
     "CUDA out of memory. Tried to allocate 20.00 GiB (GPU 0; 79.15 GiB total capacity; 61.02 GiB "
     "already allocated; 17.19 GiB free; 61.17 GiB reserved in total by PyTorch) If reserved "
     "memory "
     "is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See "
     "documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF\nException raised from "
     "malloc "
     "at ../c10/cuda/CUDACachingAllocator.cpp:936 (most recent call first):\nframe #0: ...",
     ReasonCode::kOomGpu,
     "CUDA out of memory. Tried to allocate 20.00 GiB (GPU 0; 79.15 GiB total capacity; 61.02 GiB "
     "already allocated; 17.19 GiB free; 61.17 GiB reserved in total by PyTorch) If reserved "
     "memory "
     "is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See "
     "documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"},
    {"CudaOutOfMemory_2_x",
     "CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total capacity of 79.25 GiB of "
     "which 642.94 MiB is free. Process 7 has 78.61 GiB memory in use.\nException raised from "
     "malloc at /pytorch/c10/cuda/CUDACachingAllocator.cpp:1433",
     ReasonCode::kOomGpu,
     "CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total capacity of 79.25 GiB of "
     "which 642.94 MiB is free. Process 7 has 78.61 GiB memory in use."},
    {"CudaDriverOutOfMemory",
     "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other "
     "API call, so the stacktrace below might be incorrect.",
     ReasonCode::kOomGpu, "CUDA error: out of memory"},
    {"CublasOutOfMemory",
     "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
     ReasonCode::kOomGpu,
     "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"},
    {"CudnnOutOfMemory", "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
     ReasonCode::kOomGpu, "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"},
    {"IllegalAccess_1_13",
     "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be "
     "asynchronously reported at some other API call,so the stacktrace below might be "
     "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1.",
     ReasonCode::kOomGpu, "CUDA error: an illegal memory access was encountered"},
    {"IllegalAccess_2_x",
     "CUDA error: an illegal memory access was encountered\nSearch for `cudaErrorIllegalAddress' "
     "in "
     "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more "
     "information.\nCUDA kernel errors might be asynchronously reported",
     ReasonCode::kOomGpu, "CUDA error: an illegal memory access was encountered"},
    {"GpuMemoryOutranksTheLostPeer",
     "NCCL error in: ProcessGroupNCCL.cpp: remote process exited\n[rank 1] CUDA out of memory. "
     "Tried to allocate 2.00 MiB",
     ReasonCode::kOomGpu, "[rank 1] CUDA out of memory. Tried to allocate 2.00 MiB"},
    {"Nccl_1_13",
     "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1269, unhandled cuda "
     "error, NCCL version 2.14.3\nncclUnhandledCudaError: Call to CUDA function failed.",
     ReasonCode::kNccl,
     "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1269, unhandled cuda "
     "error, NCCL version 2.14.3"},
    {"Nccl_2_x_ThatNamesMemory",
     "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled cuda error "
     "(run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5\nncclUnhandledCudaError: Call to "
     "CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'",
     ReasonCode::kOomGpu, "Cuda failure 2 'out of memory'"},
    {"NcclErrorAsTheDocumentsSpellIt", "NCCL Error 2: unhandled system error", ReasonCode::kNccl,
     "NCCL Error 2: unhandled system error"},
    {"CpuAllocator_1_13",
     "[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you "
     "tried to allocate 400000000000000 bytes. Error code 12 (Cannot allocate memory)\nframe #0: "
     "c10::ThrowEnforceNotMet",
     ReasonCode::kOomHost,
     "[enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you "
     "tried to allocate 400000000000000 bytes. Error code 12 (Cannot allocate memory)"},
    {"CpuAllocator_2_x",
     "[enforce fail at alloc_cpu.cpp:119] err == 0. DefaultCPUAllocator: can't allocate memory: "
     "you "
     "tried to allocate 400000000000000 bytes. Error code 12 (Cannot allocate memory)",
     ReasonCode::kOomHost,
     "[enforce fail at alloc_cpu.cpp:119] err == 0. DefaultCPUAllocator: can't allocate memory: "
     "you "
     "tried to allocate 400000000000000 bytes. Error code 12 (Cannot allocate memory)"},
    {"BadAlloc", "std::bad_alloc", ReasonCode::kOomHost, "std::bad_alloc"},
    {"FailedMmap", "model.safetensors: cannot map: Cannot allocate memory", ReasonCode::kOomHost,
     "model.safetensors: cannot map: Cannot allocate memory"},
    {"AnythingElse", "\nmat1 and mat2 shapes cannot be multiplied\nException raised from meta",
     ReasonCode::kInternal, "mat1 and mat2 shapes cannot be multiplied"},
    {"NoText", "", ReasonCode::kInternal, ""},
};

class ClassifyErrorTest : public testing::TestWithParam<Case> {};

TEST_P(ClassifyErrorTest, TellsCodeAndEvidence) {
  const ErrorClass found = classify_error(GetParam().what);
  EXPECT_EQ(found.code, GetParam().code);
  EXPECT_EQ(found.evidence, GetParam().evidence);
  EXPECT_FALSE(found.message.empty());
}

INSTANTIATE_TEST_SUITE_P(Texts, ClassifyErrorTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ClassifyExceptionTest, ARunErrorKeepsItsCode) {
  const RunError error(ReasonCode::kUnsupported, "no such thing", "proof");
  const ErrorClass found = classify_exception(error, {});
  EXPECT_EQ(found.code, ReasonCode::kUnsupported);
  EXPECT_EQ(found.message, "no such thing");
  EXPECT_EQ(found.evidence, "proof");
}

TEST(ClassifyExceptionTest, AnInputErrorIsNamedByItsFile) {
  TrainingJob job;
  job.data.path = "/data/set.jsonl";
  job.model.weights_directory = "/models/m";
  const auto code_for = [&job](const std::string& file) {
    const InputError error(std::vector<Diagnostic>{
        {.file = file, .line = 3, .key = {}, .message = "bad", .expected = {}, .nearest = {}}});
    return classify_exception(error, job).code;
  };
  EXPECT_EQ(code_for("/data/set.jsonl"), ReasonCode::kData);
  EXPECT_EQ(code_for("/models/m/config.json"), ReasonCode::kWeights);
  EXPECT_EQ(code_for("/elsewhere"), ReasonCode::kInternal);
}

TEST(ClassifyExceptionTest, BadAllocIsHostMemory) {
  EXPECT_EQ(classify_exception(std::bad_alloc(), {}).code, ReasonCode::kOomHost);
}

TEST(MakesInvalidTest, OnlyGpuMemoryAndTheStaticRules) {
  for (int code = 0; code <= static_cast<int>(ReasonCode::kInternal); ++code) {
    const std::string name(to_string(static_cast<ReasonCode>(code)));
    const bool expected = name == "OOM_GPU" || name.rfind("RULE_", 0) == 0;
    EXPECT_EQ(makes_invalid(static_cast<ReasonCode>(code)), expected) << name;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
