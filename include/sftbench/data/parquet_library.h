// Parquet files, through Apache Arrow's C++ library. Arrow is 60 MB that only two commands need and
// that not every machine has: it is linked into a library of its own, libsftbench_parquet.so, which
// is loaded when Parquet is read or written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/error.h"

namespace sftbench {

// Writes the rows of a vision dataset (vision_generator.h says what is in one), compressed by zstd,
// with the schema metadata by which Hugging Face datasets knows the column `images` for an Image.
// The same rows give the same bytes under the same version of Arrow.
class VisionParquetWriter {
 public:
  virtual ~VisionParquetWriter() = default;

  virtual void append(std::string_view question, std::string_view answer) = 0;

  // Writes what is still held, and the file's footer. Without it there is no readable file.
  virtual void finish() = 0;
};

// The texts of one column, in the order of the rows. Reads a few rows at a time, however the file
// is made. Not safe for concurrent calls.
class ParquetTexts {
 public:
  virtual ~ParquetTexts() = default;

  virtual int64_t size() const = 0;  // entries
  virtual const std::string& path() const = 0;

  // The next entry's text: true and `text`, or false and `error` (the entry is null).
  // InputError when the file cannot be read further. REQUIRES: called at most size() times.
  virtual bool read_next(std::string& text, Diagnostic& error) = 0;
};

// A row of a vision dataset: a chat, or a text as it stands, and the encoded pictures that its
// placeholders stand for.
struct ChatPart {
  bool image = false;
  std::string text;
  bool video = false;  // which nothing reads
};
struct ChatMessage {
  std::string role;
  std::vector<ChatPart> parts;
};
struct ChatEntry {
  std::vector<ChatMessage> messages;  // empty: `text`
  std::string text;
  std::vector<std::string> images;
};

// The rows in order, a few of them read at a time. Not safe for concurrent calls.
class ParquetChats {
 public:
  virtual ~ParquetChats() = default;

  virtual int64_t size() const = 0;  // entries
  virtual const std::string& path() const = 0;

  // The next entry: true, or false and what is wrong with it. InputError when the file cannot be
  // read further. REQUIRES: called at most size() times.
  virtual bool read_next(ChatEntry& entry, std::string& error) = 0;
};

// The types of columns that rows leave out, by the columns' names: "timestamp[us]".
using LeftOutColumns = std::map<std::string, std::string>;

// The rows of a Parquet file, or of a file of Arrow's own (.arrow), a few of them read at a time.
class ParquetRows {
 public:
  virtual ~ParquetRows() = default;

  // The next row as a JSON object on one line, without columns of a type that JSON lacks (bytes,
  // dates). False behind the last one. InputError when the file cannot be read further.
  virtual bool read_next(std::string& json) = 0;
  virtual LeftOutColumns left_out() const = 0;
};

class ParquetLibrary {
 public:
  virtual ~ParquetLibrary() = default;

  // `write` takes the file's bytes as they come; what it throws is thrown on by the writer.
  virtual std::unique_ptr<VisionParquetWriter> write_vision(
      std::string image_jpeg, std::function<void(std::string_view)> write) = 0;

  // A column of strings, or of chats as vision datasets have them: the text of a chat is its text
  // parts, one per line, without images and chat template.
  // InputError when the file cannot be read, has no entry, lacks the column or has something else
  // there.
  virtual std::unique_ptr<ParquetTexts> read_texts(const std::filesystem::path& path,
                                                   const std::string& column) = 0;

  // A column of chats, {role, content} with content a text or parts {type, text}, or of texts; and
  // one of pictures, {bytes, path} or bytes, one or a list of them. InputError as above, for either
  // column.
  virtual std::unique_ptr<ParquetChats> read_chats(const std::filesystem::path& path,
                                                   const std::string& text_column,
                                                   const std::string& image_column) = 0;

  // InputError when the file cannot be read, or has two columns of one name.
  virtual std::unique_ptr<ParquetRows> read_rows(const std::filesystem::path& path) = 0;
};

// By a file's name, or by its first bytes; a folder is none.
bool is_parquet(const std::filesystem::path& path);

// Where the library is looked for (companion_library.h); SFTBENCH_PARQUET names another file.
std::vector<std::filesystem::path> parquet_library_candidates();

// The first candidate that exists. RunError(kUnsupported) with the command that builds it when
// there is none, when it cannot be loaded or belongs to another version of the program.
std::unique_ptr<ParquetLibrary> load_parquet_library();

// What the library exports.
using CreateParquetLibraryFunction = ParquetLibrary* (*)();
inline constexpr const char* kParquetVersionSymbol = "sftbench_parquet_version";
inline constexpr const char* kParquetInterfaceSymbol = "sftbench_parquet_interface";
inline constexpr const char* kCreateParquetLibrarySymbol = "sftbench_create_parquet_library";

}  // namespace sftbench
