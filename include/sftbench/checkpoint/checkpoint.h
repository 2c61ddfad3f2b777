// A folder of weights as Hugging Face saves it: model.safetensors, or the shards that
// model.safetensors.index.json names. Opening reads the headers; tensors are read where they are
// wanted. They are read, not mapped: copying out of a map faults every page in first and counts the
// file as memory of this process.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sftbench/base/file.h"
#include "sftbench/checkpoint/safetensors.h"

namespace sftbench {

struct CheckpointShard {
  std::filesystem::path path;
  RandomAccessFile file;
  std::vector<StoredTensor> tensors;

  // Bytes [begin, begin + size) of `tensor`, which is of this shard. InputError when the file does
  // not have them any more. Safe to call from many threads.
  void read(const StoredTensor& tensor, uint64_t begin_bytes, void* buffer,
            size_t size_bytes) const;
};

// InputError, all findings at once: no weights in `directory` (other formats found there are
// named), an index that names files outside of it, missing shards, everything that
// read_safetensors_header finds, a tensor in two shards, a tensor that is not in the shard that the
// index gives.
std::vector<CheckpointShard> open_checkpoint(const std::filesystem::path& directory);

// One safetensors file. InputError: everything that read_safetensors_header finds.
CheckpointShard open_safetensors(const std::filesystem::path& path);

}  // namespace sftbench
