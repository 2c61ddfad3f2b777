#include "sftbench/results/report_html.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "results/html/column_set.h"
#include "results/html/curve_set.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/measure/measured_properties.h"
#include "sftbench/results/report_notes.h"
#include "sftbench/results/scan.h"
#include "sftbench_report_page.h"  // kPageHead, kPageTail: made from page.html, page.css and the scripts

namespace sftbench {
namespace {

using html::Column;
using html::ColumnSet;
using html::CurveSet;

// In the order in which the page shows them.
constexpr std::array<std::string_view, 5> kGroups = {"outcome", "input", "measured", "extra",
                                                     "environment"};

void add_record(ColumnSet& columns, std::string_view group, const Record& record) {
  for (size_t i = 0; i < record.size(); ++i) {
    columns.scalar(group, record.name(i), record.value(i));
  }
}

void add_figures(ColumnSet& columns, const Record& figures) {
  const std::vector<FigureSpec>& specs = figure_specs();
  for (size_t i = 0; i < figures.size(); ++i) {
    const std::string_view name = figures.name(i);
    const auto spec = i < specs.size() && specs[i].name == name
                          ? specs.begin() + static_cast<std::ptrdiff_t>(i)
                          : std::find_if(specs.begin(), specs.end(),
                                         [&](const FigureSpec& s) { return s.name == name; });
    columns.scalar(spec == specs.end() ? "extra" : spec->section, name, figures.value(i));
  }
}

// No text: the cell stays empty, as where there is nothing to say.
void add_text(ColumnSet& columns, std::string_view name, std::string_view text) {
  if (!text.empty()) columns.text("outcome", name, text);
}

void add_result(ColumnSet& columns, const StoredResult& result) {
  columns.begin_row();
  columns.text("outcome", "status", to_string(result.status));
  columns.text("outcome", "evidence_of", result.simulated() ? "simulation" : "measurement");
  if (result.reason) {
    columns.text("outcome", "reason", to_string(result.reason->code));
    add_text(columns, "message", result.reason->message);
    add_text(columns, "evidence", result.reason->evidence);
    add_text(columns, "log", result.reason->log);
  }
  add_text(columns, "experiment", result.experiment);
  add_text(columns, "experiment_id", result.experiment_id);
  add_text(columns, "entity_id", result.entity_id);
  columns.number("outcome", "sample", result.sample);
  add_text(columns, "file", result.file);
  add_text(columns, "started_at", result.started_at);
  add_text(columns, "finished_at", result.finished_at);
  add_text(columns, "command", result.command);
  add_record(columns, "input", result.inputs);
  add_record(columns, "measured", result.measured);
  add_figures(columns, result.figures);
  // What tells a difference from noise where a configuration was measured once.
  if (result.steps.count == 0) return;
  columns.number("extra", "step_count", static_cast<double>(result.steps.count));
  columns.number("extra", "step_mean_seconds", result.steps.mean_s);
  columns.number("extra", "step_deviation_seconds", result.steps.deviation_s);
  columns.number("extra", "step_autocorrelation", result.steps.autocorrelation);
}

// What follows the head in the data block, 4-byte aligned: the page reads it as arrays in place.
class Payload {
 public:
  template <typename T, typename From>
  size_t add(const std::vector<From>& values) {
    const size_t offset_bytes = bytes_.size();
    const std::vector<T> narrowed(values.begin(), values.end());
    bytes_.append(reinterpret_cast<const char*>(narrowed.data()), narrowed.size() * sizeof(T));
    bytes_.resize((bytes_.size() + 3) / 4 * 4);
    return offset_bytes;
  }
  size_t add_bytes(const std::string& bytes) {
    const size_t offset_bytes = bytes_.size();
    bytes_ += bytes;
    bytes_.resize((bytes_.size() + 3) / 4 * 4);
    return offset_bytes;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Describes the column and appends its rows; a column with one value in every row has none.
Json pack(const Column& column, size_t rows, Payload& payload) {
  Json json = {{"group", column.group()}, {"name", column.name()}, {"numeric", column.numeric()}};
  if (column.group() == "measured") json["unit"] = measured_unit(column.name());
  if (column.numeric() && column.distinct() > html::kMostExactNumbers) {
    json["store"] = "f32";
    json["offset"] = payload.add<float>(column.numbers(rows));
    return json;
  }
  json["values"] = column.values();
  const std::vector<uint32_t> codes = column.codes(rows);
  if (std::all_of(codes.begin(), codes.end(), [&](uint32_t c) { return c == codes.front(); })) {
    json["store"] = "one";
  } else if (column.distinct() <= 0xff) {
    json["store"] = "u8";
    json["offset"] = payload.add<uint8_t>(codes);
  } else if (column.distinct() <= 0xffff) {
    json["store"] = "u16";
    json["offset"] = payload.add<uint16_t>(codes);
  } else {
    json["store"] = "u32";
    json["offset"] = payload.add<uint32_t>(codes);
  }
  return json;
}

Json pack_columns(const ColumnSet& columns, Payload& payload) {
  Json packed = Json::array();
  for (const std::string_view group : kGroups) {
    for (const Column& column : columns.columns()) {
      if (column.group() == group && column.distinct() > 0) {
        packed.push_back(pack(column, columns.rows(), payload));
      }
    }
  }
  return packed;
}

Json skipped_files(const StoreScan& scan) {
  Json files = Json::array();
  for (const SkippedFile& file : scan.skipped) {
    files.push_back({{"file", file.file}, {"reason", file.reason}});
  }
  return files;
}

std::string deflated(const std::string& bytes) {
  uLongf size_bytes = compressBound(bytes.size());
  std::string result(size_bytes, '\0');
  const int status =
      compress2(reinterpret_cast<Bytef*>(result.data()), &size_bytes,
                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), Z_BEST_SPEED);
  check(status == Z_OK, "zlib compresses into a buffer of compressBound()");
  result.resize(size_bytes);
  return result;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t word = 0;
    for (size_t k = i; k < i + 3; ++k) {
      word = word << 8 | (k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0);
    }
    for (size_t k = 0; k < 4; ++k) {
      text += i + k <= bytes.size() ? kDigits[word >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

// The length of the head (4 bytes, little endian), the head as JSON padded with spaces to 4 bytes,
// the columns.
std::string data_block(const Json& head, const Payload& payload) {
  std::string json = json_text(head);
  json.resize((json.size() + 3) / 4 * 4, ' ');
  const auto size_bytes = static_cast<uint32_t>(json.size());
  std::string block(sizeof(size_bytes), '\0');
  std::memcpy(block.data(), &size_bytes, sizeof(size_bytes));
  return block + json + payload.bytes();
}

// Where the curves stand in the payload, and what the page has to say about those that do not.
Json pack_curves(const CurveSet& curves, Payload& payload) {
  return {{"offsets", payload.add<uint32_t>(curves.offsets)},
          {"offset", payload.add_bytes(curves.bytes)},
          {"most_places", curves.most_places},
          {"left_out", curves.left_out},
          {"without_series", curves.without_series},
          {"problems", curves.problems}};
}

// The block that data.js decodes.
std::string packed_data(const StoreScan& scan, const HtmlOptions& options) {
  ColumnSet columns;
  for (const StoredResult& result : scan.results) add_result(columns, result);
  Payload payload;
  Json head = {{"source", options.source},
               {"created_by", options.created_by},
               {"created_at", options.created_at},
               {"usd_per_gpu_hour", options.usd_per_gpu_hour},
               {"gpu_memory_bytes", options.gpu_memory_bytes},
               {"rows", columns.rows()},
               {"columns", pack_columns(columns, payload)},
               {"skipped", skipped_files(scan)},
               {"notes", report_notes({&scan})}};
  if (!options.results.empty())
    head["curves"] = pack_curves(html::collect_curves(scan, options.results), payload);
  return base64(deflated(data_block(head, payload)));
}

}  // namespace

std::string render_html(const StoreScan& scan, const HtmlOptions& options) {
  std::string page(html::kPageHead);
  page += packed_data(scan, options);
  page += html::kPageTail;
  return page;
}

}  // namespace sftbench
