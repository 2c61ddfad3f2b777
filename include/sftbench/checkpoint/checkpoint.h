// A folder of weights as Hugging Face saves it: model.safetensors, or the shards that
// model.safetensors.index.json names. Opening maps the files and reads their headers; the tensors'
// bytes are touched by whoever copies them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sftbench/base/file.h"
#include "sftbench/checkpoint/safetensors.h"

namespace sftbench {

struct CheckpointShard {
  std::filesystem::path path;
  MappedFile file;
  std::vector<StoredTensor> tensors;

  const std::byte* bytes(const StoredTensor& tensor) const {
    return file.data() + tensor.offset_bytes;
  }
};

// InputError, all findings at once: no weights in `directory` (other formats found there are
// named), an index that names files outside of it, missing shards, everything that
// read_safetensors_header finds, a tensor in two shards, a tensor that is not in the shard that the
// index gives.
std::vector<CheckpointShard> open_checkpoint(const std::filesystem::path& directory);

}  // namespace sftbench
