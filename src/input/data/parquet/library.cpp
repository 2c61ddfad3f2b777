// What libsftbench_parquet.so exports: parquet_library.h says how it is loaded.
#include "data/parquet/chat_reader.h"
#include "data/parquet/row_reader.h"
#include "data/parquet/text_reader.h"
#include "data/parquet/vision_writer.h"
#include "sftbench/data/parquet_library.h"
#include "sftbench_interfaces.h"  // written at build time

namespace sftbench {
namespace {

class ArrowParquetLibrary : public ParquetLibrary {
 public:
  std::unique_ptr<VisionParquetWriter> write_vision(
      std::string image_jpeg, std::function<void(std::string_view)> write) override {
    return make_vision_writer(std::move(image_jpeg), std::move(write));
  }
  std::unique_ptr<ParquetTexts> read_texts(const std::filesystem::path& path,
                                           const std::string& column) override {
    return make_text_reader(path, column);
  }
  std::unique_ptr<ParquetChats> read_chats(const std::filesystem::path& path,
                                           const std::string& text_column,
                                           const std::string& image_column) override {
    return make_chat_reader(path, text_column, image_column);
  }
  std::unique_ptr<ParquetRows> read_rows(const std::filesystem::path& path) override {
    return make_row_reader(path);
  }
};

}  // namespace
}  // namespace sftbench

extern "C" const char* sftbench_parquet_version() {
  return SFTBENCH_VERSION;
}

extern "C" const char* sftbench_parquet_interface() {
  return SFTBENCH_PARQUET_INTERFACE;
}

extern "C" sftbench::ParquetLibrary* sftbench_create_parquet_library() {
  return new sftbench::ArrowParquetLibrary();
}
