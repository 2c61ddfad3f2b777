// Operators of ATen on the phantom device compute on the host: each one that a CPU has a kernel for
// is called with views of the same memory. A kernel of NVIDIA's that is launched all the same is an
// error of the phantom's (src/train/phantom/cuda_runtime.cpp), so no number is ever left out
// unseen.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_runtime_api.h>
#include <torch/library.h>

#include <set>
#include <string>

#include "phantom/attention.h"
#include "phantom/device_only.h"
#include "phantom/host_view.h"
#include "phantom/recorded.h"
#include "phantom/traffic.h"

namespace sftbench::phantom {
namespace {

using torch::Tensor;

class HostCall {
 public:
  HostCall(const c10::OperatorHandle& op, torch::jit::Stack& stack) : op_(op), stack_(stack) {}

  void run() {
    const auto& schema = op_.schema();
    const size_t first = stack_.size() - schema.arguments().size();
    given_.assign(stack_.begin() + static_cast<ptrdiff_t>(first), stack_.end());
    for (size_t i = 0; i < given_.size(); ++i) {
      note_operand(given_[i], schema.arguments()[i]);
      stack_[first + i] = on_host(given_[i], schema.arguments()[i]);
    }
    hosted_.assign(stack_.begin() + static_cast<ptrdiff_t>(first), stack_.end());
    op_.callBoxed(&stack_);
    const size_t results = stack_.size() - schema.returns().size();
    for (size_t i = 0; i < schema.returns().size(); ++i) {
      stack_[results + i] = on_device(stack_[results + i], schema.returns()[i]);
    }
    // out= and in place without a return value.
    for (size_t i = 0; i < given_.size(); ++i) {
      if (given_[i].isTensor() && writes(schema.arguments()[i]) && given_[i].toTensor().defined()) {
        take_over(hosted_[i].toTensor(), given_[i].toTensor());
        hosted_[i] = host_view(given_[i].toTensor());
      }
    }
    if (is_captured()) record(results);
    traffic_.written_bytes += new_bytes(results);
  }

  // Of a call that has run.
  const Traffic& traffic() const { return traffic_; }

 private:
  // The same call once more, on the same memory.
  void record(size_t results) const {
    std::vector<Tensor> outputs;
    for (size_t i = results; i < stack_.size(); ++i) {
      const bool is_new = !writes(op_.schema().returns()[i - results]);
      for (const Tensor& tensor : tensors_in(stack_[i]))
        outputs.push_back(is_new ? host_view(tensor) : Tensor());
    }
    const auto returns = stack_.size() - results;
    put_into_graph([op = op_, inputs = hosted_, outputs, returns] {
      torch::jit::Stack stack = inputs;
      op.callBoxed(&stack);
      auto output = outputs.begin();
      for (size_t i = stack.size() - returns; i < stack.size(); ++i) {
        for (const Tensor& tensor : tensors_in(stack[i])) write_result(*output++, tensor);
      }
    });
  }

  static std::vector<Tensor> tensors_in(const c10::IValue& value) {
    if (value.isTensor()) return {value.toTensor()};
    return value.isTensorList() ? value.toTensorVector() : std::vector<Tensor>();
  }

  static bool writes(const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  }

  // Of results that are no arguments.
  int64_t new_bytes(size_t results) const {
    int64_t bytes = 0;
    for (size_t i = results; i < stack_.size(); ++i) {
      if (writes(op_.schema().returns()[i - results])) continue;
      for (const Tensor& tensor : tensors_in(stack_[i])) bytes += bytes_of(tensor);
    }
    return bytes;
  }

  // Whether the old values of an argument that is written are of no use.
  bool overwrites(const c10::Argument& argument) const {
    static const std::set<std::string> fills = {"aten::fill_", "aten::zero_",
                                                "aten::_foreach_zero_", "aten::_foreach_copy_"};
    return argument.is_out() || fills.count(op_.operator_name().name) != 0;
  }

  void note_operand(const c10::IValue& value, const c10::Argument& argument) {
    for (const Tensor& tensor : tensors_in(value)) {
      if (writes(argument)) traffic_.written_bytes += bytes_of(tensor);
      if (!writes(argument) || !overwrites(argument)) traffic_.read_bytes += bytes_of(tensor);
    }
  }

  void note_device(const Tensor& tensor) {
    if (tensor.defined() && tensor.is_cuda()) device_ = tensor.device();
  }

  c10::IValue on_host(const c10::IValue& value, const c10::Argument& argument) {
    if (value.isTensor()) {
      note_device(value.toTensor());
      return host_view(value.toTensor());
    }
    if (value.isTensorList()) {
      c10::List<Tensor> views;
      for (const Tensor& tensor : value.toTensorVector()) {
        note_device(tensor);
        views.push_back(host_view(tensor));
      }
      return views;
    }
    if (value.isOptionalTensorList()) {
      c10::List<c10::optional<Tensor>> views;
      for (const c10::optional<Tensor>& tensor : value.toOptionalTensorList()) {
        if (tensor) note_device(*tensor);
        views.push_back(tensor ? c10::optional<Tensor>(host_view(*tensor)) : c10::nullopt);
      }
      return views;
    }
    if (value.isDevice() && value.toDevice().is_cuda()) {
      device_ = value.toDevice();
      return c10::Device(c10::kCPU);
    }
    if (argument.name() == "generator") return host_generator(value.toOptional<at::Generator>());
    return value;
  }

  // A result that is an argument written to is that argument.
  c10::IValue on_device(const c10::IValue& value, const c10::Argument& result) {
    if (writes(result)) {
      for (size_t i = 0; i < given_.size(); ++i) {
        const c10::AliasInfo* alias = op_.schema().arguments()[i].alias_info();
        if (alias != nullptr && *alias == *result.alias_info()) return given_[i];
      }
    }
    if (value.isTensor()) return to_device(value.toTensor(), device_);
    if (!value.isTensorList()) return value;
    c10::List<Tensor> results;
    for (const Tensor& tensor : value.toTensorVector())
      results.push_back(to_device(tensor, device_));
    return results;
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  std::vector<c10::IValue> given_, hosted_;
  Traffic traffic_;
  torch::Device device_{c10::kCUDA, 0};
};

// On a side stream an operator comes behind what the stream does by itself.
void compute_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto stream = at::cuda::getCurrentCUDAStream();
  if (stream != at::cuda::getDefaultCUDAStream() && !is_captured()) stream.synchronize();
  HostCall call(op, *stack);
  call.run();
  note_call(c10::toString(op.operator_name()), call.traffic());
}

// Views, allocation and transfers are the device's own business: no kernel computes there.
bool is_of_the_device(const std::string& name) {
  static const std::set<std::string> names = {
      "aten::copy_", "aten::_to_copy", "aten::_local_scalar_dense", "aten::set_",
      "aten::record_stream", "aten::is_pinned", "aten::_pin_memory", "aten::_fused_sdp_choice",
      "aten::clone", "aten::_reshape_alias",
      // computed in device_only.cpp
      "aten::_softmax", "aten::_log_softmax", "aten::_softmax_backward_data",
      "aten::_log_softmax_backward_data", "aten::native_dropout", "aten::embedding_dense_backward"};
  return names.count(name) != 0 || name.rfind("aten::empty", 0) == 0 ||
         name.rfind("aten::resize", 0) == 0 || name.rfind("aten::new_empty", 0) == 0 ||
         name.rfind("aten::set_", 0) == 0 || name.find("attention") != std::string::npos;
}

bool is_view(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
  }
  return false;
}

// What libtorch would make of them on a device is cuDNN's.
bool is_whole(const std::string& name) {
  return name == "aten::convolution" || name == "aten::convolution_backward";
}

bool computes_here(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  if (is_whole(name)) return op.operator_name().overload_name.empty();
  return name.rfind("aten::", 0) == 0 && op.hasSchema() &&
         op.hasKernelForDispatchKey(c10::DispatchKey::CUDA) &&
         (op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
          op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd)) &&
         !is_of_the_device(name) && !is_view(op.schema());
}

// Between the host and the device in one piece: by the stream, as the program asked. All else by
// views, once the stream has come there.
Tensor& copy_between(Tensor& to, const Tensor& from, bool non_blocking) {
  note_call("aten::copy_", {bytes_of(from), bytes_of(to)});
  const bool plain = to.scalar_type() == from.scalar_type() && to.is_contiguous() &&
                     from.is_contiguous() && to.sizes() == from.sizes();
  const auto stream = at::cuda::getCurrentCUDAStream();
  if (plain && to.numel() > 0) {
    C10_CUDA_CHECK(
        cudaMemcpyAsync(to.data_ptr(), from.data_ptr(), to.nbytes(), cudaMemcpyDefault, stream));
    const bool on_device = to.is_cuda() && from.is_cuda();
    if (!non_blocking && !on_device) C10_CUDA_CHECK(cudaStreamSynchronize(stream));
    return to;
  }
  if (!is_captured()) C10_CUDA_CHECK(cudaStreamSynchronize(stream));
  const auto copy = [to = host_view(to), from = host_view(from)] { to.copy_(from); };
  copy();
  if (is_captured()) put_into_graph(copy);
  return to;
}

struct Silence : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

std::vector<std::unique_ptr<torch::Library>>& libraries() {
  static auto* const kept = new std::vector<std::unique_ptr<torch::Library>>;
  return *kept;
}

// libtorch says once that kernels are replaced: that is the purpose here.
const bool registered = [] {
  Silence silence;
  c10::WarningUtils::WarningHandlerGuard guard(&silence);
  auto library = std::make_unique<torch::Library>(torch::Library::IMPL, "aten",
                                                  c10::DispatchKey::CUDA, __FILE__, __LINE__);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!op || !computes_here(*op)) continue;
    const std::string full = c10::toString(name).substr(std::string("aten::").size());
    library->impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&compute_on_host>());
  }
  register_attention(*library);
  register_device_only(*library);
  library->impl("copy_", torch::CppFunction(&copy_between));
  libraries().push_back(std::move(library));
  return true;
}();

}  // namespace
}  // namespace sftbench::phantom
