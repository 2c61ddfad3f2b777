// Writes safetensors files, right and wrong ones, independently of the reader under test.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace sftbench {

inline std::string length_field(uint64_t length) {
  std::string field(8, '\0');
  for (char& byte : field) {
    byte = static_cast<char>(length & 0xFF);
    length >>= 8;
  }
  return field;
}

// A file with this header and `data_bytes` zeros behind it.
inline std::string safetensors(const std::string& header, size_t data_bytes) {
  return length_field(header.size()) + header + std::string(data_bytes, '\0');
}

// {"name": {"dtype": ..., "shape": ..., "data_offsets": ...}} without the braces around it.
inline std::string entry(const std::string& name, const std::string& dtype,
                         const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

// A folder for one test, gone afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "sftbench_test_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

 private:
  std::filesystem::path path_;
};

// What an expression's InputError says; empty when it throws none.
template <typename Error, typename Function>
std::string message_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace sftbench
