// Columns of a Parquet file, with errors that name file and column.
#pragma once

#include <arrow/api.h>
#include <parquet/arrow/reader.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/parquet/arrow_status.h"

namespace sftbench {

InputError bad_column(const std::string& path, const std::string& column, std::string message,
                      std::string expected, std::string nearest);

// Reads `batch_rows` rows at a time, however the file is made.
std::unique_ptr<parquet::arrow::FileReader> open_parquet(const std::filesystem::path& path,
                                                         int64_t batch_rows);

// InputError where it has none.
int64_t row_count(parquet::arrow::FileReader& file, const std::string& path);

// InputError where two columns have one name: readers would take one of them, unseen.
void refuse_repeated_columns(const arrow::Schema& schema, const std::string& path);

// InputError where there is none of that name, or columns are repeated.
std::shared_ptr<arrow::Field> column_of(parquet::arrow::FileReader& file, const std::string& path,
                                        const std::string& column);

std::unique_ptr<arrow::RecordBatchReader> read_columns(parquet::arrow::FileReader& file,
                                                       const std::string& path,
                                                       const std::vector<std::string>& columns);

}  // namespace sftbench
