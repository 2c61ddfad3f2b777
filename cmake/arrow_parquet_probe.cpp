// Compiles, links and so proves that this compiler and a found Arrow fit together, and that Arrow
// is new enough: the calls whose signatures changed over the releases.
#include <arrow/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>

arrow::Result<std::unique_ptr<arrow::RecordBatchReader>> read(parquet::arrow::FileReader& file) {
  return file.GetRecordBatchReader({0}, {0});
}

int main() {
  parquet::arrow::FileReaderBuilder builder;
  const auto file = builder.Build();
  const auto schema = arrow::schema({arrow::field("text", arrow::utf8())});
  const auto writer =
      parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), nullptr);
  return file.ok() && read(**file).ok() && writer.ok() ? 0 : 1;
}
