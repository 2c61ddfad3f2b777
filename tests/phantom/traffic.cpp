#include "phantom/traffic.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

namespace sftbench::phantom {
namespace {

struct Calls {
  struct Sum {
    int64_t calls = 0;
    Traffic traffic;
  };
  std::mutex mutex;
  std::map<std::string, Sum> by_name;
  ~Calls() {
    const char* path = std::getenv("SFTBENCH_PHANTOM_OPERATORS");
    std::FILE* file = path != nullptr ? std::fopen(path, "a") : nullptr;
    if (file == nullptr) return;
    for (const auto& [name, sum] : by_name) {
      std::fprintf(file, "%s %ld %ld %ld\n", name.c_str(), sum.calls, sum.traffic.read_bytes,
                   sum.traffic.written_bytes);
    }
    std::fclose(file);
  }
};

}  // namespace

void note_call(const std::string& name, const Traffic& traffic) {
  static Calls calls;
  const std::lock_guard lock(calls.mutex);
  Calls::Sum& sum = calls.by_name[name];
  ++sum.calls;
  sum.traffic.read_bytes += traffic.read_bytes;
  sum.traffic.written_bytes += traffic.written_bytes;
}

void note_attention(const char* kernel, const torch::Tensor& q) {
  static const char* const path = std::getenv("SFTBENCH_PHANTOM_ATTENTION");
  static std::FILE* const file = path != nullptr ? std::fopen(path, "a") : nullptr;
  if (file == nullptr) return;
  std::fprintf(file, "%s %ld %ld\n", kernel, q.size(0), q.size(2));
  std::fflush(file);
}

int64_t bytes_of(const torch::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return 0;
  int64_t bytes = static_cast<int64_t>(tensor.element_size());
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.stride(i) != 0 || tensor.size(i) == 0) bytes *= tensor.size(i);
  }
  return bytes;
}

}  // namespace sftbench::phantom
