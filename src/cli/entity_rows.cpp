// JSON is put together from quoted texts here, against the habit of leaving it to the library: a
// Json object per row costs ten times what the rest of an expansion does. A test reads all of it
// back.
#include "cli/entity_rows.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/plan/classify_error.h"

namespace sftbench {
namespace {

constexpr size_t kBlockBytes = size_t{256} << 10;
constexpr size_t kBlockRows = 2000;  // of a table, whose columns are as wide as the block needs

void check_output(bool written) {
  if (written) return;
  throw InputError(std::string("the standard output takes no more: ") + std::strerror(errno));
}

void write_out(const std::string& text) {
  check_output(std::fwrite(text.data(), 1, text.size(), stdout) == text.size());
}

void write_rest(const std::string& text) {
  write_out(text);
  check_output(std::fflush(stdout) == 0);
}

std::string_view verdict(const EntityRow& row) {
  if (row.violations.empty()) return "valid";
  return makes_invalid(row.violations.front().code) ? "invalid" : "unsupported";
}

std::string reason_text(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& violation : violations) {
    if (!text.empty()) text += "; ";
    text.append(to_string(violation.code)).append(": ").append(violation.message);
  }
  return text;
}

void append_number(std::string& out, int64_t number) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
}

// Whether `test` holds for any byte. All of them are looked at, without a branch, in whole vectors:
// nearly every text that is written is plain.
template <typename Test>
bool any_byte(std::string_view text, Test test) {
  unsigned char found = 0;
  for (const char c : text)
    found = static_cast<unsigned char>(found | test(static_cast<unsigned char>(c)));
  return found != 0;
}

void append_json(std::string& out, std::string_view text) {
  if (any_byte(text, [](unsigned char c) { return (c < 0x20) | (c == '"') | (c == '\\'); })) {
    out += json_text(Json(text));
  } else {
    out.append(1, '"').append(text).append(1, '"');
  }
}

void append_csv(std::string& out, std::string_view text) {
  if (!any_byte(text, [](unsigned char c) {
        return (c == ',') | (c == '"') | (c == '\r') | (c == '\n');
      })) {
    out += text;
    return;
  }
  out += '"';
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  out += '"';
}

void append_json_row(std::string& out, const EntityRow& row) {
  out += "{\"index\":";
  append_number(out, row.index);
  out.append(",\"verdict\":\"").append(verdict(row)).append("\",\"entity_id\":");
  append_json(out, row.entity_id);
  out += ",\"experiment_id\":";
  append_json(out, row.experiment_id);
  out += ",\"reason\":[";
  for (const Violation& violation : row.violations) {
    if (out.back() != '[') out += ',';
    out.append("{\"code\":\"").append(to_string(violation.code)).append("\",\"message\":");
    append_json(out, violation.message);
    out += '}';
  }
  out += "]}";
}

void append_csv_row(std::string& out, const EntityRow& row) {
  append_number(out, row.index);
  out.append(1, ',').append(verdict(row)).append(1, ',');
  append_csv(out, row.entity_id);
  out += ',';
  append_csv(out, row.experiment_id);
  out += ',';
  append_csv(out, reason_text(row.violations));
}

// For programs: json (an array, one row per line), jsonl, csv.
class TextRows : public EntityRows {
 public:
  explicit TextRows(OutputFormat format) : format_(format) {
    if (format == OutputFormat::kCsv) text_ = "index,verdict,entity_id,experiment_id,reason\n";
    if (format == OutputFormat::kJson) text_ = "[";
    text_.reserve(kBlockBytes + 4096);
  }

  void add(const EntityRow& row) override {
    if (format_ == OutputFormat::kJson) text_ += first_ ? "\n" : ",\n";
    first_ = false;
    if (format_ == OutputFormat::kCsv) {
      append_csv_row(text_, row);
    } else {
      append_json_row(text_, row);
    }
    if (format_ != OutputFormat::kJson) text_ += '\n';
    if (text_.size() < kBlockBytes) return;
    write_out(text_);
    text_.clear();
  }

  void finish() override {
    if (format_ == OutputFormat::kJson) text_ += "\n]\n";
    write_rest(text_);
  }

 private:
  OutputFormat format_;
  std::string text_;
  bool first_ = true;
};

// For people: table, md.
class TableRows : public EntityRows {
 public:
  TableRows(OutputFormat format, bool with_experiment)
      : format_(format), with_experiment_(with_experiment) {
    block_.columns = {"index", "verdict", "entity_id", "reason"};
    if (with_experiment)
      block_.columns = {"index", "verdict", "entity_id", "experiment_id", "reason"};
  }

  void add(const EntityRow& row) override {
    std::vector<Json> cells = {row.index, verdict(row), row.entity_id};
    if (with_experiment_) cells.emplace_back(row.experiment_id);
    cells.emplace_back(reason_text(row.violations));
    block_.rows.push_back(std::move(cells));
    if (block_.rows.size() < kBlockRows) return;
    write_out(block_text());
    block_.rows.clear();
  }

  void finish() override { write_rest(block_.rows.empty() ? std::string() : block_text()); }

 private:
  std::string block_text() const {
    return render(block_, format_, terminal_columns(STDOUT_FILENO));
  }

  OutputFormat format_;
  bool with_experiment_;
  Table block_;
};

}  // namespace

std::unique_ptr<EntityRows> entity_rows(OutputFormat format, bool with_experiment) {
  if (format == OutputFormat::kTable || format == OutputFormat::kMarkdown)
    return std::make_unique<TableRows>(format, with_experiment);
  return std::make_unique<TextRows>(format);
}

}  // namespace sftbench
