#include "data/parquet/vision_writer.h"

#include <arrow/api.h>
#include <arrow/io/interfaces.h>
#include <parquet/arrow/writer.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "data/parquet/arrow_status.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

// What is held before it is written as one row group: of usual entries about 170 rows, of small
// ones so many that the picture, which each group has once, and the group's own entry in the footer
// are few.
constexpr int64_t kGroupRows = 1024;
constexpr int64_t kGroup_bytes = 16 << 20;

// Ten times as small as level 1 on texts whose words come round again, at nearly its speed.
constexpr int kZstdLevel = 3;

// The features of Hugging Face datasets (its Features.to_dict), which it looks for in the schema's
// metadata. A list is written in the form that its releases before and after List understand.
std::string hugging_face_metadata() {
  const auto value = [](const char* type) { return Json{{"dtype", type}, {"_type", "Value"}}; };
  const Json part = {
      {"type", value("string")}, {"text", value("string")}, {"index", value("int64")}};
  const Json message = {{"role", value("string")}, {"content", Json::array({part})}};
  const Json features = {{"images", {{"_type", "Image"}}}, {"output", Json::array({message})}};
  return json_text(Json{{"info", {{"features", features}}}});
}

std::shared_ptr<arrow::Schema> vision_schema() {
  using arrow::field;
  const auto part = arrow::struct_(
      {field("type", arrow::utf8()), field("text", arrow::utf8()), field("index", arrow::int64())});
  const auto message =
      arrow::struct_({field("role", arrow::utf8()), field("content", arrow::list(part))});
  const auto image =
      arrow::struct_({field("bytes", arrow::binary()), field("path", arrow::utf8())});
  return arrow::schema({field("images", image), field("output", arrow::list(message))},
                       arrow::key_value_metadata({"huggingface"}, {hugging_face_metadata()}));
}

std::shared_ptr<parquet::WriterProperties> writer_properties(int64_t image_bytes) {
  constexpr int64_t kUsualDictionary_bytes = 1 << 20;
  return parquet::WriterProperties::Builder()
      .compression(parquet::Compression::ZSTD)
      ->compression_level(kZstdLevel)
      ->disable_statistics()  // of no use for texts and pictures
      ->disable_dictionary()
      ->enable_dictionary("images.bytes")  // one picture, many rows
      ->dictionary_pagesize_limit(std::max(kUsualDictionary_bytes, 2 * image_bytes))
      ->build();
}

// Arrow's stream over a function. What the function throws must not pass through Arrow: it is kept,
// and nothing more is written.
class FunctionStream : public arrow::io::OutputStream {
 public:
  explicit FunctionStream(std::function<void(std::string_view)> write) : write_(std::move(write)) {
    set_mode(arrow::io::FileMode::WRITE);
  }

  arrow::Status Write(const void* data, int64_t size_bytes) override {
    if (failure_) return arrow::Status::IOError("writing failed before");
    try {
      write_({static_cast<const char*>(data), static_cast<size_t>(size_bytes)});
    } catch (...) {
      failure_ = std::current_exception();
      return arrow::Status::IOError("writing failed");
    }
    position_ += size_bytes;
    return arrow::Status::OK();
  }
  using arrow::io::OutputStream::Write;

  arrow::Status Close() override { return closed_ = true, arrow::Status::OK(); }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }

  std::exception_ptr failure() const { return failure_; }

 private:
  std::function<void(std::string_view)> write_;
  std::exception_ptr failure_;
  int64_t position_ = 0;
  bool closed_ = false;
};

class ArrowVisionWriter : public VisionParquetWriter {
 public:
  ArrowVisionWriter(std::string image_jpeg, std::function<void(std::string_view)> write)
      : image_jpeg_(std::move(image_jpeg)),
        schema_(vision_schema()),
        stream_(std::make_shared<FunctionStream>(std::move(write))) {
    auto opened = parquet::arrow::FileWriter::Open(
        *schema_, arrow::default_memory_pool(), stream_,
        writer_properties(static_cast<int64_t>(image_jpeg_.size())),
        // With the schema goes its metadata.
        parquet::ArrowWriterProperties::Builder().store_schema()->build());
    require(opened.status());
    writer_ = std::move(opened).ValueUnsafe();
    auto builder = arrow::RecordBatchBuilder::Make(schema_, arrow::default_memory_pool());
    require(builder.status());
    rows_ = std::move(builder).ValueUnsafe();
  }

  void append(std::string_view question, std::string_view answer) override {
    require(append_image());
    auto* messages = rows_->GetFieldAs<arrow::ListBuilder>(1);
    require(messages->Append());
    require(append_message(*messages, "user", question, written_rows_ + held_rows_));
    require(append_message(*messages, "assistant", answer, {}));
    ++held_rows_;
    held_bytes_ += static_cast<int64_t>(image_jpeg_.size() + question.size() + answer.size());
    if (held_rows_ == kGroupRows || held_bytes_ >= kGroup_bytes) write_group();
  }

  void finish() override {
    if (held_rows_ > 0) write_group();
    require(writer_->Close());
  }

 private:
  // What went wrong below Arrow goes first: that is what can be mended.
  void require(const arrow::Status& status) const {
    if (status.ok()) return;
    if (stream_->failure()) std::rethrow_exception(stream_->failure());
    throw RunError(ReasonCode::kInternal, "Arrow: " + status.ToString());
  }

  arrow::Status append_image() {
    auto* image = rows_->GetFieldAs<arrow::StructBuilder>(0);
    ARROW_RETURN_NOT_OK(image->Append());
    ARROW_RETURN_NOT_OK(
        static_cast<arrow::BinaryBuilder*>(image->field_builder(0))->Append(image_jpeg_));
    return image->field_builder(1)->AppendNull();
  }

  // The text, and behind it the picture, if there is one.
  static arrow::Status append_message(arrow::ListBuilder& messages, std::string_view role,
                                      std::string_view text, std::optional<int64_t> image_index) {
    auto& message = static_cast<arrow::StructBuilder&>(*messages.value_builder());
    ARROW_RETURN_NOT_OK(message.Append());
    ARROW_RETURN_NOT_OK(string_field(message, 0).Append(role));
    auto& content = static_cast<arrow::ListBuilder&>(*message.field_builder(1));
    ARROW_RETURN_NOT_OK(content.Append());
    auto& part = static_cast<arrow::StructBuilder&>(*content.value_builder());
    ARROW_RETURN_NOT_OK(part.Append());
    ARROW_RETURN_NOT_OK(string_field(part, 0).Append("text"));
    ARROW_RETURN_NOT_OK(string_field(part, 1).Append(text));
    ARROW_RETURN_NOT_OK(part.field_builder(2)->AppendNull());
    if (!image_index) return arrow::Status::OK();
    ARROW_RETURN_NOT_OK(part.Append());
    ARROW_RETURN_NOT_OK(string_field(part, 0).Append("image"));
    ARROW_RETURN_NOT_OK(part.field_builder(1)->AppendNull());
    return static_cast<arrow::Int64Builder*>(part.field_builder(2))->Append(*image_index);
  }

  static arrow::StringBuilder& string_field(arrow::StructBuilder& builder, int field) {
    return static_cast<arrow::StringBuilder&>(*builder.field_builder(field));
  }

  void write_group() {
    const auto batch = rows_->Flush();
    require(batch.status());
    require(writer_->NewBufferedRowGroup());
    require(writer_->WriteRecordBatch(**batch));
    written_rows_ += held_rows_;
    held_rows_ = held_bytes_ = 0;
  }

  std::string image_jpeg_;
  std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<FunctionStream> stream_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
  std::unique_ptr<arrow::RecordBatchBuilder> rows_;
  int64_t written_rows_ = 0, held_rows_ = 0, held_bytes_ = 0;
};

}  // namespace

std::unique_ptr<VisionParquetWriter> make_vision_writer(
    std::string image_jpeg, std::function<void(std::string_view)> write) {
  return std::make_unique<ArrowVisionWriter>(std::move(image_jpeg), std::move(write));
}

}  // namespace sftbench
