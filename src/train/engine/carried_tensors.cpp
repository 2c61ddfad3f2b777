#include "engine/carried_tensors.h"

namespace sftbench {

CarriedTensors::CarriedTensors(const std::string& weights_directory, const Family& family) {
  if (weights_directory.empty() || family.canonical_name == nullptr) return;
  shards_ = open_checkpoint(weights_directory);
  for (const CheckpointShard& shard : shards_) {
    for (const StoredTensor& tensor : shard.tensors) {
      if (!family.canonical_name(tensor.name).empty()) continue;
      headers_.push_back({tensor.name, tensor.dtype, tensor.shape});
      places_.emplace_back(&shard, &tensor);
    }
  }
}

uint64_t CarriedTensors::size_bytes() const {
  uint64_t bytes = 0;
  for (const TensorHeader& header : headers_) bytes += header.size_bytes();
  return bytes;
}

void CarriedTensors::append_to(ModelFilesWriter& writer) const {
  for (const auto& [shard, tensor] : places_) {
    std::vector<char> bytes(tensor->size_bytes);
    shard->read(*tensor, 0, bytes.data(), bytes.size());
    writer.append(bytes.data(), bytes.size());
  }
}

}  // namespace sftbench
