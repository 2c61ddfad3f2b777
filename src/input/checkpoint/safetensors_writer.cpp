#include "sftbench/checkpoint/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <numeric>
#include <utility>

#include "checkpoint/refusal.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

// What is written was in the cache for its checksum just before.
constexpr size_t kChunkBytes = 256 << 10;

std::string little_endian(uint64_t value) {
  std::string bytes(8, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(value & 0xFF);
    value >>= 8;
  }
  return bytes;
}

uint64_t total_bytes(const std::vector<TensorHeader>& tensors) {
  uint64_t bytes = 0;
  for (const TensorHeader& tensor : tensors) bytes += tensor.size_bytes();
  return bytes;
}

}  // namespace

uint64_t TensorHeader::size_bytes() const {
  const int64_t numel =
      std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
  return static_cast<uint64_t>(numel * element_size_bytes(dtype));
}

std::string safetensors_header(const std::vector<TensorHeader>& tensors) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  uint64_t begin = 0;
  for (const TensorHeader& tensor : tensors) {
    const uint64_t end = begin + tensor.size_bytes();
    header[tensor.name] = {{"dtype", to_string(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return little_endian(text.size()) + text;
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path,
                                     const std::vector<TensorHeader>& tensors)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (file_.get() < 0) fail(path_, "cannot write", errno);
  const std::string header = safetensors_header(tensors);
  expected_bytes_ = header.size() + total_bytes(tensors);
  append(header.data(), header.size());
}

void SafetensorsWriter::append(const void* bytes, size_t size_bytes) {
  const char* next = static_cast<const char*>(bytes);
  for (size_t done = 0; done < size_bytes; done += kChunkBytes) {
    const size_t chunk = std::min(kChunkBytes, size_bytes - done);
    digest_.add(next + done, chunk);
    write(next + done, chunk);
  }
}

void SafetensorsWriter::write(const char* next, size_t size_bytes) {
  while (size_bytes > 0) {
    const ssize_t written = ::write(file_.get(), next, size_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "cannot write", errno);
    next += written;
    size_bytes -= static_cast<size_t>(written);
    written_bytes_ += static_cast<uint64_t>(written);
  }
}

FileSum SafetensorsWriter::finish() {
  check(written_bytes_ == expected_bytes_, "all tensors of the header were written");
  if (::fsync(file_.get()) != 0) fail(path_, "cannot write", errno);
  return {path_.filename().string(), written_bytes_, digest_.text()};
}

ModelFilesWriter::ModelFilesWriter(std::filesystem::path folder, std::vector<TensorHeader> tensors,
                                   uint64_t most_bytes)
    : folder_(std::move(folder)) {
  uint64_t bytes = 0;  // of the file that grows
  for (TensorHeader& tensor : tensors) {
    if (files_.empty() || bytes + tensor.size_bytes() > most_bytes) {
      files_.emplace_back();
      bytes = 0;
    }
    bytes += tensor.size_bytes();
    files_.back().push_back(std::move(tensor));
  }
}

std::string ModelFilesWriter::file_name(size_t file) const {
  if (files_.size() == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", file + 1, files_.size());
  return name;
}

void ModelFilesWriter::append(const void* bytes, size_t size_bytes) {
  check(file_ < files_.size(), "no more tensors are written than were announced");
  const std::vector<TensorHeader>& tensors = files_[file_];
  check(size_bytes == tensors[tensor_].size_bytes(), "tensors come whole and in their order");
  if (!writer_) {
    writer_ = std::make_unique<SafetensorsWriter>(folder_ / file_name(file_), tensors);
  }
  writer_->append(bytes, size_bytes);
  if (++tensor_ == tensors.size()) finish_file();
}

void ModelFilesWriter::finish_file() {
  sums_.push_back(writer_->finish());
  writer_.reset();
  ++file_;
  tensor_ = 0;
}

std::vector<FileSum> ModelFilesWriter::finish() {
  check(file_ == files_.size(), "all tensors that were announced were written");
  if (files_.size() == 1) return sums_;
  uint64_t total = 0;
  Json weight_map = Json::object();
  for (size_t file = 0; file < files_.size(); ++file) {
    total += total_bytes(files_[file]);
    for (const TensorHeader& tensor : files_[file]) weight_map[tensor.name] = file_name(file);
  }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  sums_.push_back(
      write_summed(folder_, "model.safetensors.index.json", json_text(index, 2) + "\n"));
  return sums_;
}

}  // namespace sftbench
