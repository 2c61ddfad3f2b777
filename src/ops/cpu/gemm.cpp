// The blocking follows Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
// (2008). A part of the result is computed over the whole contraction, one slice after the other. All
// threads pack the slice's panels together, then take blocks of the result from a queue.
#include "ops/cpu/gemm.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>

#include "ops/cpu/dispatch.h"
#include "ops/cpu/gemm_onednn.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/product_dtype.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

// Sizes of the blocking: a slice of both operands stays in the second- and third-level cache.
constexpr int64_t kDepth = 384;                         // positions of a slice
constexpr int64_t kPartRows = 1024;                     // of the result's part
constexpr int64_t kPartNumel = 1 << 20;                 // 4 MiB of sums
constexpr int64_t kPartColumns = 2304;                  // 3.5 MiB of right panels
constexpr int64_t kTaskRows = 240, kTaskColumns = 384;  // multiples of every tile
constexpr int64_t kSerialNumel = 1 << 18;  // multiply-adds that a second thread does not speed up

int64_t up(int64_t n, int64_t step) {
  return (n + step - 1) / step * step;
}

// An operand as its vectors along the contraction: rows of the left one, columns of the right one.
struct Operand {
  const char* data;
  int64_t vector_stride, depth_stride, element_size;

  GemmPanel panel(int64_t vector, int64_t count, int64_t k, int64_t depth) const {
    return {data + (vector * vector_stride + k * depth_stride) * element_size, vector_stride,
            depth_stride, count, depth};
  }
};

struct Range {
  int64_t begin, count;
};

// Where the sums of a part are kept between slices.
struct Sums {
  float* data;
  int64_t stride;
  bool begin_with_content;
};

class Product {
 public:
  Product(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias, double beta)
      : kernels_(cpu_kernels(a)),
        round_(cpu_kernels(out).gemm_round),
        out_(out),
        left_{element(a, 0), a.stride(0), a.stride(1), a.element_size()},
        right_{element(b, 0), b.stride(1), b.stride(0), b.element_size()},
        depth_(a.size(1)),
        bias_(bias.defined() ? bias.data_ptr() : nullptr),
        beta_(static_cast<float>(beta)) {
    const int64_t most_rows = std::min(kPartRows, up(out.size(0), kernels_.gemm_rows));
    part_columns_ = std::clamp(kPartNumel / most_rows / kTaskColumns * kTaskColumns, kTaskColumns,
                               kPartColumns);
    part_columns_ = std::min(part_columns_, up(out.size(1), kernels_.gemm_columns));
    const int64_t depth = std::min(kDepth, depth_);
    const int64_t left_numel = up(most_rows, kernels_.gemm_rows) * depth;
    const int64_t right_numel = up(part_columns_, kernels_.gemm_columns) * depth;
    const int64_t sums_numel = sums_in_place() ? 0 : most_rows * part_columns_;
    workspace_ = torch::empty({left_numel + right_numel + sums_numel}, torch::kFloat32);
    left_panels_ = workspace_.data_ptr<float>();
    right_panels_ = left_panels_ + left_numel;
    sums_ = right_panels_ + right_numel;
  }

  // All threads of a team call this.
  void run() {
    for (int64_t column = 0; column < out_.size(1); column += part_columns_) {
      const Range columns{column, std::min(part_columns_, out_.size(1) - column)};
      for (int64_t row = 0; row < out_.size(0); row += kPartRows) {
        run_part({row, std::min(kPartRows, out_.size(0) - row)}, columns);
      }
    }
  }

 private:
  // A float32 result without a bias adds up where it belongs.
  bool sums_in_place() const { return out_.scalar_type() == torch::kFloat32 && bias_ == nullptr; }

  float* out_at(int64_t row, int64_t column) const {
    return reinterpret_cast<float*>(element(out_, row * out_.stride(0) + column));
  }

  void run_part(Range rows, Range columns) {
    const Sums sums = sums_in_place()
                          ? Sums{out_at(rows.begin, columns.begin), out_.stride(0), beta_ != 0.0f}
                          : Sums{sums_, columns.count, false};
    const int64_t slices = (depth_ + kDepth - 1) / kDepth;
    for (int64_t slice = 0; slice < slices; ++slice) {
      const int64_t k = depth_ * slice / slices, end = depth_ * (slice + 1) / slices;
      pack(rows, columns, {k, end - k});
      multiply(rows.count, columns.count, end - k, sums, slice > 0 || sums.begin_with_content);
    }
    if (!sums_in_place()) round(rows, columns);
  }

  void pack(Range rows, Range columns, Range slice) {
    const int64_t tile_rows = kernels_.gemm_rows, tile_columns = kernels_.gemm_columns;
    const int64_t left = (rows.count + tile_rows - 1) / tile_rows;
    const int64_t right = (columns.count + tile_columns - 1) / tile_columns;
#pragma omp for schedule(dynamic, 4)
    for (int64_t i = 0; i < left + right; ++i) {
      if (i < right) {
        const int64_t at = i * tile_columns;
        kernels_.gemm_pack_right(
            right_.panel(columns.begin + at, std::min(tile_columns, columns.count - at),
                         slice.begin, slice.count),
            right_panels_ + at * slice.count);
      } else {
        const int64_t at = (i - right) * tile_rows;
        kernels_.gemm_pack_left(left_.panel(rows.begin + at, std::min(tile_rows, rows.count - at),
                                            slice.begin, slice.count),
                                left_panels_ + at * slice.count);
      }
    }
  }

  void multiply(int64_t rows, int64_t columns, int64_t depth, const Sums& sums, bool accumulate) {
    const int64_t row_blocks = (rows + kTaskRows - 1) / kTaskRows;
    const int64_t column_blocks = (columns + kTaskColumns - 1) / kTaskColumns;
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < row_blocks * column_blocks; ++i) {
      const int64_t row = i % row_blocks * kTaskRows, column = i / row_blocks * kTaskColumns;
      kernels_.gemm_multiply({left_panels_ + row * depth, right_panels_ + column * depth,
                              std::min(kTaskRows, rows - row),
                              std::min(kTaskColumns, columns - column), depth,
                              sums.data + row * sums.stride + column, sums.stride, accumulate});
    }
  }

  void round(Range rows, Range columns) {
    const char* bias = static_cast<const char*>(bias_);
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows.count; ++row) {
      round_(sums_ + row * columns.count,
             bias == nullptr ? nullptr : bias + columns.begin * out_.element_size(), beta_,
             element(out_, (rows.begin + row) * out_.stride(0) + columns.begin), columns.count);
    }
  }

  const CpuKernels& kernels_;
  decltype(CpuKernels::gemm_round) round_;
  const Tensor& out_;
  Operand left_, right_;
  int64_t depth_;
  const void* bias_;
  float beta_;
  int64_t part_columns_ = 0;
  Tensor workspace_;  // from libtorch's allocator, like everything else that is counted
  float *left_panels_ = nullptr, *right_panels_ = nullptr, *sums_ = nullptr;
};

}  // namespace

bool cpu_multiplies(torch::Dtype dtype) {
  const bool onednn_fails = kCallsOneDnn && !onednn_multiplies(dtype);
  switch (dtype) {
    case torch::kFloat32:
      return onednn_fails;
    case torch::kBFloat16:
      return onednn_fails || cpu_instructions() != CpuInstructions::kAvx512Bf16;
    default:
      return dtype == torch::kFloat16;
  }
}

torch::Dtype product_dtype(torch::Dtype dtype, const torch::Device& device) {
  return device.is_cpu() && cpu_multiplies(dtype) ? torch::kFloat32 : dtype;
}

void cpu_multiply(Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias, double beta) {
  Product product(out, a, b, bias, beta);
  if (at::in_parallel_region()) {  // a team of its own: the loops would be shared with the callers'
#pragma omp parallel num_threads(1)
    product.run();
    return;
  }
  const bool serial = out.numel() * a.size(1) <= kSerialNumel;
  const int threads = serial ? 1 : at::get_num_threads();
  if (threads == 1) {  // without a team: a process that was forked from one with a team has none
    product.run();
    return;
  }
#pragma omp parallel num_threads(threads)
  product.run();
}

}  // namespace sftbench::ops
