#include "sftbench/results/report_table.h"

#include <algorithm>
#include <future>
#include <thread>

#include "results/cell_escape.h"

namespace sftbench {
namespace {

constexpr size_t kRowsPerPiece = 4096;

std::string csv_rows(const ReportTable& table, size_t begin, size_t end) {
  std::string text;
  text.reserve((end - begin) * table.columns.size() * 12);
  for (size_t row = begin; row < end; ++row) {
    append_python_str(text, Scalar::integer(static_cast<int64_t>(row)));
    for (const ReportColumn& column : table.columns) {
      text += ',';
      const Scalar& cell = column.cells[row];
      if (cell.is_text()) {
        append_csv_field(text, cell.as_text());
      } else if (!cell.is_null()) {
        append_python_str(text, cell);
      }
    }
    text += '\n';
  }
  return text;
}

Json to_json(const Scalar& cell) {
  switch (cell.kind()) {
    case Scalar::Kind::kNull:
      return nullptr;
    case Scalar::Kind::kBoolean:
      return cell.as_boolean();
    case Scalar::Kind::kInteger:
      return cell.as_integer();
    case Scalar::Kind::kNumber:
      return *cell.as_number();
    case Scalar::Kind::kText:
      return std::string(cell.as_text());
  }
  return nullptr;
}

}  // namespace

void ReportTable::drop_empty_columns(size_t kept) {
  const auto empty = [](const ReportColumn& column) {
    return std::all_of(column.cells.begin(), column.cells.end(),
                       [](const Scalar& cell) { return cell.is_null(); });
  };
  const auto first = columns.begin() + static_cast<std::ptrdiff_t>(std::min(kept, columns.size()));
  columns.erase(std::remove_if(first, columns.end(), empty), columns.end());
}

void write_csv(const ReportTable& table, const std::function<void(std::string_view)>& write) {
  std::string head;
  for (const ReportColumn& column : table.columns) {
    head += ',';
    append_csv_field(head, column.name);
  }
  write(head + "\n");

  const size_t ahead = std::max(1U, std::thread::hardware_concurrency());
  std::deque<std::future<std::string>> pieces;
  for (size_t begin = 0; begin < table.rows || !pieces.empty();) {
    while (begin < table.rows && pieces.size() < ahead) {
      const size_t end = std::min(begin + kRowsPerPiece, table.rows);
      pieces.push_back(std::async(std::launch::async, csv_rows, std::cref(table), begin, end));
      begin = end;
    }
    write(pieces.front().get());
    pieces.pop_front();
  }
}

Table to_table(const ReportTable& table) {
  Table rows;
  for (const ReportColumn& column : table.columns) rows.columns.push_back(column.name);
  for (size_t row = 0; row < table.rows; ++row) {
    std::vector<Json>& cells = rows.rows.emplace_back();
    for (const ReportColumn& column : table.columns) cells.push_back(to_json(column.cells[row]));
  }
  return rows;
}

}  // namespace sftbench
