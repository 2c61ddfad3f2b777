#include "ops/cpu/dispatch.h"
#include "ops/swiglu_impl.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int64_t kSwigluGrainNumel = 8192;

// body(row, begin, end) with elements of a row: many rows are dealt to threads whole, the only one
// in parts.
template <class Body>
void for_spans(const Tensor& rows, const Body& body) {
  const int64_t count = rows.size(0), width = rows.size(1);
  if (count == 1) {
    parallel_elements(width, kSwigluGrainNumel,
                      [&](int64_t begin, int64_t end) { body(0, begin, end); });
    return;
  }
  const int64_t grain = std::max<int64_t>(1, kSwigluGrainNumel / std::max<int64_t>(1, width));
  at::parallel_for(0, count, grain, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) body(row, 0, width);
  });
}

void forward(const GateAndUp& in, GateForm form, const Tensor& y) {
  const CpuKernels& kernels = cpu_kernels(y);
  for_spans(y, [&](int64_t row, int64_t begin, int64_t end) {
    const int64_t place = row * in.gate.stride(0) + begin;
    kernels.swiglu_forward(element(in.gate, place), element(in.up, place),
                           element(y, row * y.size(1) + begin), end - begin,
                           form == GateForm::kGeluTanh);
  });
}

void backward(const Tensor& y_gradient, const GateAndUp& in, GateForm form, const GateAndUp& into) {
  const CpuKernels& kernels = cpu_kernels(y_gradient);
  for_spans(y_gradient, [&](int64_t row, int64_t begin, int64_t end) {
    const int64_t place = row * in.gate.stride(0) + begin;
    kernels.swiglu_backward(element(y_gradient, row * y_gradient.size(1) + begin),
                            element(in.gate, place), element(in.up, place),
                            element(into.gate, place), element(into.up, place), end - begin,
                            form == GateForm::kGeluTanh);
  });
}

}  // namespace

const SwigluImpl kSwigluCpu{forward, backward};

}  // namespace sftbench::ops
