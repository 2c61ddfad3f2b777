#include "data/parquet/row_reader.h"

#include <arrow/api.h>
#include <arrow/io/api.h>
#include <arrow/ipc/api.h>
#include <parquet/arrow/reader.h>

#include <utility>
#include <vector>

#include "data/parquet/columns.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"

namespace sftbench {
namespace {

// Rows that are decoded at a time.
constexpr int64_t kRowsAtATime = 256;

bool are_bytes(const arrow::DataType& type) {
  using arrow::Type;
#if ARROW_VERSION_MAJOR >= 15
  if (type.id() == Type::BINARY_VIEW) return true;
#endif
  return type.id() == Type::BINARY || type.id() == Type::LARGE_BINARY;
}

// Whether every value of the type has a JSON of its own. What has none (dates) is left out of the
// rows: entries are texts and ids. `with_bytes`: bytes are texts, as old writers of Parquet mark
// them.
bool has_json(const arrow::DataType& type, bool with_bytes) {
  using arrow::Type;
  if (are_bytes(type)) return with_bytes;
  switch (type.id()) {
    case Type::NA:
    case Type::BOOL:
    case Type::INT8:
    case Type::INT16:
    case Type::INT32:
    case Type::INT64:
    case Type::UINT8:
    case Type::UINT16:
    case Type::UINT32:
    case Type::UINT64:
    case Type::FLOAT:
    case Type::DOUBLE:
    case Type::STRING:
    case Type::LARGE_STRING:
      return true;
#if ARROW_VERSION_MAJOR >= 15
    case Type::STRING_VIEW:
      return true;
#endif
    case Type::DICTIONARY:
      return has_json(*static_cast<const arrow::DictionaryType&>(type).value_type(), with_bytes);
    case Type::LIST:
    case Type::LARGE_LIST:
    case Type::FIXED_SIZE_LIST:
      return has_json(*static_cast<const arrow::BaseListType&>(type).value_type(), with_bytes);
    case Type::STRUCT:
      for (const auto& member : type.fields()) {
        if (!has_json(*member->type(), with_bytes)) return false;
      }
      return true;
    default:
      return false;
  }
}

Json json_of(const arrow::Array& array, int64_t row);

template <typename Array>
Json value_of(const arrow::Array& array, int64_t row) {
  return static_cast<const Array&>(array).Value(row);
}

template <typename Array>
Json text_of(const arrow::Array& array, int64_t row) {
  return std::string(static_cast<const Array&>(array).GetView(row));
}

template <typename Array>
Json list_of(const arrow::Array& array, int64_t row) {
  const auto& lists = static_cast<const Array&>(array);
  Json list = Json::array();
  const int64_t begin = lists.value_offset(row), length = lists.value_length(row);
  for (int64_t i = begin; i < begin + length; ++i) list.push_back(json_of(*lists.values(), i));
  return list;
}

// Members without a value are left out: all objects of a column have the keys of all others.
Json object_of(const arrow::Array& array, int64_t row) {
  const auto& members = static_cast<const arrow::StructArray&>(array);
  Json object = Json::object();
  for (int i = 0; i < members.num_fields(); ++i) {
    Json value = json_of(*members.field(i), row);
    if (!value.is_null()) object[members.type()->field(i)->name()] = std::move(value);
  }
  return object;
}

// REQUIRES: has_json(*array.type(), true).
Json json_of(const arrow::Array& array, int64_t row) {
  using arrow::Type;
  if (array.IsNull(row)) return nullptr;
  switch (array.type_id()) {
    case Type::BOOL:
      return value_of<arrow::BooleanArray>(array, row);
    case Type::INT8:
      return value_of<arrow::Int8Array>(array, row);
    case Type::INT16:
      return value_of<arrow::Int16Array>(array, row);
    case Type::INT32:
      return value_of<arrow::Int32Array>(array, row);
    case Type::INT64:
      return value_of<arrow::Int64Array>(array, row);
    case Type::UINT8:
      return value_of<arrow::UInt8Array>(array, row);
    case Type::UINT16:
      return value_of<arrow::UInt16Array>(array, row);
    case Type::UINT32:
      return value_of<arrow::UInt32Array>(array, row);
    case Type::UINT64:
      return value_of<arrow::UInt64Array>(array, row);
    case Type::FLOAT:
      return value_of<arrow::FloatArray>(array, row);
    case Type::DOUBLE:
      return value_of<arrow::DoubleArray>(array, row);
    case Type::STRING:
    case Type::BINARY:
      return text_of<arrow::BinaryArray>(array, row);
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      return text_of<arrow::LargeBinaryArray>(array, row);
#if ARROW_VERSION_MAJOR >= 15
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
      return text_of<arrow::BinaryViewArray>(array, row);
#endif
    case Type::LIST:
      return list_of<arrow::ListArray>(array, row);
    case Type::LARGE_LIST:
      return list_of<arrow::LargeListArray>(array, row);
    case Type::FIXED_SIZE_LIST:
      return list_of<arrow::FixedSizeListArray>(array, row);
    case Type::STRUCT:
      return object_of(array, row);
    case Type::DICTIONARY: {
      const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
      return json_of(*coded.dictionary(), coded.GetValueIndex(row));
    }
    default:
      return nullptr;
  }
}

// Whether bytes of the value are UTF-8. `any`: there are some. REQUIRES: has_json(*array.type(),
// true).
bool has_texts(const arrow::Array& array, int64_t row, bool& any) {
  using arrow::Type;
  if (array.IsNull(row)) return true;
  if (are_bytes(*array.type())) {
    any = true;
    return ascii_json(json_of(array, row)).has_value();
  }
  const auto are_texts = [&any](const auto& lists, int64_t of) {
    const int64_t begin = lists.value_offset(of), end = begin + lists.value_length(of);
    for (int64_t i = begin; i < end; ++i)
      if (!has_texts(*lists.values(), i, any)) return false;
    return true;
  };
  switch (array.type_id()) {
    case Type::LIST:
      return are_texts(static_cast<const arrow::ListArray&>(array), row);
    case Type::LARGE_LIST:
      return are_texts(static_cast<const arrow::LargeListArray&>(array), row);
    case Type::FIXED_SIZE_LIST:
      return are_texts(static_cast<const arrow::FixedSizeListArray&>(array), row);
    case Type::STRUCT: {
      const auto& members = static_cast<const arrow::StructArray&>(array);
      for (int i = 0; i < members.num_fields(); ++i)
        if (!has_texts(*members.field(i), row, any)) return false;
      return true;
    }
    case Type::DICTIONARY: {
      const auto& coded = static_cast<const arrow::DictionaryArray&>(array);
      return has_texts(*coded.dictionary(), coded.GetValueIndex(row), any);
    }
    default:
      return true;
  }
}

// The batches of a file with a footer, each read when it is asked for.
class FileBatches : public arrow::RecordBatchReader {
 public:
  explicit FileBatches(std::shared_ptr<arrow::ipc::RecordBatchFileReader> file)
      : file_(std::move(file)) {}

  std::shared_ptr<arrow::Schema> schema() const override { return file_->schema(); }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    *batch = nullptr;
    if (next_ == file_->num_record_batches()) return arrow::Status::OK();
    return file_->ReadRecordBatch(next_++).Value(batch);
  }

 private:
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
  int next_ = 0;
};

// Arrow's own files come in two forms: a file with a footer, and the stream that the package
// datasets writes. Read, not mapped: what was read of a map would count as this process's memory.
std::shared_ptr<arrow::RecordBatchReader> open_arrow(const std::filesystem::path& path) {
  const RandomAccessFile there(path);  // says better than Arrow why a file cannot be opened
  const std::string name = path.string();
  auto file = readable(arrow::io::ReadableFile::Open(name), name);
  const auto reader = arrow::ipc::RecordBatchFileReader::Open(file);
  if (!reader.ok()) {
    require_readable(file->Seek(0), name);
    return readable(arrow::ipc::RecordBatchStreamReader::Open(file), name);
  }
  return std::make_shared<FileBatches>(*reader);
}

class ArrowRowReader : public ParquetRows {
 public:
  explicit ArrowRowReader(const std::filesystem::path& path) : path_(path.string()) {
    if (path.extension() == ".arrow") {
      batches_ = open_arrow(path);
    } else {
      file_ = open_parquet(path, kRowsAtATime);
      std::shared_ptr<arrow::Schema> schema;
      require_readable(file_->GetSchema(&schema), path_);
      batches_ = read_columns(*file_, path_, schema->field_names());
    }
    refuse_repeated_columns(*batches_->schema(), path_);
    find_rows();
    for (int i = 0; i < batches_->schema()->num_fields(); ++i)
      is_shown_.push_back(has_json(*batches_->schema()->field(i)->type(), has_text_bytes(i)));
  }

  bool read_next(std::string& json) override {
    if (!find_rows()) return false;
    Json entry = Json::object();
    for (int i = 0; i < batch_->num_columns(); ++i) {
      if (is_shown_[static_cast<size_t>(i)])
        entry[batch_->column_name(i)] = json_of(*batch_->column(i), row_);
    }
    ++rows_;
    require_texts();
    ++row_;
    json = json_text(entry);
    return true;
  }

  LeftOutColumns left_out() const override {
    LeftOutColumns columns;
    for (size_t i = 0; i < is_shown_.size(); ++i) {
      const auto& column = batches_->schema()->field(static_cast<int>(i));
      if (!is_shown_[i]) columns[column->name()] = column->type()->ToString();
    }
    return columns;
  }

 private:
  // The batch of the next row. False behind the last one.
  bool find_rows() {
    while (!batch_ || row_ == batch_->num_rows()) {
      batch_ = readable(batches_->Next(), path_);
      if (batch_ == nullptr) return false;
      row_ = 0;
      require_readable(batch_->ValidateFull(), path_);
    }
    return true;
  }

  // Whether all bytes of the column are UTF-8 in the first rows, and there are some.
  bool has_text_bytes(int column) const {
    if (batch_ == nullptr || !has_json(*batch_->column(column)->type(), true)) return false;
    bool any = false;
    for (int64_t row = 0; row < batch_->num_rows(); ++row)
      if (!has_texts(*batch_->column(column), row, any)) return false;
    return any;
  }

  // Of bytes that are shown, in this row as in the first ones.
  void require_texts() const {
    for (int i = 0; i < batch_->num_columns(); ++i) {
      const arrow::Array& column = *batch_->column(i);
      bool any = false;
      if (!is_shown_[static_cast<size_t>(i)] || has_json(*column.type(), false)) continue;
      if (has_texts(column, row_, any)) continue;
      throw bad_column(path_, batch_->column_name(i),
                       "row " + std::to_string(rows_) + " is not UTF-8, as the first rows are",
                       "a column of texts", {});
    }
  }

  std::string path_;
  std::unique_ptr<parquet::arrow::FileReader> file_;
  std::shared_ptr<arrow::RecordBatchReader> batches_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  std::vector<bool> is_shown_;  // by column
  int64_t row_ = 0;             // the next one in batch_
  int64_t rows_ = 0;            // that were read
};

}  // namespace

std::unique_ptr<ParquetRows> make_row_reader(const std::filesystem::path& path) {
  return std::make_unique<ArrowRowReader>(path);
}

}  // namespace sftbench
