// The mask of Dropout, which comes from a counter (dropout_mask.h) on every device.
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ops/checks.h"
#include "ops/dropout_impl.h"
#include "ops/dropout_mask.h"
#include "ops/random_bits.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

constexpr int64_t kLanes = kDropoutLanes;

// Elements of blocks [begin, end), `most` elements in all. A batch of random numbers is drawn
// first, so that what is done with them are vector operations on 16-bit lanes.
template <typename Word>
void copy_kept(const Word* x, Word* kept, int64_t begin, int64_t end, int64_t most,
               uint16_t threshold, uint64_t seed) {
  constexpr int64_t kBatch = 64;
  std::array<uint64_t, kBatch> bits;
  std::array<uint16_t, kBatch * kLanes> lanes;
  for (int64_t block = begin; block < end; block += kBatch) {
    const int64_t blocks = std::min(kBatch, end - block);
    for (int64_t i = 0; i < blocks; ++i)
      bits[static_cast<size_t>(i)] = random_bits(seed, static_cast<uint64_t>(block + i));
    std::memcpy(lanes.data(), bits.data(), static_cast<size_t>(blocks) * sizeof(uint64_t));
    const int64_t first = block * kLanes, count = std::min(blocks * kLanes, most - first);
    for (int64_t i = 0; i < count; ++i) {
      const bool keeps = lanes[static_cast<size_t>(i)] >= threshold;
      kept[first + i] = static_cast<Word>(x[first + i] & static_cast<Word>(-Word{keeps}));
    }
  }
}

template <typename Word>
void zero_on_cpu(const Tensor& x, Tensor& kept, const Dropout& dropout) {
  const uint16_t threshold = drop_threshold(dropout.probability);
  const auto* source = static_cast<const Word*>(x.data_ptr());
  auto* target = static_cast<Word*>(kept.data_ptr());
  const int64_t blocks = (x.numel() + kLanes - 1) / kLanes;
  constexpr int64_t kGrain = 4096;
  at::parallel_for(0, blocks, kGrain, [&](int64_t begin, int64_t end) {
    copy_kept(source, target, begin, end, x.numel(), threshold, dropout.seed);
  });
}

// Signed 64-bit words, as libtorch has them: products wrap around, and a shift has to be made
// logical.
int64_t word(uint64_t bits) {
  return static_cast<int64_t>(bits);
}

Tensor mixed(const Tensor& z, int64_t shift) {
  return z.bitwise_xor(z.bitwise_right_shift(shift).bitwise_and((int64_t{1} << (64 - shift)) - 1));
}

Tensor random_words(uint64_t seed, const Tensor& counter) {
  Tensor z = (counter + 1) * word(0x9E3779B97F4A7C15U) + word(seed);
  z = mixed(z, 30) * word(0xBF58476D1CE4E5B9U);
  z = mixed(z, 27) * word(0x94D049BB133111EBU);
  return mixed(z, 31);
}

}  // namespace

void require_probability(const Dropout& dropout, const char* op) {
  require(dropout.probability >= 0.0 && dropout.probability < 1.0, op, "a probability in [0, 1)",
          std::to_string(dropout.probability));
}

Tensor zero_dropped(const Tensor& x, const Dropout& dropout) {
  require_float(x, "zero_dropped", "x");
  require_probability(dropout, "zero_dropped");
  if (dropout.probability == 0.0) return x;
  const Tensor source = x.contiguous();
  Tensor kept = torch::empty_like(source);
#if SFTBENCH_CUDA
  if (source.is_cuda()) {
    zero_dropped_cuda(source, kept, drop_threshold(dropout.probability), dropout.seed);
    return kept;
  }
#endif
  switch (source.element_size()) {
    case 2:
      zero_on_cpu<uint16_t>(source, kept, dropout);
      break;
    case 4:
      zero_on_cpu<uint32_t>(source, kept, dropout);
      break;
    default:
      zero_on_cpu<uint64_t>(source, kept, dropout);
  }
  return kept;
}

double kept_scale(const Dropout& dropout) {
  return kept_scale_of(drop_threshold(dropout.probability));
}

uint64_t derived_seed(uint64_t seed, uint64_t index) {
  return random_bits(seed, index);
}

Tensor kept_keys(const Dropout& dropout, const DropoutTile& tile,
                 const torch::TensorOptions& options) {
  const auto words = torch::TensorOptions().dtype(torch::kInt64).device(options.device());
  const int64_t first_block = tile.k_begin / kLanes;
  const int64_t row_blocks = (tile.row_length + kLanes - 1) / kLanes;
  const Tensor heads = torch::arange(tile.batch * tile.heads, words).view({-1, 1, 1});
  const Tensor queries = torch::arange(tile.q_begin, tile.q_end, words).view({1, -1, 1});
  const Tensor blocks = torch::arange(first_block, (tile.k_end + kLanes - 1) / kLanes, words);
  const Tensor rows = heads * tile.row_length + (queries + tile.first_position);
  const Tensor bits = random_words(dropout.seed, rows * row_blocks + blocks);
  std::vector<Tensor> lanes;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    lanes.push_back(bits.bitwise_right_shift(16 * lane).bitwise_and(0xffff));
  }
  const uint16_t threshold = drop_threshold(dropout.probability);
  return torch::stack(lanes, -1)
      .flatten(-2)
      .slice(-1, tile.k_begin - first_block * kLanes, tile.k_end - first_block * kLanes)
      .ge(threshold)
      .unflatten(0, std::vector<int64_t>{tile.batch, tile.heads})
      .to(options.dtype())
      .mul_(kept_scale_of(threshold));
}

namespace {

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        double probability, int64_t seed) {
    context->saved_data["probability"] = probability;
    context->saved_data["seed"] = seed;
    return kept(x, {probability, static_cast<uint64_t>(seed)});
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const Dropout dropout = {context->saved_data["probability"].toDouble(),
                             static_cast<uint64_t>(context->saved_data["seed"].toInt())};
    return {kept(gradients[0].contiguous(), dropout), {}, {}};
  }

 private:
  static Tensor kept(const Tensor& x, const Dropout& dropout) {
    return zero_dropped(x, dropout).mul_(kept_scale(dropout));
  }
};

}  // namespace

Tensor dropout(const Tensor& x, const Dropout& dropout) {
  require_probability(dropout, "dropout");
  if (dropout.probability == 0) return x;
  return DropoutFunction::apply(x.contiguous(), dropout.probability, word(dropout.seed));
}

}  // namespace sftbench::ops
