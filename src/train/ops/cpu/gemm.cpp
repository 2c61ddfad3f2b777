// The blocking follows Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
// (2008). A part of the result is computed over the whole contraction, some slices after the other.
// All threads pack the left panels of these slices together, then take blocks of columns from a
// queue, pack the right panels of their own block and multiply. So threads wait for each other
// twice in some thousand positions of the contraction: waiting is what a machine shared with others
// makes slow.
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

// Sizes of the blocking: a task's blocks of both operands stay in the second-level cache, the left
// panels in the third.
constexpr int64_t kDepth = 384;                         // positions of a slice
constexpr int64_t kLeftNumel = 1 << 20;                 // 4 MiB of left panels
constexpr int64_t kPartRows = 1024;                     // of the result's part
constexpr int64_t kPartNumel = 1 << 19;                 // 2 MiB of sums for each thread
constexpr int64_t kTaskRows = 240, kTaskColumns = 384;  // multiples of every tile
constexpr int64_t kSerialNumel = 1 << 18;  // multiply-adds that a second thread does not speed up

int64_t parts_of(int64_t n, int64_t size) {
  return (n + size - 1) / size;
}

int64_t up(int64_t n, int64_t step) {
  return parts_of(n, step) * step;
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

// One of `blocks` ranges of nearly as many tiles each.
Range block_of(int64_t count, int64_t tile, int64_t index, int64_t blocks) {
  const int64_t tiles = parts_of(count, tile);
  const int64_t begin = tiles * index / blocks * tile;
  return {begin, std::min(count, tiles * (index + 1) / blocks * tile) - begin};
}

// Where the sums of a part are kept between slices.
struct Sums {
  float* data;
  int64_t stride;
  bool begin_with_content;
};

class Product {
 public:
  // `threads`: of the team that runs it. REQUIRES: no size is 0.
  Product(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias, double beta,
          int threads)
      : kernels_(cpu_kernels(a)),
        round_(cpu_kernels(out).gemm_round),
        out_(out),
        left_{element(a, 0), a.stride(0), a.stride(1), a.element_size()},
        right_{element(b, 0), b.stride(1), b.stride(0), b.element_size()},
        depth_(a.size(1)),
        bias_(bias.defined() ? bias.data_ptr() : nullptr),
        beta_(static_cast<float>(beta)),
        threads_(threads) {
    const int64_t most_rows = up(std::min(kPartRows, out.size(0)), kernels_.gemm_rows);
    part_columns_ =
        std::max(threads * kPartNumel / most_rows / kTaskColumns * kTaskColumns, kTaskColumns);
    part_columns_ = std::min(part_columns_, up(out.size(1), kernels_.gemm_columns));
    slices_ = parts_of(depth_, kDepth);
    const int64_t slice_depth = parts_of(depth_, slices_);
    packed_slices_ = std::clamp<int64_t>(kLeftNumel / (most_rows * slice_depth), 1, slices_);
    right_numel_ = std::min(part_columns_, kTaskColumns) * slice_depth;
    const int64_t left_numel = most_rows * slice_depth * packed_slices_;
    const int64_t sums_numel = sums_in_place() ? 0 : most_rows * part_columns_;
    workspace_ = torch::empty({left_numel + threads * right_numel_ + sums_numel}, torch::kFloat32);
    left_panels_ = workspace_.data_ptr<float>();
    right_panels_ = left_panels_ + left_numel;
    sums_ = right_panels_ + threads * right_numel_;
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

  Range slice(int64_t index) const {
    const int64_t begin = depth_ * index / slices_;
    return {begin, depth_ * (index + 1) / slices_ - begin};
  }

  void run_part(Range rows, Range columns) {
    const Sums sums = sums_in_place()
                          ? Sums{out_at(rows.begin, columns.begin), out_.stride(0), beta_ != 0.0f}
                          : Sums{sums_, columns.count, false};
    for (int64_t first = 0; first < slices_; first += packed_slices_) {
      const Range packed{first, std::min(packed_slices_, slices_ - first)};
      pack_left(rows, packed);
      multiply(rows, columns, packed, sums);
    }
    if (!sums_in_place()) round(rows, columns);
  }

  // Panels of a slice stand together, those of the next one behind them.
  float* left_panels(Range rows, Range packed, int64_t index) const {
    return left_panels_ +
           up(rows.count, kernels_.gemm_rows) * (slice(index).begin - slice(packed.begin).begin);
  }

  void pack_left(Range rows, Range packed) {
    const int64_t tile = kernels_.gemm_rows, panels = parts_of(rows.count, tile);
#pragma omp for schedule(dynamic, 4)
    for (int64_t i = 0; i < packed.count * panels; ++i) {
      const int64_t index = packed.begin + i / panels, at = i % panels * tile;
      const Range positions = slice(index);
      kernels_.gemm_pack_left(left_.panel(rows.begin + at, std::min(tile, rows.count - at),
                                          positions.begin, positions.count),
                              left_panels(rows, packed, index) + at * positions.count);
    }
  }

  // Few columns are shared by several threads, each with rows of its own.
  void multiply(Range rows, Range columns, Range packed, const Sums& sums) {
    const int64_t column_tiles = parts_of(columns.count, kernels_.gemm_columns);
    const int64_t row_tiles = parts_of(rows.count, kernels_.gemm_rows);
    const int64_t column_blocks =
        std::min(column_tiles, up(parts_of(columns.count, kTaskColumns), threads_));
    const int64_t row_blocks = std::min(row_tiles, parts_of(threads_, column_blocks));
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < row_blocks * column_blocks; ++i) {
      const Range own_rows = block_of(rows.count, kernels_.gemm_rows, i % row_blocks, row_blocks);
      const Range own_columns =
          block_of(columns.count, kernels_.gemm_columns, i / row_blocks, column_blocks);
      for (int64_t index = packed.begin; index < packed.begin + packed.count; ++index) {
        const float* right =
            pack_right({columns.begin + own_columns.begin, own_columns.count}, slice(index));
        multiply_slice(own_rows, own_columns, slice(index).count, left_panels(rows, packed, index),
                       right, sums, index > 0 || sums.begin_with_content);
      }
    }
  }

  // Into the calling thread's own panels.
  const float* pack_right(Range columns, Range positions) const {
    float* panels = right_panels_ + omp_get_thread_num() * right_numel_;
    const int64_t tile = kernels_.gemm_columns;
    for (int64_t at = 0; at < columns.count; at += tile) {
      kernels_.gemm_pack_right(right_.panel(columns.begin + at, std::min(tile, columns.count - at),
                                            positions.begin, positions.count),
                               panels + at * positions.count);
    }
    return panels;
  }

  void multiply_slice(Range rows, Range columns, int64_t depth, const float* left,
                      const float* right, const Sums& sums, bool accumulate) const {
    for (int64_t row = rows.begin; row < rows.begin + rows.count; row += kTaskRows) {
      kernels_.gemm_multiply({left + row * depth, right,
                              std::min(kTaskRows, rows.begin + rows.count - row), columns.count,
                              depth, sums.data + row * sums.stride + columns.begin, sums.stride,
                              accumulate});
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
  int64_t threads_;
  int64_t part_columns_ = 0;   // of the result's part
  int64_t slices_ = 0;         // of the contraction
  int64_t packed_slices_ = 0;  // whose left panels are kept at a time
  int64_t right_numel_ = 0;    // of a thread's right panels
  Tensor workspace_;           // from libtorch's allocator, like everything else that is counted
  float *left_panels_ = nullptr, *right_panels_ = nullptr, *sums_ = nullptr;
};

}  // namespace

bool cpu_multiplies(torch::Dtype dtype) {
  const bool onednn_fails = kCallsOneDnn && !onednn_multiplies(dtype);
  switch (dtype) {
    case torch::kFloat32:
      return onednn_fails;
    case torch::kBFloat16:
      return onednn_fails || cpu_instructions() < CpuInstructions::kAvx512Bf16;
    default:
      return dtype == torch::kFloat16;
  }
}

torch::Dtype product_dtype(torch::Dtype dtype, const torch::Device& device) {
  return device.is_cpu() && cpu_multiplies(dtype) ? torch::kFloat32 : dtype;
}

std::string product_library(torch::Dtype dtype) {
  if (cpu_multiplies(dtype)) return "sftbench";
  return onednn_multiplies(dtype) ? "oneDNN " + onednn_version() : "libtorch";
}

void cpu_multiply(Tensor& out, const Tensor& a, const Tensor& b, const Tensor& bias, double beta) {
  if (at::in_parallel_region()) {  // a team of its own: the loops would be shared with the callers'
    Product product(out, a, b, bias, beta, 1);
#pragma omp parallel num_threads(1)
    product.run();
    return;
  }
  const bool serial = out.numel() * a.size(1) <= kSerialNumel;
  const int threads = serial ? 1 : at::get_num_threads();
  Product product(out, a, b, bias, beta, threads);
  if (threads == 1) {  // without a team: a process that was forked from one with a team has none
    product.run();
    return;
  }
#pragma omp parallel num_threads(threads)
  product.run();
}

}  // namespace sftbench::ops
