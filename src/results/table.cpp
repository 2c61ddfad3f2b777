#include "sftbench/results/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <set>

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

// The bytes of the first `columns` code points.
size_t bytes_of(std::string_view text, size_t columns) {
  size_t at = 0;
  for (size_t seen = 0; at < text.size(); ++at) {
    if ((text[at] & 0xC0) != 0x80 && seen++ == columns) break;
  }
  return at;
}

// A table as text, not yet padded.
struct Grid {
  std::vector<std::string> heads;
  std::vector<std::vector<std::string>> rows;
  std::vector<size_t> widths;
  std::vector<bool> right;  // columns of numbers
};

Grid grid_of(const Table& table, bool markdown) {
  const auto shown = [&](const std::string& text) {
    return markdown ? markdown_cell(text) : terminal_line(text);
  };
  const size_t columns = table.columns.size();
  Grid grid = {{}, {}, std::vector<size_t>(columns), std::vector<bool>(columns, true)};
  for (size_t i = 0; i < columns; ++i) {
    grid.heads.push_back(shown(table.columns[i]));
    grid.widths[i] = width(grid.heads[i]);
  }
  for (const std::vector<Json>& row : table.rows) {
    std::vector<std::string>& line = grid.rows.emplace_back();
    for (size_t i = 0; i < columns; ++i) {
      std::string text = shown(cell_text(row[i]));
      grid.widths[i] = std::max(grid.widths[i], width(text));
      if (!row[i].is_number() && !row[i].is_null()) grid.right[i] = false;
      line.push_back(std::move(text));
    }
  }
  return grid;
}

// --- columns on a terminal -----------------------------------------------------------------------

constexpr std::string_view kBetween = "  ";

// Where a word may be broken that is longer than its column: after one of these. A heading's
// "TFLOP/s" stays whole.
constexpr std::string_view kJoints = "/-_.,:=";
constexpr std::string_view kHeadJoints = "_";

// "0.45 to 1.15", which stays in one line like a number.
bool is_range(std::string_view text) {
  constexpr std::string_view kOfNumbers = "0123456789.e+-";
  const size_t to = text.find(" to ");
  if (to == 0 || to == std::string_view::npos || to + 4 == text.size()) return false;
  return text.substr(0, to).find_first_not_of(kOfNumbers) == std::string_view::npos &&
         text.substr(to + 4).find_first_not_of(kOfNumbers) == std::string_view::npos;
}

// What of `text` stands in one line of a column, at least one character; spaces after it are left.
std::string_view first_line(std::string_view text, size_t columns, std::string_view joints) {
  if (width(text) <= columns) return text;
  const size_t most = bytes_of(text, columns);
  if (text[most] == ' ') return text.substr(0, most);
  if (const size_t space = text.rfind(' ', most); space != std::string_view::npos && space > 0)
    return text.substr(0, space);
  const size_t joint = text.substr(0, most).find_last_of(joints);
  return text.substr(0, joint == std::string_view::npos ? most : joint + 1);
}

std::vector<std::string> folded(std::string_view text, size_t columns, std::string_view joints) {
  std::vector<std::string> lines;
  do {
    const std::string_view line = is_range(text) ? text : first_line(text, columns, joints);
    lines.emplace_back(line);
    text.remove_prefix(line.size());
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  } while (!text.empty());
  return lines;
}

size_t longest_word(std::string_view text) {
  if (is_range(text)) return width(text);
  size_t longest = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    longest = std::max(longest, width(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return longest;
}

// A heading's longest part: it may be broken after "_".
size_t longest_part(std::string_view heading) {
  size_t longest = 0;
  while (!heading.empty()) {
    const size_t end = std::min(heading.find_first_of("_ "), heading.size() - 1) + 1;
    longest = std::max(longest, width(heading.substr(0, end)));
    heading.remove_prefix(end);
  }
  return longest;
}

// The least that a column may be narrowed to. Of texts, whole words stay, or at least words of 16
// characters. Numbers stay as they are.
std::vector<size_t> least_widths(const Grid& grid, bool whole_words) {
  constexpr size_t kShortWord = 16;  // of which a range may have more
  std::vector<size_t> least;
  for (size_t i = 0; i < grid.heads.size(); ++i) {
    size_t cells = longest_part(grid.heads[i]);
    for (const std::vector<std::string>& row : grid.rows) {
      const bool whole = grid.right[i] || is_range(row[i]);
      const size_t word = whole ? width(row[i]) : longest_word(row[i]);
      cells = std::max(cells, whole || whole_words ? word : std::min(word, kShortWord));
    }
    least.push_back(cells);
  }
  return least;
}

size_t width_of(const std::vector<size_t>& widths) {
  return std::accumulate(widths.begin(), widths.end(), kBetween.size() * (widths.size() - 1));
}

// Takes from the widest column until the table has room; nothing where it has none even so.
std::optional<std::vector<size_t>> widths_within(const Grid& grid, size_t columns) {
  for (const bool whole_words : {true, false}) {
    const std::vector<size_t> least = least_widths(grid, whole_words);
    if (width_of(least) > columns) continue;
    std::vector<size_t> widths = grid.widths;
    for (size_t total = width_of(widths); total > columns; --total) {
      size_t widest = widths.size();
      for (size_t i = 0; i < widths.size(); ++i) {
        if (widths[i] > least[i] && (widest == widths.size() || widths[i] > widths[widest]))
          widest = i;
      }
      --widths[widest];
    }
    return widths;
  }
  return std::nullopt;
}

// Columns of a grid, in the order of `of`.
Grid part_of(const Grid& grid, const std::vector<size_t>& of) {
  Grid part;
  const auto cells_of = [&](const std::vector<std::string>& line) {
    std::vector<std::string> cells;
    for (const size_t i : of) cells.push_back(line[i]);
    return cells;
  };
  part.heads = cells_of(grid.heads);
  for (const std::vector<std::string>& row : grid.rows) part.rows.push_back(cells_of(row));
  for (const size_t i : of) {
    part.widths.push_back(grid.widths[i]);
    part.right.push_back(grid.right[i]);
  }
  return part;
}

// The grid with a first column that tells its rows apart: its own where it is short, or their
// numbers.
Grid with_key(Grid grid) {
  constexpr size_t kLongestKey = 40;  // half of a terminal's line
  std::set<std::string_view> different;
  for (const std::vector<std::string>& row : grid.rows) different.insert(row.front());
  if (different.size() == grid.rows.size() && grid.widths.front() <= kLongestKey) return grid;
  grid.heads.insert(grid.heads.begin(), "row");
  for (size_t y = 0; y < grid.rows.size(); ++y)
    grid.rows[y].insert(grid.rows[y].begin(), std::to_string(y + 1));
  grid.widths.insert(grid.widths.begin(), std::max<size_t>(3, grid.rows.back().front().size()));
  grid.right.insert(grid.right.begin(), true);
  return grid;
}

std::string aligned_row(const Grid& grid, const std::vector<size_t>& widths,
                        const std::vector<std::string>& cells, std::string_view joints = kJoints) {
  std::vector<std::vector<std::string>> columns;
  size_t height = 1;
  for (size_t i = 0; i < cells.size(); ++i) {
    columns.push_back(folded(cells[i], widths[i], joints));
    height = std::max(height, columns.back().size());
  }
  std::string text;
  for (size_t y = 0; y < height; ++y) {
    std::string line;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) line += kBetween;
      line += padded(y < columns[i].size() ? columns[i][y] : "", widths[i], grid.right[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string aligned(const Grid& grid, const std::vector<size_t>& widths) {
  std::string text = aligned_row(grid, widths, grid.heads, kHeadJoints);
  for (const std::vector<std::string>& row : grid.rows) text += aligned_row(grid, widths, row);
  return text;
}

// A grid without room: as many columns as have some, then the next ones under them. Each block
// begins with the column that tells rows apart.
std::string in_blocks(const Grid& whole, size_t columns) {
  const Grid grid = with_key(whole);
  const std::vector<size_t> least = least_widths(grid, true);
  std::string text;
  for (size_t next = 1; next < least.size();) {
    std::vector<size_t> block = {0};
    size_t total = least[0];
    do {
      total += kBetween.size() + least[next];
      block.push_back(next++);
    } while (next < least.size() && total + kBetween.size() + least[next] <= columns);
    const Grid part = part_of(grid, block);
    if (!text.empty()) text += "\n";
    text += aligned(part, widths_within(part, columns).value_or(part.widths));
  }
  return text;
}

std::string render_aligned(const Table& table, size_t columns) {
  if (table.columns.empty()) return "\n";
  const Grid grid = grid_of(table, false);
  if (columns == 0 || width_of(grid.widths) <= columns) return aligned(grid, grid.widths);
  if (const auto widths = widths_within(grid, columns)) return aligned(grid, *widths);
  return grid.heads.size() > 1 ? in_blocks(grid, columns) : aligned(grid, grid.widths);
}

// --- Markdown ------------------------------------------------------------------------------------

std::string render_markdown(const Table& table) {
  const Grid grid = grid_of(table, true);
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text = "| ";
    for (size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) text += " | ";
      text += padded(cells[i], grid.widths[i], grid.right[i]);
    }
    return text + " |\n";
  };
  std::string text = line(grid.heads) + "|";
  for (size_t i = 0; i < grid.widths.size(); ++i) {
    const size_t rule = std::max<size_t>(grid.widths[i], 3) - (grid.right[i] ? 1 : 0);
    text += " " + std::string(rule, '-') + (grid.right[i] ? ": |" : " |");
  }
  text += "\n";
  for (const std::vector<std::string>& row : grid.rows) text += line(row);
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

std::string render(const Table& table, OutputFormat format, size_t columns) {
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
      return render_aligned(table, columns);
    case OutputFormat::kMarkdown:
      return render_markdown(table);
  }
  return {};
}

}  // namespace sftbench
