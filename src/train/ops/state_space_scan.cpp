#include "sftbench/ops/state_space_scan.h"

#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/shapes.h"
#include "ops/state_space_scan_impl.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const ScanImpl& scan_for(const Tensor& x) {
#if SFTBENCH_CUDA
  if (has_cuda_kernels(x)) return kScanCuda;
#endif
  return has_cpu_kernels(x) ? kScanCpu : kScanAten;
}

// Whether heads lie side by side, and positions equally far apart over all batches.
bool has_even_positions(const Tensor& tensor) {
  const int64_t held = tensor.size(2) * tensor.size(3);
  return tensor.stride(3) == 1 && (tensor.size(2) == 1 || tensor.stride(2) == tensor.size(3)) &&
         tensor.stride(1) >= held &&
         (tensor.size(0) == 1 || tensor.stride(0) == tensor.size(1) * tensor.stride(1));
}

Tensor even(const Tensor& tensor) {
  return has_even_positions(tensor) ? tensor : tensor.contiguous();
}

ScanInputs scan_inputs(const variable_list& of, const std::vector<int64_t>& offsets,
                       const Tensor& cumulative) {
  const auto wide = [&](const Tensor& tensor) {
    return tensor.detach().to(wide_dtype(of[0])).contiguous();
  };
  return {of[0], wide(of[1]), wide(of[2]), of[3], of[4], wide(of[5]), offsets, cumulative};
}

class StateSpaceScan : public torch::autograd::Function<StateSpaceScan> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& dt, const Tensor& a,
                        const Tensor& b, const Tensor& c, const Tensor& d,
                        const std::vector<int64_t>& offsets, const OptionalTensor& of_device) {
    const Tensor cumulative = of_device.value_or(Tensor());
    const auto [y, states] = scan_for(x).forward(
        scan_inputs({x, dt, a, b, c, d}, offsets, cumulative), /*keeps_states=*/true);
    ctx->save_for_backward({x, dt, a, b, c, d, states, cumulative});
    ctx->saved_data["offsets"] = offsets;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const ScanInputs in = scan_inputs(saved, ctx->saved_data["offsets"].toIntVector(), saved[7]);
    const ScanGradients found =
        scan_for(in.x).backward(output_gradients[0].contiguous(), in, saved[6]);
    return {found.x,
            found.dt.to(saved[1].scalar_type()),
            found.a.to(saved[2].scalar_type()),
            found.b,
            found.c,
            found.d.to(saved[5].scalar_type()),
            Tensor(),
            Tensor()};
  }
};

constexpr const char* kScanName = "state_space_scan";

// Of x's dtype or float32.
void require_like_or_wide(const Tensor& tensor, const char* name, const std::vector<int64_t>& shape,
                          const Tensor& x) {
  const bool wide = tensor.defined() && tensor.scalar_type() == torch::kFloat32;
  require_like(tensor, kScanName, name, shape,
               wide ? torch::empty({0}, x.options().dtype(torch::kFloat32)) : x);
}

void check_shapes(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b,
                  const Tensor& c, const Tensor& d, const PackedSequences& packed) {
  require_float(x, kScanName, "x");
  require(x.dim() == 4 && x.size(2) > 0, kScanName, "x must be [B, S, H, P] with H above 0",
          describe(x));
  const int64_t heads = x.size(2);
  require_like_or_wide(dt, "dt", {x.size(0), x.size(1), heads}, x);
  require_like_or_wide(a, "a", {heads}, x);
  require_like(b, kScanName, "b", {x.size(0), x.size(1), -1, -1}, x);
  require(b.size(2) > 0 && heads % b.size(2) == 0, kScanName,
          "the number of groups must divide the " + std::to_string(heads) + " heads",
          std::to_string(b.size(2)));
  require_like(c, kScanName, "c", b.sizes().vec(), x);
  require_like_or_wide(d, "d", {heads}, x);
  require_packed(packed, kScanName, "x", x);
}

}  // namespace

Tensor state_space_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b,
                        const Tensor& c, const Tensor& d, const PackedSequences& packed) {
  check_shapes(x, dt, a, b, c, d, packed);
  if (x.numel() == 0 || b.numel() == 0) return x * d.to(x.scalar_type()).unsqueeze(-1);
  const variable_list inputs = {even(x), dt, a, even(b), even(c), d};
  bool differentiable = false;
  for (const Tensor& input : inputs) differentiable |= input.requires_grad();
  if (!differentiable || !torch::GradMode::is_enabled()) {
    return scan_for(x).forward(scan_inputs(inputs, packed.offsets, packed.cumulative), false).first;
  }
  const OptionalTensor cumulative =
      packed.empty() ? OptionalTensor() : OptionalTensor(packed.cumulative);
  return StateSpaceScan::apply(inputs[0], dt, a, inputs[3], inputs[4], d, packed.offsets,
                               cumulative);
}

}  // namespace sftbench::ops
