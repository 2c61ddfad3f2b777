// Writes down how long each kernel of a process takes on its GPU: a library that the driver loads
// at its start when CUDA_INJECTION64_PATH names it. SFTBENCH_TIMELINE.PID.tsv then has a line
// "CALLS NANOSECONDS KERNEL" for each name. Kernels of a graph are counted one by one. The process
// need not know: a peer in Python is measured the same way.
#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace {

constexpr size_t kBufferBytes = 1 << 20;
// A measurement ends without its destructors, and loses no more than this.
constexpr uint32_t kFlushPeriodMs = 100;

struct Sum {
  int64_t calls = 0, nanoseconds = 0;
};

struct Timeline {
  std::mutex mutex;
  std::map<std::string, Sum> by_mangled_name;
  std::string path;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityFlushAll) flush = nullptr;
};

Timeline& timeline() {
  static auto* const one = new Timeline;  // outlives the driver's last buffer
  return *one;
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

// A reader finds the file before or the file after, whole.
void write(const Timeline& of) {
  const std::string part = of.path + ".part";
  std::FILE* const file = std::fopen(part.c_str(), "w");
  if (file == nullptr) return;
  for (const auto& [name, sum] : of.by_mangled_name)
    std::fprintf(file, "%ld\t%ld\t%s\n", sum.calls, sum.nanoseconds, demangled(name).c_str());
  std::fclose(file);
  std::rename(part.c_str(), of.path.c_str());
}

void CUPTIAPI request_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer != nullptr ? kBufferBytes : 0;
  *most_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  Timeline& to = timeline();
  const std::lock_guard lock(to.mutex);
  CUpti_Activity* record = nullptr;
  while (to.next_record(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    const auto* const kernel = reinterpret_cast<const CUpti_ActivityKernel10*>(record);
    Sum& sum = to.by_mangled_name[kernel->name];
    ++sum.calls;
    sum.nanoseconds += static_cast<int64_t>(kernel->end - kernel->start);
  }
  std::free(buffer);
  write(to);
}

void flush_at_exit() {
  timeline().flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

// The driver calls this once. 1: go on.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* const path = std::getenv("SFTBENCH_TIMELINE");
  // libtorch has loaded its own; a second one would find the device taken.
  void* const cupti = dlopen("libcupti.so.13", RTLD_NOW);
  Timeline& to = timeline();
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityFlushPeriod) flush_period = nullptr;
  if (path == nullptr || cupti == nullptr ||
      !find(cupti, "cuptiActivityRegisterCallbacks", register_callbacks) ||
      !find(cupti, "cuptiActivityEnable", enable) ||
      !find(cupti, "cuptiActivityFlushAll", to.flush) ||
      !find(cupti, "cuptiActivityFlushPeriod", flush_period) ||
      !find(cupti, "cuptiActivityGetNextRecord", to.next_record)) {
    std::fprintf(stderr, "timeline: %s\n",
                 path == nullptr ? "SFTBENCH_TIMELINE names no file" : dlerror());
    return 1;
  }
  to.path = std::string(path) + "." + std::to_string(::getpid()) + ".tsv";
  if (register_callbacks(&request_buffer, &take_buffer) != CUPTI_SUCCESS ||
      enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) {
    std::fprintf(stderr, "timeline: CUPTI does not work on this machine\n");
    return 1;
  }
  flush_period(kFlushPeriodMs);
  std::atexit(flush_at_exit);
  return 1;
}
