#include "data/parquet/columns.h"

#include <parquet/file_reader.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "sftbench/base/file.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// The columns of the file that belong to these of the table.
std::vector<int> leaves_of(parquet::arrow::FileReader& file,
                           const std::vector<std::string>& columns) {
  const parquet::SchemaDescriptor& schema = *file.parquet_reader()->metadata()->schema();
  std::vector<int> indices;
  for (int i = 0; i < schema.num_columns(); ++i) {
    const std::string& root = schema.GetColumnRoot(i)->name();
    if (std::find(columns.begin(), columns.end(), root) != columns.end()) indices.push_back(i);
  }
  return indices;
}

}  // namespace

InputError bad_column(const std::string& path, const std::string& column, std::string message,
                      std::string expected, std::string nearest) {
  return InputError({{.file = path,
                      .line = 0,
                      .key = column,
                      .message = std::move(message),
                      .expected = std::move(expected),
                      .nearest = std::move(nearest)}});
}

std::unique_ptr<parquet::arrow::FileReader> open_parquet(const std::filesystem::path& path,
                                                         int64_t batch_rows) {
  const RandomAccessFile there(path);  // says better than Arrow why a file cannot be opened
  parquet::ReaderProperties file_properties;
  file_properties.enable_buffered_stream();
  parquet::ArrowReaderProperties properties;
  properties.set_batch_size(batch_rows);
  properties.set_pre_buffer(false);
  parquet::arrow::FileReaderBuilder builder;
  require_readable(builder.OpenFile(path.string(), false, file_properties), path.string());
  return readable(builder.properties(properties)->Build(), path.string());
}

int64_t row_count(parquet::arrow::FileReader& file, const std::string& path) {
  const int64_t rows = file.parquet_reader()->metadata()->num_rows();
  if (rows > 0) return rows;
  throw bad_column(path, {}, "the file has no rows", "one row per entry", {});
}

void refuse_repeated_columns(const arrow::Schema& schema, const std::string& path) {
  for (const std::string& name : schema.field_names()) {
    const size_t count = schema.GetAllFieldIndices(name).size();
    if (count < 2) continue;
    throw bad_column(path, name, std::to_string(count) + " columns have this name",
                     "one column of each name", {});
  }
}

std::shared_ptr<arrow::Field> column_of(parquet::arrow::FileReader& file, const std::string& path,
                                        const std::string& column) {
  std::shared_ptr<arrow::Schema> schema;
  require_readable(file.GetSchema(&schema), path);
  refuse_repeated_columns(*schema, path);
  auto field = schema->GetFieldByName(column);
  if (field != nullptr) return field;
  const std::vector<std::string> names = schema->field_names();
  throw bad_column(path, column, "no such column; found " + join(names), {},
                   nearest_spelling(column, names));
}

std::unique_ptr<arrow::RecordBatchReader> read_columns(parquet::arrow::FileReader& file,
                                                       const std::string& path,
                                                       const std::vector<std::string>& columns) {
  std::vector<int> groups(static_cast<size_t>(file.num_row_groups()));
  std::iota(groups.begin(), groups.end(), 0);
  return readable(file.GetRecordBatchReader(groups, leaves_of(file, columns)), path);
}

}  // namespace sftbench
