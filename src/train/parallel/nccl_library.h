// NCCL's functions, from the library that is loaded when ranks on GPUs first meet: a program that
// was built for GPUs starts where NCCL is absent, and uses the NCCL that libtorch has loaded where
// it has. Types are those of nccl.h.
#pragma once

#include <nccl.h>

#include <string>

namespace sftbench {

struct NcclLibrary {
  decltype(&::ncclGetVersion) get_version = nullptr;
  decltype(&::ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&::ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&::ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&::ncclCommFinalize) comm_finalize = nullptr;
  decltype(&::ncclCommDestroy) comm_destroy = nullptr;
  decltype(&::ncclCommAbort) comm_abort = nullptr;
  decltype(&::ncclGetErrorString) get_error_string = nullptr;
  decltype(&::ncclGetLastError) get_last_error = nullptr;
  decltype(&::ncclAllReduce) all_reduce = nullptr;
  decltype(&::ncclAllGather) all_gather = nullptr;
  decltype(&::ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&::ncclBroadcast) broadcast = nullptr;
  decltype(&::ncclSend) send = nullptr;
  decltype(&::ncclRecv) recv = nullptr;
  decltype(&::ncclGroupStart) group_start = nullptr;
  decltype(&::ncclGroupEnd) group_end = nullptr;

  // "unhandled cuda error: ...": the result's name and NCCL's own last line.
  std::string explain(ncclResult_t result, ncclComm_t comm) const;
};

// Loaded once. RunError(kUnsupported) in the loader's words when libnccl.so.2 is not found, or
// naming the function that it lacks (2.14 of 2022 has all of them).
const NcclLibrary& nccl_library();

}  // namespace sftbench
