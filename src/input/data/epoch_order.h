// In which order an epoch visits the entries: exactly as Hugging Face Trainer does with its
// defaults, so that losses can be compared step by step. Source: accelerate's SeedableRandomSampler
// (seed + epoch) over torch.randperm on the CPU generator.
#pragma once

#include <cstdint>
#include <vector>

namespace sftbench {

// torch.randperm(n, generator=Generator().manual_seed(seed)).
// InputError from n = 214748364 on, where torch draws differently (no dataset comes near).
std::vector<int64_t> random_permutation(int64_t n, uint64_t seed);

// The entries of epoch 0, 1, ... in the order in which they are read.
std::vector<int64_t> epoch_order(int64_t entries, uint64_t seed, int64_t epoch);

}  // namespace sftbench
