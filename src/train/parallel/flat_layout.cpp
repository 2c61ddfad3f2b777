#include "parallel/flat_layout.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace sftbench {
namespace {

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

void FlatLayout::add(const std::string& name, std::vector<int64_t> shape) {
  const int64_t numel =
      std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
  const int64_t begin = round_up(end_, std::max<int64_t>(1, kFlatAlignmentBytes / element_bytes_));
  end_ = begin + numel;
  tensors_.push_back({name, std::move(shape), begin, end_});
}

int64_t FlatLayout::shard_elements() const {
  const int64_t per_shard = (end_ + shards_ - 1) / shards_;
  // Shards begin aligned, too: a gather writes each where a kernel may read.
  return round_up(per_shard, std::max<int64_t>(1, kFlatAlignmentBytes / element_bytes_));
}

std::vector<FlatSlice> FlatLayout::slices(int64_t rank) const {
  const int64_t shard_begin = rank * shard_elements(), shard_end = shard_begin + shard_elements();
  std::vector<FlatSlice> slices;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const int64_t begin = std::max(tensors_[i].begin, shard_begin);
    const int64_t end = std::min(tensors_[i].end, shard_end);
    if (begin < end) slices.push_back({i, begin, end});
  }
  return slices;
}

}  // namespace sftbench
