// The loops of the CPU operators, compiled once per instruction set (kernels_*.cpp) and chosen
// once at run time, so that one binary runs on any x86-64 at the speed of the machine it finds.
// Kernels work on contiguous ranges and know nothing of threads or tensors; pointers are to
// elements of the dtype that the table was asked for.
#pragma once

#include <cstdint>

#include "sftbench/base/cpu_instructions.h"

namespace sftbench::ops {

// One call of causal attention; the layouts are those of attention.h. Everything is padded to tiles
// of kTile positions and to kLanes elements of a head, and packed into 32-bit units: a float32
// each, or a pair of bfloat16 that the processor multiplies and adds at once.
struct AttentionProblem {
  static constexpr int64_t kTile = 64;
  static constexpr int64_t kLanes = 16;

  int64_t batch, length, heads, kv_heads, dim, window;  // length: of the queries
  // Keys either are the queries' own positions, or stand before all queries. distance: positions
  // from the first key to the first query. 0: their own; else key_length or more.
  int64_t key_length, distance = 0;
  int64_t q_row, k_row, lse_row;  // positions between rows of a batch: of queries, of keys, of lse
  // output, lse, dq, dk and dv are float32 and hold what other keys or queries gave: this adds.
  bool adds = false;
  float scale;
  int64_t parts;  // backward: the query tiles of a key/value head are dealt to this many tasks
  const void *q, *k, *v;
  void* output;
  float* lse;  // [B, H, S]
  const void* output_gradient;
  void *dq, *dk, *dv;
  // Packed copies per key/value head: transposed for products over the head, natural for products
  // over positions.
  uint32_t *k_transposed, *v_transposed, *k_natural, *v_natural;  // unused ones are null
  float *dk_parts, *dv_parts;  // [B, K, parts, padded S, padded D], zeroed
  // Dropout of probabilities (dropout_mask.h), none where the threshold is 0.
  const float *slopes = nullptr, *sinks = nullptr;  // [H] ScoreTerms, or null
  float cap = 0;                                    // of ScoreTerms
  uint16_t drop_threshold;
  float kept_scale;
  uint64_t drop_seed;
  int64_t first_position, row_length;  // of the first query in its row; of that row
  int64_t first_key = 0;               // in its sequence

  int64_t tiles() const { return (length + kTile - 1) / kTile; }
  int64_t key_tiles() const { return (key_length + kTile - 1) / kTile; }
  int64_t padded_dim() const { return (dim + kLanes - 1) / kLanes * kLanes; }
  int64_t packed_numel() const {
    return key_tiles() * kTile * padded_dim();
  }  // upper bound per key/value head
};

// What a panel is packed from: `count` rows of a left operand, or columns of a right one. Element k
// of vector i stands at data[i * vector_stride + k * depth_stride].
struct GemmPanel {
  const void* data;
  int64_t vector_stride, depth_stride, count, depth;
};

// c [rows, columns] (+)= left right: panels of `depth` positions, one behind the other.
struct GemmBlock {
  const float *left, *right;
  int64_t rows, columns, depth;
  float* c;
  int64_t c_stride;
  bool accumulate;
};

// A block of a causal convolution (causal_convolution_impl.h): positions [begin, end) of a
// sequence, and some channels, side by side. Pointers are to the first channel of the block at the
// sequence's first position, of taps at the first tap.
struct ConvolutionProblem {
  const void* x;
  int64_t x_stride, row_stride;  // between positions: of x, and of all others
  const float *taps, *bias;      // bias may be null
  int64_t tap_count, tap_stride, channels, begin, end, length;
  bool silu;
  void* y = nullptr;
  const void* y_gradient = nullptr;
  void* x_gradient = nullptr;
  float* tap_gradients = nullptr;  // [tap_count + 1] rows, the last one of the bias: added to
  float* scratch = nullptr;        // backward: tap_count * channels
};

// A chunk of a sequence: `length` positions from `row` of all batches' positions.
struct ScanChunkRange {
  int64_t row, length, index;  // index among all chunks
};

// The chunks of one sequence in order, for some heads of one group.
struct ScanTask {
  int64_t sequence;
  const ScanChunkRange* chunks;
  int64_t chunk_count, group, first_head, heads;
  int64_t part;  // backward: which of the parts that add up to the gradients of b and c
};

// One call of the state-space scan (state_space_scan_impl.h). Strides are between positions;
// tensors without one are contiguous.
struct ScanProblem {
  static constexpr int64_t kChunk = 128, kLanes = 16;

  int64_t heads, groups, dim, state;
  const void *x, *b, *c;
  int64_t x_stride, b_stride, c_stride;
  const float *dt, *a, *d;
  void* y = nullptr;
  float* states = nullptr;  // [chunks, H, padded N, padded P] before each chunk, unset at the first
  float* scores = nullptr;  // [chunks, G, kChunk, kChunk]
  const void* y_gradient = nullptr;
  void* x_gradient = nullptr;
  float *dt_gradient = nullptr, *a_gradient = nullptr, *d_gradient = nullptr;  // [.., H]
  float *b_parts = nullptr, *c_parts = nullptr;  // [parts, B, S, G, N]
  int64_t part_numel = 0;

  static int64_t padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }
  int64_t padded_dim() const { return padded(dim); }
  int64_t padded_state() const { return padded(state); }
  float* scores_of(const ScanChunkRange& chunk, int64_t group) const {
    return scores + (chunk.index * groups + group) * kChunk * kChunk;
  }
  float* state_of(const ScanChunkRange& chunk, int64_t head) const {
    return states + (chunk.index * heads + head) * padded_state() * padded_dim();
  }
  // Floats that a call of any of the kernels needs, for tasks of so many heads.
  int64_t scratch_numel(int64_t most_heads) const {
    return kChunk * (6 * padded_dim() + 8 * padded_state() + 3 * kChunk) +
           most_heads * padded_state() * padded_dim();
  }
};

// Rows [rows, groups, width] of a gated norm (ops/gated_norm_impl.h). What is in the chosen dtype
// has no type.
struct GatedNormRows {
  const void *y, *gate;
  int64_t gate_stride;  // between rows
  const float* weight;
  float* rstd;
  int64_t rows, groups, width;
};

// Scratch: attention_scratch_numel() floats per thread.
struct AttentionKernels {
  void (*pack)(const AttentionProblem& problem, int64_t kv_head_index, int64_t tile);
  void (*forward)(const AttentionProblem& problem, int64_t kv_head_index, int64_t tile,
                  float* scratch);
  void (*backward)(const AttentionProblem& problem, int64_t kv_head_index, int64_t part,
                   float* scratch);
  void (*reduce)(const AttentionProblem& problem, int64_t kv_head_index, int64_t tile);
};

struct CpuKernels {
  void (*rms_norm_forward)(const void* x, const void* weight, void* y, float* rstd, int64_t rows,
                           int64_t width, float epsilon);
  // weight_gradient [width] is added to; null where it is not wanted.
  void (*rms_norm_backward)(const void* dy, const void* x, const void* weight, const float* rstd,
                            void* dx, float* weight_gradient, int64_t rows, int64_t width);
  void (*gated_norm_forward)(const GatedNormRows& p, float epsilon, void* out);
  // weight_gradient [groups, width] is added to.
  void (*gated_norm_backward)(const GatedNormRows& p, const void* d_out, void* dy, void* d_gate,
                              float* weight_gradient);
  // Rotates the heads of one position; sign -1 rotates back.
  void (*rope)(const void* x, const void* cos, const void* sin, void* y, int64_t heads, int64_t dim,
               float sign);
  // gelu: by tanh, in the place of SiLU.
  void (*swiglu_forward)(const void* gate, const void* up, void* y, int64_t n, bool gelu);
  void (*swiglu_backward)(const void* dy, const void* gate, const void* up, void* d_gate,
                          void* d_up, int64_t n, bool gelu);
  // target += sum of rows[positions[i]], added up in float32 and rounded once.
  void (*add_rows)(void* target, const void* rows, const int64_t* positions, int64_t count,
                   int64_t width);
  // Rows of a mixture's experts, added up for one token; and back (ops/route.h).
  void (*combine_rows)(const void* rows, const int64_t* positions, const float* weights,
                       int64_t count, void* out, int64_t width);
  void (*combine_rows_backward)(const void* d_out, const void* rows, const int64_t* positions,
                                const float* weights, int64_t count, void* d_rows, float* d_weights,
                                int64_t width);
  void (*convolution_forward)(const ConvolutionProblem& problem);
  void (*convolution_backward)(const ConvolutionProblem& problem);
  // The state-space scan; scratch: ScanProblem::scratch_numel().
  void (*scan_scores)(const ScanProblem& problem, const ScanChunkRange& chunk, int64_t group,
                      float* scratch);
  void (*scan_forward)(const ScanProblem& problem, const ScanTask& task, float* scratch);
  void (*scan_backward)(const ScanProblem& problem, const ScanTask& task, float* scratch);
  // Cross-entropy of one row of logits times logit_scale; overwrites the logits with their gradient
  // times gradient_scale unless that is 0.
  float (*cross_entropy)(void* logits, int64_t width, int64_t label, float logit_scale,
                         float gradient_scale);
  float (*sum_of_squares)(const void* x, int64_t n);

  AttentionKernels attention;

  // Matrix products (gemm_kernels.h). A left panel has gemm_rows vectors, a right one
  // gemm_columns; what lies beyond the operand is 0.
  int64_t gemm_rows, gemm_columns;
  void (*gemm_pack_left)(const GemmPanel& from, float* panel);
  void (*gemm_pack_right)(const GemmPanel& from, float* panel);
  void (*gemm_multiply)(const GemmBlock& block);
  void (*gemm_round)(const float* sums, const void* bias, float beta, void* out, int64_t columns);
};

inline int64_t attention_scratch_numel(const AttentionProblem& problem) {
  const int64_t tile = AttentionProblem::kTile;
  return 5 * tile * tile + 6 * tile * problem.padded_dim();
}

enum class CpuType { kFloat32, kBFloat16, kFloat16 };

// The table of the instruction set that this process uses (base/cpu_instructions.h).
const CpuKernels& cpu_kernels(CpuType type);

}  // namespace sftbench::ops
