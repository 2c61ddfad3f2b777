// Which kernels were launched, by name and number.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

namespace sftbench::phantom {

class Launches {
 public:
  void register_kernel(const void* handle, const char* mangled_name);
  // The mangled name, or nothing when no such kernel is known.
  const char* name(const void* handle) const;

  void count_kernel(const void* handle);
  // A library's call that stands for one launch or more: "cublasGemmEx".
  void count_call(const std::string& name);
  void count_copy(size_t bytes);
  // One launch of a graph of so many nodes.
  void count_graph(int64_t nodes);
  // What is counted in between belongs to a graph. Returns how much that is: kernels, products and
  // copies.
  void begin_capture();
  int64_t end_capture();
  void reset();
  // Since the process began.
  int64_t kernels() const { return kernels_; }

  // {"kernels": {name: launches}, "launches": n, "copies": n, "copied_bytes": n, "graph_nodes": n}:
  // a graph is one launch, whatever its nodes are.
  std::string report() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const void*, const char*> names_;
  std::unordered_map<const void*, int64_t> by_handle_;
  std::map<std::string, int64_t> by_name_;
  int64_t copies_ = 0, copied_bytes_ = 0, graph_nodes_ = 0;
  int64_t captured_ = -1;  // of the capture that goes on; -1: none does
  std::atomic<int64_t> kernels_{0};
};

Launches& launches();

}  // namespace sftbench::phantom
