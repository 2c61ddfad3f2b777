#if SFTBENCH_NCCL

#include "parallel/nccl_library.h"

#include <dlfcn.h>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

constexpr const char* kFileName = "libnccl.so.2";

template <typename Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (function == nullptr) {
    throw RunError(ReasonCode::kUnsupported, std::string(kFileName) + " has no function " + name +
                                                 ": training on several GPUs needs NCCL 2.14 or "
                                                 "newer");
  }
}

NcclLibrary load() {
  void* handle = ::dlopen(kFileName, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const std::string reason = ::dlerror();
    throw RunError(ReasonCode::kUnsupported,
                   "training on several GPUs needs NCCL, which cannot be loaded: " + reason +
                       "; install it (Debian: libnccl2) or name its folder in LD_LIBRARY_PATH",
                   reason);
  }
  NcclLibrary library;
  find(handle, "ncclGetVersion", library.get_version);
  find(handle, "ncclGetUniqueId", library.get_unique_id);
  find(handle, "ncclCommInitRankConfig", library.comm_init_rank_config);
  find(handle, "ncclCommGetAsyncError", library.comm_get_async_error);
  find(handle, "ncclCommFinalize", library.comm_finalize);
  find(handle, "ncclCommDestroy", library.comm_destroy);
  find(handle, "ncclCommAbort", library.comm_abort);
  find(handle, "ncclGetErrorString", library.get_error_string);
  find(handle, "ncclGetLastError", library.get_last_error);
  find(handle, "ncclAllReduce", library.all_reduce);
  find(handle, "ncclAllGather", library.all_gather);
  find(handle, "ncclReduceScatter", library.reduce_scatter);
  find(handle, "ncclBroadcast", library.broadcast);
  find(handle, "ncclSend", library.send);
  find(handle, "ncclRecv", library.recv);
  find(handle, "ncclGroupStart", library.group_start);
  find(handle, "ncclGroupEnd", library.group_end);
  return library;
}

}  // namespace

std::string NcclLibrary::explain(ncclResult_t result, ncclComm_t comm) const {
  const char* last = get_last_error(comm);
  std::string text = get_error_string(result);
  if (last != nullptr && *last != '\0') text += std::string(": ") + last;
  return text;
}

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = load();
  return library;
}

}  // namespace sftbench

#endif
