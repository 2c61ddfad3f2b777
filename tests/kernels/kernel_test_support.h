// What the tests of CUDA kernels on the CPU share (docs/internals/kernels.md): tensors with guard
// pages, and orders of threads.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ops/cuda/host/runner.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {

using torch::Tensor;

inline const std::vector<torch::Dtype> kKernelDtypes = {torch::kFloat32, torch::kBFloat16,
                                                        torch::kFloat16};

// A contiguous copy between two pages that fault. It ends as near to the second one as an alignment
// of 16 bytes allows; the bytes between are NaN.
inline Tensor guarded(const Tensor& tensor) {
  constexpr size_t kPage = 4096, kAlignment = 16;
  const Tensor source = tensor.contiguous();
  const size_t bytes = source.nbytes(), padded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const size_t pages = (padded + kPage - 1) / kPage * kPage, all = pages + 2 * kPage;
  auto* memory = static_cast<char*>(
      mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (memory == MAP_FAILED) throw std::bad_alloc();
  std::memset(memory + kPage, 0xff, pages);
  mprotect(memory, kPage, PROT_NONE);
  mprotect(memory + kPage + pages, kPage, PROT_NONE);
  char* data = memory + kPage + pages - padded;
  if (bytes > 0) std::memcpy(data, source.data_ptr(), bytes);
  const auto release = [=](void*) {
    for (size_t i = bytes; i < padded; ++i) EXPECT_EQ(data[i], '\xff') << "written behind a tensor";
    munmap(memory, all);
  };
  return torch::from_blob(data, source.sizes(), release, source.options());
}

// Normal numbers, between guard pages.
inline Tensor guarded_normal(at::IntArrayRef sizes, torch::Dtype dtype, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return guarded(torch::randn(sizes, generator, torch::kFloat64).to(dtype));
}

// A tensor that a kernel has to fill: NaN, between guard pages.
inline Tensor guarded_nan(at::IntArrayRef sizes, torch::Dtype dtype) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  return guarded(torch::full(sizes, nan, torch::kFloat64).to(dtype));
}

inline uint64_t number_in_environment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

// SFTBENCH_KERNEL_ORDERS says how many orders of threads there are, SFTBENCH_KERNEL_FIRST_ORDER
// which is the first.
class Orders {
 public:
  static constexpr uint64_t kUsual = 3;

  // What was checked is said at the end if it is more than usual.
  ~Orders() {
    if (count > kUsual) std::fprintf(stderr, "%lu checks, each under one order\n", checks);
  }

  const uint64_t first = number_in_environment("SFTBENCH_KERNEL_FIRST_ORDER", 1);
  const uint64_t count = number_in_environment("SFTBENCH_KERNEL_ORDERS", kUsual);
  uint64_t checks = 0;
};

inline Orders& orders() {
  static Orders all;
  return all;
}

// Runs the body under several orders of threads, and numbers of multiprocessors.
template <class Body>
void for_each_order(const Body& body) {
  for (uint64_t i = 0; i < orders().count; ++i) {
    host::settings().seed = orders().first + i;
    host::settings().multiprocessors = static_cast<int>(1 + i % Orders::kUsual);
    body();
    ++orders().checks;
  }
  host::settings() = {};
}

// Half an ulp of the dtype, times `slack`; of float32 some more, since its sums round.
inline double kernel_tolerance(torch::Dtype dtype, double slack = 1.0) {
  const double half_ulp = dtype == torch::kBFloat16  ? 1.0 / 256
                          : dtype == torch::kFloat16 ? 1.0 / 2048
                                                     : 24.0 / (1 << 24);
  return half_ulp * slack;
}

// |actual - expected| <= tolerance * (|expected| + floor), element by element.
inline void expect_near(const Tensor& actual, const Tensor& expected, double tolerance,
                        double floor = 1e-3) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  const Tensor wide = actual.to(torch::kFloat64), wanted = expected.to(torch::kFloat64);
  if (wide.numel() == 0) return;
  const Tensor error = (wide - wanted).abs() / (wanted.abs() + floor);
  ASSERT_TRUE(error.isfinite().all().item<bool>()) << "a value is not finite";
  EXPECT_LE(error.max().item<double>(), tolerance);
}

}  // namespace sftbench::ops
