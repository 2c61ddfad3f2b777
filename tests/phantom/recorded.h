// Operators inside the capture of a graph: computed once for the shapes of their results, and
// again, on the same memory, at each launch of the graph.
#pragma once

#include <torch/library.h>

#include <array>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "phantom/host_view.h"
#include "phantom/traffic.h"

namespace sftbench::phantom {

// Whether work of the current stream is being captured.
bool is_captured();

// What a launch of the graph does here, without autograd.
void put_into_graph(std::function<void()> work);

// Views that hold no memory: a graph does not keep what its operators read.
inline torch::Tensor view_of(const torch::Tensor& tensor) {
  return host_view(tensor);
}
inline c10::optional<torch::Tensor> view_of(const c10::optional<torch::Tensor>& tensor) {
  return tensor ? c10::optional<torch::Tensor>(host_view(*tensor)) : c10::nullopt;
}
template <class Value>
std::decay_t<Value> view_of(const Value& value) {
  return value;
}

inline void write_result(const torch::Tensor& to, const torch::Tensor& from) {
  if (to.defined()) to.copy_(from);
}
template <class Value>
void write_result(const Value&, const Value&) {}

// An operator of the device as a function of the host that takes views, as CPU tensors, too. Its
// calls are counted by its name.
template <auto kFunction>
struct OnDevice;

template <class Result, class... Arguments, Result (*kFunction)(Arguments...)>
struct OnDevice<kFunction> {
  static void implement(torch::Library& library, const char* name) {
    name_ = std::string("aten::") + name;
    library.impl(name, &call);
  }

 private:
  inline static std::string name_;

  static Result call(Arguments... arguments) {
    Result result = kFunction(arguments...);
    note_call(name_, {(int64_t{0} + ... + bytes_of(arguments)), bytes_of_all(result)});
    if (is_captured()) {
      put_into_graph([inputs = std::tuple(view_of(arguments)...), outputs = views(result)] {
        write(outputs, std::apply(kFunction, inputs));
      });
    }
    return result;
  }

  static int64_t bytes_of_all(const torch::Tensor& result) { return bytes_of(result); }
  template <class... Results>
  static int64_t bytes_of_all(const std::tuple<Results...>& results) {
    return std::apply([](const auto&... each) { return (int64_t{0} + ... + bytes_of(each)); },
                      results);
  }

  static torch::Tensor views(const torch::Tensor& result) { return view_of(result); }
  template <class... Results>
  static std::tuple<Results...> views(const std::tuple<Results...>& results) {
    return std::apply([](const auto&... each) { return std::tuple(view_of(each)...); }, results);
  }

  static void write(const torch::Tensor& to, const torch::Tensor& from) { write_result(to, from); }
  template <class... Results>
  static void write(const std::tuple<Results...>& to, const std::tuple<Results...>& from) {
    write_each(to, from, std::index_sequence_for<Results...>());
  }
  template <class Tuple, size_t... kPlaces>
  static void write_each(const Tuple& to, const Tuple& from, std::index_sequence<kPlaces...>) {
    (write_result(std::get<kPlaces>(to), std::get<kPlaces>(from)), ...);
  }
};

}  // namespace sftbench::phantom
