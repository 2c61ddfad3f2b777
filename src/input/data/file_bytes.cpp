#include "data/file_bytes.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/loaded_library.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece_bytes = size_t{1} << 20;

// --- what a file is ------------------------------------------------------------------------------

struct Foreign {
  std::string_view begin;
  size_t at;
  const char* what;
  const char* expected;
  bool is_table = false;
};

constexpr std::string_view kGzip = "\x1f\x8b", kZstd = "\x28\xb5\x2f\xfd";
constexpr const char* kUnpacked = "the data in it: unpack it first";
constexpr const char* kData = "JSON, CSV, Parquet or Arrow";

const std::array kForeign = {
    Foreign{"version https://git-lfs", 0, "is a Git LFS pointer, and the data are elsewhere",
            "the data themselves, which `git lfs pull` fetches"},
    Foreign{"<!doctype html", 0, "is a web page", "the file that the page offers"},
    Foreign{"<html", 0, "is a web page", "the file that the page offers"},
    Foreign{"<?xml", 0, "is XML", kData},
    Foreign{"pk\x03\x04", 0, "is a zip archive or an Excel workbook",
            "the data in it: unpack it, or save the sheet as CSV"},
    Foreign{"\xfd"
            "7zxz",
            0, "is packed with xz", "the data in it: run xz -d FILE first"},
    Foreign{"bzh", 0, "is packed with bzip2", "the data in it: run bunzip2 FILE first"},
    Foreign{"7z\xbc\xaf", 0, "is a 7z archive", kUnpacked},
    Foreign{"rar!", 0, "is a rar archive", kUnpacked},
    Foreign{"\x04\x22\x4d\x18", 0, "is packed with lz4", "the data in it: run lz4 -d FILE first"},
    Foreign{"ustar", 257, "is a tar archive", kUnpacked},
    Foreign{"arrow1", 0, "is Arrow", "a name that ends in .arrow", true},
    Foreign{"sqlite format 3", 0, "is a database of SQLite", kData},
    Foreign{"%pdf", 0, "is a PDF", kData},
    Foreign{"\x89hdf", 0, "is HDF5", kData},
    Foreign{"\x93numpy", 0, "is an array of NumPy", kData},
};

}  // namespace

Packing packing_of(const fs::path& path, bool is_table) {
  std::string begin(512, '\0');
  begin.resize(RandomAccessFile(path).read_at(0, begin.data(), begin.size()));
  if (begin.starts_with(kGzip)) return Packing::kGzip;
  if (begin.starts_with(kZstd)) return Packing::kZstd;
  const std::string lower = lower_case(begin);
  const size_t first = std::min(lower.find_first_not_of(" \t\r\n"), lower.size());
  for (const Foreign& foreign : kForeign) {
    if (is_table && foreign.is_table) continue;
    const size_t at = foreign.at > 0 ? foreign.at : first;
    if (lower.compare(std::min(at, lower.size()), foreign.begin.size(), foreign.begin) == 0)
      throw InputError(
          {finding(path, {}, std::string("the file ") + foreign.what, foreign.expected)});
  }
  return Packing::kNone;
}

std::string unpacked_extension(const fs::path& path) {
  const std::string ending = lower_case(path.extension().string());
  if (ending != ".gz" && ending != ".zst") return ending;
  return lower_case(path.stem().extension().string());
}

namespace {

class PlainBytes : public FileBytes {
 public:
  explicit PlainBytes(const fs::path& path)
      : path_(path), file_(path), piece_(kPiece_bytes, '\0') {}

  std::string_view next() override {
    const size_t got = file_.read_at(offset_, piece_.data(), piece_.size());
    offset_ += got;
    return std::string_view(piece_).substr(0, got);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError({finding(path_, {}, what, "a whole file; copy or fetch it again")});
  }

 private:
  fs::path path_;
  RandomAccessFile file_;
  std::string piece_;
  uint64_t offset_ = 0;
};

// One member behind the other, as gzip writes what is appended.
class GzipBytes : public FileBytes {
 public:
  explicit GzipBytes(const fs::path& path) : packed_(path), piece_(kPiece_bytes, '\0') {
    constexpr int kGzipWindowBits = 15 + 16;
    check(inflateInit2(&stream_, kGzipWindowBits) == Z_OK, "zlib decompresses");
  }
  ~GzipBytes() override { inflateEnd(&stream_); }
  GzipBytes(const GzipBytes&) = delete;
  GzipBytes& operator=(const GzipBytes&) = delete;

  std::string_view next() override {
    stream_.next_out = reinterpret_cast<Bytef*>(piece_.data());
    stream_.avail_out = static_cast<uInt>(piece_.size());
    while (stream_.avail_out > 0) {
      if (stream_.avail_in == 0 && !refill()) break;
      if (ended_) {
        inflateReset(&stream_);
        ended_ = false;
      }
      const int status = inflate(&stream_, Z_NO_FLUSH);
      if (status == Z_STREAM_END) ended_ = true;
      if (status != Z_OK && status != Z_STREAM_END) packed_.fail("the file is damaged gzip");
    }
    return std::string_view(piece_).substr(0, piece_.size() - stream_.avail_out);
  }

 private:
  bool refill() {
    const std::string_view more = packed_.next();
    if (more.empty() && !ended_) packed_.fail("the file ends within its gzip");
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(more.data()));
    stream_.avail_in = static_cast<uInt>(more.size());
    return !more.empty();
  }

  PlainBytes packed_;
  std::string piece_;
  z_stream stream_ = {};
  bool ended_ = false;
};

// What of zstd.h is needed, whose functions are loaded when a file asks for them.
struct ZstdBuffer {
  void* bytes;
  size_t size, at;
};

struct Zstd {
  Zstd() {
    const LoadedLibrary library(ReasonCode::kUnsupported, {"libzstd.so.1", "libzstd.so"},
                                "libzstd1, or unpack the file with zstd -d");
    library.find(create, "ZSTD_createDStream");
    library.find(destroy, "ZSTD_freeDStream");
    library.find(decompress, "ZSTD_decompressStream");
    library.find(is_error, "ZSTD_isError");
  }
  void* (*create)() = nullptr;
  size_t (*destroy)(void*) = nullptr;
  size_t (*decompress)(void*, ZstdBuffer* out, ZstdBuffer* in) = nullptr;
  unsigned (*is_error)(size_t) = nullptr;
};

class ZstdBytes : public FileBytes {
 public:
  explicit ZstdBytes(const fs::path& path)
      : packed_(path), piece_(kPiece_bytes, '\0'), stream_(zstd_.create()) {
    check(stream_ != nullptr, "zstd decompresses");
  }
  ~ZstdBytes() override { zstd_.destroy(stream_); }
  ZstdBytes(const ZstdBytes&) = delete;
  ZstdBytes& operator=(const ZstdBytes&) = delete;

  std::string_view next() override {
    ZstdBuffer out = {piece_.data(), piece_.size(), 0};
    while (out.at < out.size) {
      if (in_.at == in_.size && !refill()) break;
      const size_t status = zstd_.decompress(stream_, &out, &in_);
      if (zstd_.is_error(status) != 0) packed_.fail("the file is damaged zstd");
      ended_ = status == 0;
    }
    return std::string_view(piece_).substr(0, out.at);
  }

 private:
  bool refill() {
    const std::string_view more = packed_.next();
    if (more.empty() && !ended_) packed_.fail("the file ends within its zstd");
    in_ = {const_cast<char*>(more.data()), more.size(), 0};
    return !more.empty();
  }

  PlainBytes packed_;
  std::string piece_;
  Zstd zstd_;
  void* stream_;
  ZstdBuffer in_ = {nullptr, 0, 0};
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<FileBytes> open_bytes(const fs::path& path, Packing packing) {
  if (packing == Packing::kGzip) return std::make_unique<GzipBytes>(path);
  if (packing == Packing::kZstd) return std::make_unique<ZstdBytes>(path);
  return std::make_unique<PlainBytes>(path);
}

}  // namespace sftbench
