#include "ops/checks.h"

#include <sstream>
#include <stdexcept>

#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

std::string join(at::IntArrayRef sizes) {
  std::string text = "[";
  for (const int64_t size : sizes) {
    if (text.size() > 1) text += ", ";
    text += size < 0 ? "*" : std::to_string(size);
  }
  return text + "]";
}

std::string name_of(torch::Dtype dtype) {
  switch (dtype) {
    case torch::kFloat32:
      return "float32";
    case torch::kFloat64:
      return "float64";
    case torch::kBFloat16:
      return "bfloat16";
    case torch::kFloat16:
      return "float16";
    case torch::kInt64:
      return "int64";
    default:
      return c10::toString(dtype);
  }
}

std::string described(torch::Dtype dtype, at::IntArrayRef sizes, torch::Device device) {
  return name_of(dtype) + " " + join(sizes) + " on " + device.str();
}

}  // namespace

std::string describe(const torch::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return described(tensor.scalar_type(), tensor.sizes(), tensor.device());
}

void require(bool holds, const char* op, const std::string& expected, const std::string& found) {
  if (!holds) throw std::invalid_argument(std::string(op) + ": " + expected + ", got " + found);
}

void require_like(const torch::Tensor& tensor, const char* op, const char* name,
                  const std::vector<int64_t>& shape, const torch::Tensor& like) {
  bool same = tensor.defined() && tensor.dim() == static_cast<int64_t>(shape.size()) &&
              tensor.scalar_type() == like.scalar_type() && tensor.device() == like.device();
  for (size_t i = 0; same && i < shape.size(); ++i) {
    same = shape[i] < 0 || tensor.size(static_cast<int64_t>(i)) == shape[i];
  }
  if (same) return;
  require(false, op,
          std::string(name) + " must be " + described(like.scalar_type(), shape, like.device()),
          describe(tensor));
}

void require_float(const torch::Tensor& tensor, const char* op, const char* name) {
  const bool known =
      tensor.defined() &&
      (tensor.scalar_type() == torch::kFloat32 || tensor.scalar_type() == torch::kFloat64 ||
       tensor.scalar_type() == torch::kBFloat16 || tensor.scalar_type() == torch::kFloat16);
  if (known) return;
  require(false, op, std::string(name) + " must be float32, float64, bfloat16 or float16",
          describe(tensor));
}

void require_packed(const PackedSequences& packed, const char* op, const char* name,
                    const torch::Tensor& tensor) {
  if (packed.empty()) return;
  require(
      tensor.size(0) == 1 && packed.offsets.front() == 0 && packed.offsets.back() == tensor.size(1),
      op,
      "packed sequences of " + std::to_string(packed.offsets.back()) + " positions must fill " +
          name + "'s only row",
      describe(tensor));
}

}  // namespace sftbench::ops
