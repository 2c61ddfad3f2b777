#include "data/parquet/text_reader.h"

#include <arrow/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>

#include <utility>
#include <vector>

#include "data/parquet/columns.h"

namespace sftbench {
namespace {

// Rows that are decoded at a time: memory is this many texts, whatever the row groups are.
constexpr int64_t kTextRows = 16;

// The member of a struct that leads to its text: {role, content}, {type, text}.
int text_member(const arrow::DataType& type) {
  const auto& members = static_cast<const arrow::StructType&>(type);
  const int content = members.GetFieldIndex("content");
  return content >= 0 ? content : members.GetFieldIndex("text");
}

// Text, or lists and structs that lead to text.
bool holds_text(const arrow::DataType& type) {
  if (arrow::is_string(type.id())) return true;
  if (arrow::is_list_like(type.id())) {
    return holds_text(*static_cast<const arrow::BaseListType&>(type).value_type());
  }
  if (type.id() != arrow::Type::STRUCT) return false;
  const int member = text_member(type);
  return member >= 0 && holds_text(*type.field(member)->type());
}

// REQUIRES: holds_text(*value.type).
void append_text(const arrow::Scalar& value, std::string& text, const std::string& path) {
  if (!value.is_valid) return;
  if (arrow::is_list_like(value.type->id())) {
    const arrow::Array& items = *static_cast<const arrow::BaseListScalar&>(value).value;
    for (int64_t i = 0; i < items.length(); ++i) {
      append_text(*readable(items.GetScalar(i), path), text, path);
    }
  } else if (value.type->id() == arrow::Type::STRUCT) {
    const auto& members = static_cast<const arrow::StructScalar&>(value).value;
    append_text(*members[static_cast<size_t>(text_member(*value.type))], text, path);
  } else {
    if (!text.empty()) text += '\n';
    text += static_cast<const arrow::BaseBinaryScalar&>(value).view();
  }
}

class ArrowTextReader : public ParquetTexts {
 public:
  ArrowTextReader(const std::filesystem::path& path, std::string column)
      : path_(path.string()), column_(std::move(column)) {
    file_ = open_parquet(path, kTextRows);
    size_ = row_count(*file_, path_);
    require_text_column();
    batches_ = read_columns(*file_, path_, {column_});
  }

  int64_t size() const override { return size_; }
  const std::string& path() const override { return path_; }

  bool read_next(std::string& text, Diagnostic& error) override {
    while (!batch_ || row_ == batch_->num_rows()) {
      batch_ = readable(batches_->Next(), path_);
      check(batch_ != nullptr, "no more entries are read than there are");
      row_ = 0;
    }
    ++entry_;
    const auto value = readable(batch_->column(0)->GetScalar(row_++), path_);
    text.clear();
    if (value->is_valid) return append_text(*value, text, path_), true;
    error = {.file = path_,
             .line = 0,
             .key = column_,
             .message = "entry " + std::to_string(entry_) + " is null",
             .expected = "text",
             .nearest = {}};
    return false;
  }

 private:
  void require_text_column() const {
    const auto field = column_of(*file_, path_, column_);
    if (!holds_text(*field->type())) {
      throw bad_column(path_, column_, "the column is " + field->type()->ToString(),
                       "text, or chats of messages with text", {});
    }
  }

  std::string path_, column_;
  std::unique_ptr<parquet::arrow::FileReader> file_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t size_ = 0;
  int64_t row_ = 0;    // the next one in batch_
  int64_t entry_ = 0;  // those that were read
};

}  // namespace

std::unique_ptr<ParquetTexts> make_text_reader(const std::filesystem::path& path,
                                               const std::string& column) {
  return std::make_unique<ArrowTextReader>(path, column);
}

}  // namespace sftbench
