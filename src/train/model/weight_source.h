// A tensor of a checkpoint, where a parameter is read from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "sftbench/checkpoint/checkpoint.h"

namespace sftbench {

struct Source {
  const CheckpointShard* shard;
  const StoredTensor* tensor;

  void read(uint64_t begin_bytes, void* buffer, size_t size_bytes) const {
    shard->read(*tensor, begin_bytes, buffer, size_bytes);
  }
};

using Sources = std::map<std::string, Source>;  // by the names that the model has for them

}  // namespace sftbench
