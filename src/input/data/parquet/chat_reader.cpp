#include "data/parquet/chat_reader.h"

#include <string_view>
#include <utility>
#include <vector>

#include "data/parquet/columns.h"

namespace sftbench {
namespace {

constexpr int64_t kChatRows = 16;

// --- what a column may hold ----------------------------------------------------------------------

std::shared_ptr<arrow::DataType> item_type(const arrow::DataType& type) {
  return static_cast<const arrow::BaseListType&>(type).value_type();
}

std::shared_ptr<arrow::DataType> member_type(const arrow::DataType& type, const char* member) {
  if (type.id() != arrow::Type::STRUCT) return nullptr;
  const auto field = static_cast<const arrow::StructType&>(type).GetFieldByName(member);
  return field == nullptr ? nullptr : field->type();
}

bool is_text(const std::shared_ptr<arrow::DataType>& type) {
  return type != nullptr && arrow::is_string(type->id());
}

bool is_bytes(const std::shared_ptr<arrow::DataType>& type) {
  return type != nullptr && arrow::is_binary_like(type->id()) && !arrow::is_string(type->id());
}

// A text, or a list of {type, text}.
bool is_content(const std::shared_ptr<arrow::DataType>& type) {
  if (type == nullptr || is_text(type)) return type != nullptr;
  if (!arrow::is_list_like(type->id())) return false;
  const auto part = item_type(*type);
  return is_text(member_type(*part, "type")) && is_text(member_type(*part, "text"));
}

bool is_chat(const arrow::DataType& type) {
  if (!arrow::is_list_like(type.id())) return false;
  const auto message = item_type(type);
  return is_text(member_type(*message, "role")) && is_content(member_type(*message, "content"));
}

bool is_picture(const std::shared_ptr<arrow::DataType>& type) {
  return is_bytes(type) || is_bytes(member_type(*type, "bytes"));
}

bool is_pictures(const std::shared_ptr<arrow::DataType>& type) {
  return is_picture(type) || (arrow::is_list_like(type->id()) && is_picture(item_type(*type)));
}

// --- values --------------------------------------------------------------------------------------

// A member of a struct; null where there is none.
std::shared_ptr<arrow::Scalar> member(const arrow::Scalar& value, const char* name) {
  const auto& type = static_cast<const arrow::StructType&>(*value.type);
  const int index = type.GetFieldIndex(name);
  if (index < 0 || !value.is_valid) return nullptr;
  return static_cast<const arrow::StructScalar&>(value).value[static_cast<size_t>(index)];
}

std::string_view bytes_of(const arrow::Scalar& value) {
  return static_cast<const arrow::BaseBinaryScalar&>(value).view();
}

std::string text_of(const std::shared_ptr<arrow::Scalar>& value) {
  return value == nullptr || !value->is_valid ? std::string() : std::string(bytes_of(*value));
}

class ArrowChatReader : public ParquetChats {
 public:
  ArrowChatReader(const std::filesystem::path& path, std::string text_column,
                  std::string image_column)
      : path_(path.string()),
        text_column_(std::move(text_column)),
        image_column_(std::move(image_column)),
        file_(open_parquet(path, kChatRows)),
        size_(row_count(*file_, path_)) {
    require_columns();
    batches_ = read_columns(*file_, path_, {text_column_, image_column_});
  }

  int64_t size() const override { return size_; }
  const std::string& path() const override { return path_; }

  bool read_next(ChatEntry& entry, std::string& error) override {
    while (!batch_ || row_ == batch_->num_rows()) {
      batch_ = readable(batches_->Next(), path_);
      check(batch_ != nullptr, "no more entries are read than there are");
      row_ = 0;
    }
    const auto text = value_of(text_column_), pictures = value_of(image_column_);
    ++row_;
    entry = {};
    if (!text->is_valid) return error = "the column " + text_column_ + " is null", false;
    if (arrow::is_string(text->type->id())) {
      entry.text = text_of(text);
    } else {
      for (const auto& message : items(*text)) entry.messages.push_back(message_of(*message));
      if (entry.messages.empty()) return error = "the chat has no messages", false;
    }
    return read_pictures(pictures, entry, error);
  }

 private:
  void require_columns() const {
    const auto text = column_of(*file_, path_, text_column_)->type();
    if (!is_text(text) && !is_chat(*text)) {
      throw bad_column(path_, text_column_, "the column is " + text->ToString(),
                       "chats of messages {role, content}, or texts", {});
    }
    const auto pictures = column_of(*file_, path_, image_column_)->type();
    if (!is_pictures(pictures)) {
      throw bad_column(path_, image_column_, "the column is " + pictures->ToString(),
                       "pictures {bytes, path}, or lists of them", {});
    }
  }

  std::shared_ptr<arrow::Scalar> value_of(const std::string& column) const {
    const auto array = batch_->GetColumnByName(column);
    check(array != nullptr, "the columns that were asked for are read");
    return readable(array->GetScalar(row_), path_);
  }

  std::vector<std::shared_ptr<arrow::Scalar>> items(const arrow::Scalar& list) const {
    std::vector<std::shared_ptr<arrow::Scalar>> items;
    if (!list.is_valid) return items;
    const arrow::Array& values = *static_cast<const arrow::BaseListScalar&>(list).value;
    for (int64_t i = 0; i < values.length(); ++i)
      items.push_back(readable(values.GetScalar(i), path_));
    return items;
  }

  ChatMessage message_of(const arrow::Scalar& value) const {
    ChatMessage message;
    message.role = text_of(member(value, "role"));
    const auto content = member(value, "content");
    if (content == nullptr || !content->is_valid) return message;
    if (arrow::is_string(content->type->id())) {
      message.parts.push_back({false, text_of(content)});
      return message;
    }
    for (const auto& part : items(*content)) {
      const std::string type = text_of(member(*part, "type"));
      const bool image = type == "image";
      message.parts.push_back(
          {image, image ? std::string() : text_of(member(*part, "text")), type == "video"});
    }
    return message;
  }

  bool read_pictures(const std::shared_ptr<arrow::Scalar>& value, ChatEntry& entry,
                     std::string& error) const {
    if (!value->is_valid) return true;  // it has none
    const bool list = arrow::is_list_like(value->type->id());
    std::vector<std::shared_ptr<arrow::Scalar>> pictures = {value};
    if (list) pictures = items(*value);
    for (const auto& picture : pictures) {
      const bool has_members = picture->type->id() == arrow::Type::STRUCT;
      const auto bytes = has_members ? member(*picture, "bytes") : picture;
      if (bytes == nullptr || !bytes->is_valid) {
        const std::string path = has_members ? text_of(member(*picture, "path")) : std::string();
        error = "an image of the column " + image_column_ + " has no bytes" +
                (path.empty() ? "" : ", only the path " + path) + "; expected its JPEG or PNG file";
        return false;
      }
      entry.images.emplace_back(bytes_of(*bytes));
    }
    return true;
  }

  std::string path_, text_column_, image_column_;
  std::unique_ptr<parquet::arrow::FileReader> file_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  int64_t size_ = 0;
  int64_t row_ = 0;  // the next one in batch_
};

}  // namespace

std::unique_ptr<ParquetChats> make_chat_reader(const std::filesystem::path& path,
                                               const std::string& text_column,
                                               const std::string& image_column) {
  return std::make_unique<ArrowChatReader>(path, text_column, image_column);
}

}  // namespace sftbench
