#include "phantom/copies.h"

#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "phantom/launches.h"
#include "phantom/memory.h"
#include "phantom/settings.h"

namespace sftbench::phantom {
namespace {

bool on_device(const void* address) {
  const auto block = memory().find(address);
  return block && block->kind == Memory::Kind::kDevice;
}

// Where nothing is computed the device's pages stay untouched, and reading them gives zeros. Only
// what comes back as it went, before its memory can have been given to another tensor, is itself:
// counts over ranks.
class Unchanged {
 public:
  void copy(void* to, const void* from, size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (on_device(to)) {
      if (bytes > kSmall || on_device(from)) return;
      sent_[to] = {launches().kernels(), std::string(static_cast<const char*>(from), bytes)};
      return;
    }
    const auto found = sent_.find(from);
    const bool same = found != sent_.end() && found->second.second.size() == bytes &&
                      launches().kernels() - found->second.first <= kFewKernels;
    same ? std::memcpy(to, found->second.second.data(), bytes) : std::memset(to, 0, bytes);
  }

 private:
  static constexpr size_t kSmall = size_t{64} << 10;
  static constexpr int64_t kFewKernels = 8;
  std::mutex mutex_;
  std::map<const void*, std::pair<int64_t, std::string>> sent_;  // with the launches until then
};

}  // namespace

void copy(void* to, const void* from, size_t bytes, Streams::Id stream) {
  if (bytes == 0) return;
  launches().count_copy(bytes);
  if (!settings().computes()) {
    static auto* const unchanged = new Unchanged;
    return unchanged->copy(to, from, bytes);
  }
  // Pageable memory is read while the caller waits: it may change it afterwards.
  const bool pageable = !memory().find(to) || !memory().find(from);
  streams().at(stream).put([=] { std::memmove(to, from, bytes); });
  if (pageable) streams().at(stream).finish();
}

void fill_bytes(void* address, int value, size_t bytes, Streams::Id stream) {
  launches().count_call("memset");
  if (!settings().computes()) return;
  streams().at(stream).put([=] { std::memset(address, value, bytes); });
}

}  // namespace sftbench::phantom
