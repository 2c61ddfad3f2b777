#include "sftbench/results/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "results/cell_escape.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// Columns on a terminal: code points, not bytes (no wide characters are printed here).
size_t width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string padded(const std::string& text, size_t columns, bool right) {
  const std::string space(columns - std::min(columns, width(text)), ' ');
  return right ? space + text : text + space;
}

Json object_of(const Table& table, const std::vector<Json>& row) {
  Json object = Json::object();
  for (size_t i = 0; i < row.size(); ++i) object[table.columns[i]] = row[i];
  return object;
}

std::string csv_text(const Json& cell) {
  if (cell.is_null()) return {};
  return cell.is_string() ? cell.get<std::string>() : json_text(cell);
}

std::string render_csv(const Table& table) {
  std::string text;
  const auto end_field = [&](size_t i) { text += i + 1 < table.columns.size() ? ',' : '\n'; };
  for (size_t i = 0; i < table.columns.size(); ++i) {
    append_csv_field(text, table.columns[i]);
    end_field(i);
  }
  for (const std::vector<Json>& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      append_csv_field(text, csv_text(row[i]));
      end_field(i);
    }
  }
  return text;
}

std::string render_aligned(const Table& table, bool markdown) {
  const size_t columns = table.columns.size();
  std::vector<size_t> widths(columns);
  std::vector<bool> right(columns, true);
  std::vector<std::vector<std::string>> texts;
  const auto shown = [&](const std::string& text) {
    return markdown ? markdown_cell(text) : terminal_line(text);
  };
  std::vector<std::string> heads;
  for (size_t i = 0; i < columns; ++i) {
    heads.push_back(shown(table.columns[i]));
    widths[i] = width(heads[i]);
  }
  for (const std::vector<Json>& row : table.rows) {
    std::vector<std::string>& line = texts.emplace_back();
    for (size_t i = 0; i < columns; ++i) {
      std::string text = shown(cell_text(row[i]));
      widths[i] = std::max(widths[i], width(text));
      if (!row[i].is_number() && !row[i].is_null()) right[i] = false;
      line.push_back(std::move(text));
    }
  }
  const auto print = [&](const std::vector<std::string>& cells) {
    std::string line = markdown ? "| " : "";
    for (size_t i = 0; i < columns; ++i) {
      if (i > 0) line += markdown ? " | " : "  ";
      line += padded(cells[i], widths[i], right[i]);
    }
    if (markdown) return line + " |\n";
    return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  std::string text = print(heads);
  if (markdown) {
    text += "|";
    for (size_t i = 0; i < columns; ++i) {
      text += " " + std::string(std::max<size_t>(widths[i], 3) - (right[i] ? 1 : 0), '-') +
              (right[i] ? ": |" : " |");
    }
    text += "\n";
  }
  for (const std::vector<std::string>& cells : texts) text += print(cells);
  return text;
}

}  // namespace

const std::vector<std::string>& output_format_names() {
  static const std::vector<std::string> kNames = {"table", "json", "jsonl", "csv", "md"};
  return kNames;
}

OutputFormat output_format(std::string_view name) {
  const std::vector<std::string>& names = output_format_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw InputError({{.file = {},
                       .line = 0,
                       .key = "--format",
                       .message = "unknown format '" + std::string(name) + "'",
                       .expected = "one of " + join(names),
                       .nearest = nearest_spelling(name, names)}});
  }
  return static_cast<OutputFormat>(found - names.begin());
}

std::string cell_text(const Json& cell) {
  if (cell.is_null()) return {};
  if (cell.is_string()) return cell.get<std::string>();
  if (!cell.is_number_float()) return json_text(cell);
  const double number = cell.get<double>();
  char text[32];
  // Figures of six and more digits before the point keep all of them; %g would write 1.2e+06.
  const bool large = std::fabs(number) >= 1e5 && std::fabs(number) < 1e15;
  std::snprintf(text, sizeof text, large ? "%.0f" : "%.6g", number);
  return text;
}

std::string render(const Table& table, OutputFormat format) {
  for (const std::vector<Json>& row : table.rows) {
    check(row.size() == table.columns.size(), "a row has as many cells as the table has columns");
  }
  switch (format) {
    case OutputFormat::kCsv:
      return render_csv(table);
    case OutputFormat::kJson: {
      Json rows = Json::array();
      for (const std::vector<Json>& row : table.rows) rows.push_back(object_of(table, row));
      return json_text(rows, 2) + "\n";
    }
    case OutputFormat::kJsonLines: {
      std::string text;
      for (const std::vector<Json>& row : table.rows)
        text += json_text(object_of(table, row)) + "\n";
      return text;
    }
    case OutputFormat::kTable:
    case OutputFormat::kMarkdown:
      return render_aligned(table, format == OutputFormat::kMarkdown);
  }
  return {};
}

}  // namespace sftbench
