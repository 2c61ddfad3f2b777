// A file of the fuzzer's, for readers that take paths. In memory: it is written anew many times a
// second.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace sftbench {

class FolderInMemory {
 public:
  FolderInMemory() { std::filesystem::create_directories(path_); }
  ~FolderInMemory() { std::filesystem::remove_all(path_); }
  FolderInMemory(const FolderInMemory&) = delete;
  FolderInMemory& operator=(const FolderInMemory&) = delete;

  // Its path.
  std::string write(const std::string& name, std::string_view content) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }

 private:
  std::filesystem::path path_ = "/dev/shm/sftbench-fuzz-" + std::to_string(getpid());
};

}  // namespace sftbench
