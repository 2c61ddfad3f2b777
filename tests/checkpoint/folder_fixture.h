// A folder of a test's own, and small checkpoints in it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/checkpoint/manifest.h"
#include "sftbench/checkpoint/saved_folder.h"

namespace sftbench {

namespace fs = std::filesystem;

// Files of `content`, by name, with their manifest.
inline void write_saved(const fs::path& folder, const std::string& kind, int64_t step,
                        const std::map<std::string, std::string>& content) {
  Manifest manifest{kind, step, "a job", "FULL", {}};
  for (const auto& [name, text] : content) {
    manifest.files.push_back(write_summed(folder, name, text));
  }
  write_manifest(folder, manifest);
}

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    std::string name = ::testing::TempDir() + "saved.XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  ~FolderTest() override { fs::remove_all(root_); }

  static std::vector<std::string> names_in(const fs::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::vector<std::string> names() const { return names_in(root_); }

  void make_checkpoint(int64_t step, const std::string& weights = "weights") const {
    write_saved(root_ / ("checkpoint-" + std::to_string(step)), "checkpoint", step,
                {{kTrainerStateFile, "{}"}, {"model.safetensors", weights}});
  }

  fs::path root_;
};

inline std::string problem_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no problem";
}

}  // namespace sftbench
