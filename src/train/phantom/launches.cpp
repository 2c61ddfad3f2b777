#include "phantom/launches.h"

#include <cxxabi.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

namespace sftbench::phantom {
namespace {

std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  if (status != 0 || text == nullptr) return name;
  std::string result = text;
  std::free(text);
  return result;
}

}  // namespace

void Launches::register_kernel(const void* handle, const char* mangled_name) {
  const std::lock_guard lock(mutex_);
  names_[handle] = mangled_name;
}

const char* Launches::name(const void* handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(handle);
  return found == names_.end() ? nullptr : found->second;
}

void Launches::count_kernel(const void* handle) {
  const std::lock_guard lock(mutex_);
  if (captured_ >= 0) return static_cast<void>(++captured_);
  ++by_handle_[handle];
  ++kernels_;
}

void Launches::count_call(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (captured_ >= 0) return static_cast<void>(++captured_);
  ++by_name_[name];
}

void Launches::count_copy(size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (captured_ >= 0) return static_cast<void>(++captured_);
  ++copies_;
  copied_bytes_ += static_cast<int64_t>(bytes);
}

void Launches::count_graph(int64_t nodes) {
  count_call("cudaGraphLaunch");
  const std::lock_guard lock(mutex_);
  graph_nodes_ += nodes;
  ++kernels_;
}

void Launches::begin_capture() {
  const std::lock_guard lock(mutex_);
  captured_ = 0;
}

int64_t Launches::end_capture() {
  const std::lock_guard lock(mutex_);
  return std::exchange(captured_, -1);
}

void Launches::reset() {
  const std::lock_guard lock(mutex_);
  by_handle_.clear();
  by_name_.clear();
  copies_ = copied_bytes_ = graph_nodes_ = 0;
}

std::string Launches::report() const {
  const std::lock_guard lock(mutex_);
  nlohmann::json kernels = by_name_;
  int64_t total = 0;
  for (const auto& [name, number] : by_name_) total += number;
  for (const auto& [handle, number] : by_handle_) {
    const auto known = names_.find(handle);
    kernels[known == names_.end() ? "unknown" : demangled(known->second)] = number;
    total += number;
  }
  return nlohmann::json{{"kernels", kernels},
                        {"launches", total},
                        {"copies", copies_},
                        {"copied_bytes", copied_bytes_},
                        {"graph_nodes", graph_nodes_}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Launches& launches() {
  static auto* const one = new Launches;
  return *one;
}

}  // namespace sftbench::phantom
