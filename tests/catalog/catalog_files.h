// Catalog files for tests, written to a temporary place and gone afterwards.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content)
      : path_(std::filesystem::temp_directory_path() /
              ("sftbench-catalog-" + std::to_string(::getpid()) + ".yaml")) {
    write_file_atomic(path_, content);
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// What is wrong with the file, its path replaced by FILE; "no error" when it can be read.
template <typename Read>
std::string error_of_file(const std::string& content, Read read) {
  const TemporaryFile file(content);
  try {
    read(file.path());
  } catch (const InputError& error) {
    std::string text = error.what();
    for (size_t at = 0; (at = text.find(file.path(), at)) != std::string::npos;) {
      text.replace(at, file.path().size(), "FILE");
    }
    return text;
  }
  return "no error";
}

template <typename Kind>
std::string catalog_error(const std::string& content) {
  return error_of_file(content, [](const std::string& path) { Kind::read(path); });
}

}  // namespace sftbench
