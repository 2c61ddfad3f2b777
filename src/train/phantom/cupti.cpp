// CUPTI's activities: each kernel that is launched is one of a microsecond. What
// CUDA_INJECTION64_PATH names is loaded before the first, as the driver does at its start.
#include "phantom/cupti.h"

#include <cupti.h>
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

namespace sftbench::phantom {
namespace {

constexpr uint64_t kKernelNs = 1000;
constexpr size_t kFullBuffer = 1024;  // a process may end without a word

struct Activities {
  std::mutex mutex;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  bool enabled = false;
  std::vector<const char*> launched;
};

Activities& activities() {
  static auto* const one = new Activities;
  return *one;
}

// Hands over what fits into one buffer. False: nothing is left.
bool hand_over(Activities& from) {
  if (from.launched.empty() || from.request == nullptr) return false;
  uint8_t* buffer = nullptr;
  size_t bytes = 0, most = 0;
  from.request(&buffer, &bytes, &most);
  const size_t count = std::min(from.launched.size(), bytes / sizeof(CUpti_ActivityKernel10));
  for (size_t i = 0; i < count; ++i) {
    CUpti_ActivityKernel10 kernel{};
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.end = kKernelNs;
    kernel.name = from.launched[i];
    std::memcpy(buffer + i * sizeof kernel, &kernel, sizeof kernel);
  }
  from.launched.erase(from.launched.begin(), from.launched.begin() + static_cast<ptrdiff_t>(count));
  from.complete(nullptr, 0, buffer, bytes, count * sizeof(CUpti_ActivityKernel10));
  return count > 0;
}

}  // namespace

void note_activity(const char* kernel) {
  static const bool injected = [] {
    const char* const path = std::getenv("CUDA_INJECTION64_PATH");
    void* const library = path != nullptr ? dlopen(path, RTLD_NOW) : nullptr;
    using Initialize = int (*)();
    const auto initialize =
        library != nullptr ? reinterpret_cast<Initialize>(dlsym(library, "InitializeInjection"))
                           : nullptr;
    return initialize != nullptr && initialize() == 1;
  }();
  if (!injected || kernel == nullptr) return;
  Activities& to = activities();
  const std::lock_guard lock(to.mutex);
  if (!to.enabled) return;
  to.launched.push_back(kernel);
  if (to.launched.size() >= kFullBuffer) hand_over(to);
}

}  // namespace sftbench::phantom

using namespace sftbench::phantom;  // NOLINT: names of NVIDIA's

extern "C" {

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  activities().request = request;
  activities().complete = complete;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) activities().enabled = true;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushPeriod(uint32_t) {
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t) {
  Activities& from = activities();
  const std::lock_guard lock(from.mutex);
  while (hand_over(from)) {
  }
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes,
                                       CUpti_Activity** record) {
  auto* const next = *record == nullptr
                         ? buffer
                         : reinterpret_cast<uint8_t*>(*record) + sizeof(CUpti_ActivityKernel10);
  if (next + sizeof(CUpti_ActivityKernel10) > buffer + valid_bytes)
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

}  // extern "C"
