// Tensors that a checkpoint has of parts that are not trained, such as the vision tower beside a
// text model (Family::canonical_name). Saved models take them over from the checkpoint, as they
// are.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/checkpoint/checkpoint.h"
#include "sftbench/checkpoint/safetensors_writer.h"
#include "sftbench/families/family.h"

namespace sftbench {

class CarriedTensors {
 public:
  // weights_directory: empty for random weights, which have none. InputError as open_checkpoint().
  CarriedTensors(const std::string& weights_directory, const Family& family);

  const std::vector<TensorHeader>& headers() const { return headers_; }
  uint64_t size_bytes() const;
  // Behind all other tensors, whose headers came first.
  void append_to(ModelFilesWriter& writer) const;

 private:
  std::vector<CheckpointShard> shards_;
  std::vector<TensorHeader> headers_;
  std::vector<std::pair<const CheckpointShard*, const StoredTensor*>> places_;
};

}  // namespace sftbench
