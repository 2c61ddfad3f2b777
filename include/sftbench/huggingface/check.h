// Verifies what is in a Hugging Face cache, offline: names of blobs are hashes of their content.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace sftbench {

struct CheckedModel {
  std::string name;  // as asked for
  std::string hub_id;
  std::filesystem::path snapshot;  // empty when there is none
  int files = 0;
  uint64_t size_bytes = 0;
  std::vector<std::string> problems;          // each names a file; empty: whole and right
  std::vector<std::filesystem::path> spoilt;  // blobs whose content is not what their name says
};

struct CheckProgress {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

// The snapshot that a run would use: every link leads to a blob of this model, every blob's hash is
// its name, config.json and tokenizer.json are there, and the safetensors headers agree with each
// other, the index and the sizes of the files. Hashes on up to `threads` threads.
std::vector<CheckedModel> check_models(
    const std::vector<std::pair<std::string, std::string>>& names_and_ids,
    const std::filesystem::path& cache, int threads,
    const std::function<void(const CheckProgress&)>& progress);

}  // namespace sftbench
