#include "ops/cpu/gemm_onednn.h"

#include <stdexcept>

#if SFTBENCH_ONEDNN
#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>

#include "sftbench/base/torch.h"
#endif

namespace sftbench::ops {

using torch::Tensor;

#if SFTBENCH_ONEDNN
namespace {

using dnnl::memory;

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::data_type data_type(const Tensor& matrix) {
  return matrix.scalar_type() == torch::kFloat32 ? memory::data_type::f32 : memory::data_type::bf16;
}

memory::desc describe_matrix(const Tensor& matrix) {
  return {matrix.sizes().vec(), data_type(matrix), matrix.strides().vec()};
}

memory::desc describe_bias(const Tensor& bias) {
  return {{1, bias.size(0)}, data_type(bias), {bias.size(0), 1}};
}

memory memory_of(const memory::desc& description, const Tensor& tensor) {
  return {description, cpu_engine(), tensor.data_ptr()};
}

// A product of given shapes, compiled.
struct CompiledProduct {
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
};

CompiledProduct compile(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                        double beta) {
  dnnl::primitive_attr attributes;
  // Its working memory comes from libtorch's allocator, like everything else that is counted.
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (beta != 0.0) {
    dnnl::post_ops accumulate;
    accumulate.append_sum(1.0f);
    attributes.set_post_ops(accumulate);
  }
  const auto wanted = bias.defined() ? dnnl::matmul::desc(describe_matrix(a), describe_matrix(b),
                                                          describe_bias(bias), describe_matrix(out))
                                     : dnnl::matmul::desc(describe_matrix(a), describe_matrix(b),
                                                          describe_matrix(out));
  const dnnl::matmul::primitive_desc description(wanted, attributes, cpu_engine());
  return {description, dnnl::matmul(description)};
}

// Products on the calling thread alone while this lives: oneDNN compiles for a number of threads.
class OneThread {
 public:
  OneThread() : threads_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(threads_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int threads_;
};

// Everything that the compiled product depends on.
using ProductKey = std::array<int64_t, 9>;

ProductKey key_of(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                  double beta) {
  return {a.size(0),
          a.size(1),
          b.size(1),
          a.stride(0),
          a.stride(1),
          b.stride(0),
          b.stride(1),
          out.stride(0),
          (at::in_parallel_region() ? 16 : 0) + (a.scalar_type() == torch::kFloat32 ? 8 : 0) +
              (out.scalar_type() == torch::kFloat32 ? 4 : 0) + (bias.defined() ? 2 : 0) +
              (beta != 0.0 ? 1 : 0)};
}

// Compiled products by shape. Batches that are padded to their longest text bring ever new shapes:
// a full cache starts over.
std::shared_ptr<const CompiledProduct> product_for(const Tensor& out, const Tensor& a,
                                                   const Tensor& b, const Tensor& bias,
                                                   double beta) {
  constexpr size_t kMostProducts = 1024;
  static std::mutex mutex;
  static std::map<ProductKey, std::shared_ptr<const CompiledProduct>> products;
  const std::lock_guard lock(mutex);
  if (products.size() >= kMostProducts) products.clear();
  auto& product = products[key_of(out, a, b, bias, beta)];
  if (!product) product = std::make_shared<const CompiledProduct>(compile(out, a, b, bias, beta));
  return product;
}

// How a matrix lies in memory, as BLAS says it.
struct Lie {
  char transposed;
  int64_t leading;
};

Lie lie_of(const Tensor& matrix) {
  return matrix.stride(1) == 1 ? Lie{'N', std::max(matrix.stride(0), matrix.size(1))}
                               : Lie{'T', std::max(matrix.stride(1), matrix.size(0))};
}

// Float32 by the classic interface, which compiles nothing for a shape: experts of a mixture have
// other numbers of rows in every step. As fast as the compiled products
// (bench/results/kernels.md).
void multiply_any_shape(Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                        double beta) {
  if (bias.defined()) out.copy_(bias.expand_as(out));
  const Lie left = lie_of(a), right = lie_of(b);
  const dnnl_status_t status = dnnl_sgemm(
      left.transposed, right.transposed, a.size(0), b.size(1), a.size(1), 1.0f, a.data_ptr<float>(),
      left.leading, b.data_ptr<float>(), right.leading, bias.defined() || beta != 0.0 ? 1.0f : 0.0f,
      out.data_ptr<float>(), std::max(out.stride(0), out.size(1)));
  dnnl::error::wrap_c_api(status, "oneDNN cannot multiply matrices of float32");
}

void multiply_compiled(Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                       double beta) {
  const auto product = product_for(out, a, b, bias, beta);
  const auto& description = product->description;
  const Tensor scratch =
      torch::empty({static_cast<int64_t>(description.scratchpad_desc().get_size())}, torch::kUInt8);
  std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, memory_of(description.src_desc(), a)},
      {DNNL_ARG_WEIGHTS, memory_of(description.weights_desc(), b)},
      {DNNL_ARG_DST, memory_of(description.dst_desc(), out)},
      {DNNL_ARG_SCRATCHPAD, memory_of(description.scratchpad_desc(), scratch)}};
  if (bias.defined()) arguments[DNNL_ARG_BIAS] = memory_of(describe_bias(bias), bias);
  dnnl::stream stream(cpu_engine());
  product->primitive.execute(stream, arguments);
  stream.wait();
}

}  // namespace

bool onednn_multiplies(torch::Dtype dtype) {
  // With fewer instructions its products are loops of single elements, or do not exist.
  static const dnnl::cpu_isa instructions = dnnl::get_effective_cpu_isa();
  switch (dtype) {
    case torch::kFloat32:
      return instructions >= dnnl::cpu_isa::sse41;
    case torch::kBFloat16:
      return instructions >= dnnl::cpu_isa::avx512_core_bf16;
    default:
      return false;
  }
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

void onednn_multiply(Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias,
                     double beta) {
  if (!at::in_parallel_region()) return multiply_compiled(out, a, b, bias, beta);
  if (a.scalar_type() == torch::kFloat32) return multiply_any_shape(out, a, b, bias, beta);
  const OneThread alone;
  multiply_compiled(out, a, b, bias, beta);
}

#else

bool onednn_multiplies(torch::Dtype) {
  return false;
}

std::string onednn_version() {
  return {};
}

void onednn_multiply(Tensor&, const Tensor&, const Tensor&, const Tensor&, double) {
  throw std::logic_error("onednn_multiply: built without oneDNN");
}

#endif

}  // namespace sftbench::ops
