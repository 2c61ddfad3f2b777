// Writes safetensors files piece by piece: the header comes first and says all places, so that
// tensors can be of any size together and never be in memory together. Checksums are taken of the
// bytes on their way to the file. The file is there at once and whole only after finish(): write
// into a folder that does not count yet (pending_folder.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sftbench/base/digest.h"
#include "sftbench/base/owned_fd.h"
#include "sftbench/checkpoint/manifest.h"
#include "sftbench/checkpoint/safetensors.h"

namespace sftbench {

struct TensorHeader {
  std::string name;
  StoredDtype dtype = StoredDtype::kF32;
  std::vector<int64_t> shape;

  uint64_t size_bytes() const;
};

// What stands before the tensors' bytes, filled up with spaces so that these are aligned.
std::string safetensors_header(const std::vector<TensorHeader>& tensors);

// InputError naming the path when something cannot be written.
class SafetensorsWriter {
 public:
  SafetensorsWriter(std::filesystem::path path, const std::vector<TensorHeader>& tensors);

  // The next bytes of the tensors, which follow each other in the header's order.
  void append(const void* bytes, size_t size_bytes);
  // All were appended (checked); they are on the disk when it returns.
  FileSum finish();

 private:
  void write(const char* next, size_t size_bytes);

  std::filesystem::path path_;
  OwnedFd file_;
  StreamingDigest digest_;
  uint64_t written_bytes_ = 0, expected_bytes_ = 0;
};

// Weights as Hugging Face saves them: model.safetensors, or model-00001-of-00002.safetensors and so
// on, with model.safetensors.index.json, where one file would be larger than `most_bytes`.
class ModelFilesWriter {
 public:
  static constexpr uint64_t kMostFileBytes = 5'000'000'000;  // as save_pretrained()

  ModelFilesWriter(std::filesystem::path folder, std::vector<TensorHeader> tensors,
                   uint64_t most_bytes = kMostFileBytes);

  // The whole next tensor.
  void append(const void* bytes, size_t size_bytes);
  // Of all files.
  std::vector<FileSum> finish();

 private:
  std::string file_name(size_t file) const;
  void finish_file();

  std::filesystem::path folder_;
  std::vector<std::vector<TensorHeader>> files_;
  size_t file_ = 0, tensor_ = 0;  // that comes next
  std::unique_ptr<SafetensorsWriter> writer_;
  std::vector<FileSum> sums_;
};

}  // namespace sftbench
