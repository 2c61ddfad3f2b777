// How the tensors of a unit lie in one flat array that is cut into equal shards: each at an offset
// that is aligned for every kernel, zeros between them, the whole padded to the number of shards.
// Tensors of one layout share a dtype, and either all train or none does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sftbench {

inline constexpr int64_t kFlatAlignmentBytes = 256;

struct FlatTensor {
  std::string name;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // of the flat array, in elements
  int64_t end = 0;
};

// Elements [begin, end) of the flat array are elements [begin, end) - tensor.begin of a tensor.
struct FlatSlice {
  size_t tensor;  // its number
  int64_t begin;
  int64_t end;
};

class FlatLayout {
 public:
  FlatLayout(int64_t element_bytes, int64_t shards)
      : element_bytes_(element_bytes), shards_(shards) {}

  void add(const std::string& name, std::vector<int64_t> shape);

  const std::vector<FlatTensor>& tensors() const { return tensors_; }
  int64_t shard_elements() const;                                  // of each shard
  int64_t elements() const { return shard_elements() * shards_; }  // padding included

  // What shard `rank` holds of the tensors, in their order; padding belongs to none.
  std::vector<FlatSlice> slices(int64_t rank) const;

 private:
  int64_t element_bytes_;
  int64_t shards_;
  int64_t end_ = 0;
  std::vector<FlatTensor> tensors_;
};

}  // namespace sftbench
