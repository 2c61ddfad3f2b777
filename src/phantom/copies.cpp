#include "phantom/copies.h"

#include <cstring>

#include "phantom/launches.h"
#include "phantom/memory.h"
#include "phantom/settings.h"

namespace sftbench::phantom {
namespace {

bool on_device(const void* address) {
  const auto block = memory().find(address);
  return block && block->kind == Memory::Kind::kDevice;
}

// Where nothing is computed, small things still travel: counts that go to the device and come back.
constexpr size_t kSmall = size_t{64} << 10;

// The device's pages stay untouched, and reading them gives zeros.
void leave_out(void* to, size_t bytes) {
  if (!on_device(to)) std::memset(to, 0, bytes);
}

}  // namespace

void copy(void* to, const void* from, size_t bytes, Streams::Id stream) {
  if (bytes == 0) return;
  launches().count_copy(bytes);
  if (!settings().computes() && bytes > kSmall) return leave_out(to, bytes);
  // Pageable memory is read while the caller waits: it may change it afterwards.
  const bool pageable = !memory().find(to) || !memory().find(from);
  streams().at(stream).put([=] { std::memmove(to, from, bytes); });
  if (pageable) streams().at(stream).finish();
}

void fill_bytes(void* address, int value, size_t bytes, Streams::Id stream) {
  launches().count("memset");
  if (!settings().computes()) return;
  streams().at(stream).put([=] { std::memset(address, value, bytes); });
}

}  // namespace sftbench::phantom
