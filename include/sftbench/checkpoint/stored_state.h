// Saved values, whatever files they are spread over: elements [a, b) of a parameter, flattened row
// by row, come from wherever somebody wrote them. Three ways of writing them are one to who reads:
//   whole tensors      model.safetensors and its kin: each tensor of a file is all of a value
//   SHARDED            <stem>_pieces.json names files with a piece of a parameter per tensor
//   LOCAL              the same index, its pieces lying in one flat tensor per unit and rank
//
// <stem>_pieces.json: {"pieces": [{"value": name, "shape": of all of it, "begin": b, "end": e,
//   "file": name, "tensor": in that file, "offset": element of the tensor where b is}, ...]}
// Block-wise quantized values have "map" and "scales" (a tensor of the same file) beside it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/checkpoint/checkpoint.h"
#include "sftbench/checkpoint/manifest.h"

namespace sftbench {

struct PieceRow {
  std::string value;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;
  std::string file;
  std::string tensor;
  int64_t offset = 0;
  std::string map;     // of codes; empty: plain numbers
  std::string scales;  // tensor of the blocks' scales
};

Json to_json(const PieceRow& row);

// "<stem>_pieces.json" of pieces by all ranks.
std::string pieces_file_name(const std::string& stem);
FileSum write_pieces(const std::filesystem::path& folder, const std::string& stem, Json rows);

// A run of elements of a value in a file.
struct StoredRun {
  int64_t begin = 0, end = 0;             // of the value
  const CheckpointShard* file = nullptr;  // of codes, where there is a map
  const StoredTensor* tensor = nullptr;
  int64_t offset = 0;  // element of `tensor` at which it begins
  std::string map;
  const StoredTensor* scales = nullptr;
};

struct StoredValue {
  std::vector<int64_t> shape;
  std::vector<StoredRun> runs;  // by rising begin, as they stand in the files
};

class StoredState {
 public:
  // InputError, all findings at once: an index that is malformed, leads out of the folder, or names
  // tensors that are not there or are too short.
  static StoredState of_pieces(const std::filesystem::path& folder, const std::string& stem);
  // Every tensor of these files is a value.
  static StoredState of_files(const std::filesystem::path& folder,
                              std::vector<CheckpointShard> files);

  // Null when there is none of this name.
  const StoredValue* find(const std::string& value) const;
  std::vector<std::string> names() const;

  // What makes up elements [begin, end) of the value, cut to them. InputError when the value, or a
  // part of this range, is in no file. Quantized runs are not cut: a block's scale is of all of it.
  std::vector<StoredRun> runs(const std::string& value, int64_t begin, int64_t end) const;

  const std::filesystem::path& folder() const { return folder_; }

 private:
  StoredState() = default;

  std::filesystem::path folder_;
  std::map<std::string, std::unique_ptr<CheckpointShard>> files_;
  std::map<std::string, StoredValue> values_;
};

}  // namespace sftbench
