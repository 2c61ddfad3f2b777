#include "results/html/curve_reader.h"

#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/results/sample_series.h"

namespace sftbench::html {
namespace {

namespace dom = simdjson::dom;
namespace fs = std::filesystem;

// As a result may be at most. A series of a day, with eight GPUs read every second, has a tenth of
// it.
constexpr size_t kMostFileBytes = size_t{256} << 20;

// NaN where there is no number: a step that was not finite, a device that did not answer.
std::vector<double> numbers_at(dom::element object, std::string_view pointer) {
  dom::array list;
  std::vector<double> numbers;
  if (object.at_pointer(pointer).get(list) != simdjson::SUCCESS) return numbers;
  numbers.reserve(list.size());
  for (const dom::element item : list) {
    double number = kNone;
    if (item.get(number) != simdjson::SUCCESS) number = kNone;
    numbers.push_back(number);
  }
  return numbers;
}

std::string_view text_at(dom::element object, std::string_view pointer) {
  std::string_view text;
  if (object.at_pointer(pointer).get(text) != simdjson::SUCCESS) return {};
  return text;
}

bool any_number(const std::vector<double>& numbers) {
  return std::any_of(numbers.begin(), numbers.end(), [](double n) { return std::isfinite(n); });
}

bool ascend(const std::vector<double>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double n) { return std::isfinite(n); }) &&
         std::is_sorted(numbers.begin(), numbers.end());
}

void add(std::vector<Curve>& curves, Curve curve) {
  if (any_number(curve.mean)) curves.push_back(std::move(curve));
}

void add_over_steps(std::vector<Curve>& curves, Quantity quantity,
                    const std::vector<double>& values, double mark, size_t most) {
  std::vector<double> steps(values.size());
  std::iota(steps.begin(), steps.end(), 1.0);
  Curve curve = curve_of(quantity, steps, values, most);
  curve.mark = mark;
  add(curves, std::move(curve));
}

void add_curves_of_steps(std::vector<Curve>& curves, dom::element file, size_t most) {
  int64_t warmup = 0;
  if (file.at_pointer("/extra/warmup_steps").get(warmup) != simdjson::SUCCESS) warmup = 0;
  const double mark = warmup > 0 ? static_cast<double>(warmup) + 1 : kNone;
  add_over_steps(curves, Quantity::kLoss, numbers_at(file, "/extra/loss"), kNone, most);
  const std::vector<double> steps = numbers_at(file, "/extra/evaluation/steps");
  const std::vector<double> losses = numbers_at(file, "/extra/evaluation/losses");
  if (steps.size() == losses.size() && ascend(steps))
    add(curves, curve_of(Quantity::kEvaluationLoss, steps, losses, most));
  add_over_steps(curves, Quantity::kStepSeconds, numbers_at(file, "/extra/step_seconds"), mark,
                 most);
}

// Readings of one column, by the times of its process.
std::optional<Line> line_of(dom::element columns, std::string_view name, int group) {
  Line line{group, numbers_at(columns, "/time_s"), numbers_at(columns, "/" + std::string(name))};
  if (line.values.empty()) return std::nullopt;
  if (line.values.size() != line.x.size())
    throw InputError(std::string(name) + " has not as many readings as there are times");
  return line;
}

void check_times(dom::element process) {
  const std::vector<double> times = numbers_at(process, "/time_s");
  if (!ascend(times)) throw InputError("its times do not ascend");
}

// Of a counter of CPU seconds the cores that were busy since the reading before.
Line busy_cores(const Line& counter) {
  Line line{counter.group, {}, {}};
  for (size_t i = 1; i < counter.x.size(); ++i) {
    const double passed = counter.x[i] - counter.x[i - 1];
    const double spent = counter.values[i] - counter.values[i - 1];
    if (!(passed > 0) || !(spent >= 0)) continue;
    line.x.push_back(counter.x[i]);
    line.values.push_back(spent / passed);
  }
  return line;
}

struct SeriesLines {
  std::vector<Line> use, memory, power, cpu, host_memory;
  double power_limit = kNone;

  void read(dom::element process) {
    check_times(process);
    int64_t node = 0;
    if (process["node"].get(node) != simdjson::SUCCESS) node = 0;
    const int group = static_cast<int>(node);
    if (const auto counter = line_of(process, "cpu_seconds", group))
      cpu.push_back(busy_cores(*counter));
    if (auto line = line_of(process, "memory_percent", group))
      host_memory.push_back(std::move(*line));
    dom::array gpus;
    if (process["gpus"].get(gpus) != simdjson::SUCCESS) return;
    const std::vector<double> times = numbers_at(process, "/time_s");
    for (const dom::element gpu : gpus) read_gpu(gpu, times);
  }

  // Each GPU is a group of its own: their mean is shown, between the least and the greatest.
  void read_gpu(dom::element gpu, const std::vector<double>& times) {
    const auto read_column = [&](const char* name, std::vector<Line>& lines) {
      std::vector<double> values = numbers_at(gpu, std::string("/") + name);
      if (values.empty()) return;
      if (values.size() != times.size())
        throw InputError(std::string(name) + " has not as many readings as there are times");
      lines.push_back({static_cast<int>(lines.size()), times, std::move(values)});
    };
    read_column("utilization_percent", use);
    read_column("memory_percent", memory);
    read_column("power_watts", power);
    for (const double limit : numbers_at(gpu, "/power_limit_watts")) {
      if (limit > 0 && !(power_limit >= limit)) power_limit = limit;
    }
  }
};

void add_curves_of_series(std::vector<Curve>& curves, dom::element series, size_t most) {
  dom::array processes;
  if (series.at_pointer("/processes").get(processes) != simdjson::SUCCESS)
    throw InputError("has no processes");
  SeriesLines lines;
  for (const dom::element process : processes) lines.read(process);
  int64_t warmup = 0;
  if (series.at_pointer("/warmup_steps").get(warmup) != simdjson::SUCCESS) warmup = 0;
  const std::vector<double> ends = numbers_at(series, "/steps/end_s");
  const bool marked = warmup > 0 && static_cast<size_t>(warmup) <= ends.size();
  const double mark = marked ? ends[static_cast<size_t>(warmup) - 1] : kNone;
  const auto add_lines = [&](Quantity quantity, const std::vector<Line>& of, double limit) {
    Curve curve = merged(quantity, of, most);
    curve.limit = limit;
    curve.mark = mark;
    add(curves, std::move(curve));
  };
  add_lines(Quantity::kGpuUse, lines.use, 100);
  add_lines(Quantity::kGpuMemory, lines.memory, 100);
  add_lines(Quantity::kGpuPower, lines.power, lines.power_limit);
  add_lines(Quantity::kHostMemory, lines.host_memory, 100);
  add_lines(Quantity::kCpu, lines.cpu, kNone);
}

}  // namespace

struct CurveReader::Parser {
  dom::parser result, series;

  // Nothing when it is not JSON.
  static std::optional<dom::element> parse(dom::parser& parser, const std::string& json) {
    dom::element root;
    if (parser.parse(json).get(root) != simdjson::SUCCESS) return std::nullopt;
    return root;
  }
};

CurveReader::CurveReader() : parser_(std::make_unique<Parser>()) {}
CurveReader::~CurveReader() = default;

MeasurementCurves CurveReader::read(const fs::path& result, size_t most) {
  MeasurementCurves read;
  std::string text;
  try {
    text = read_file(result, kMostFileBytes);
  } catch (const InputError&) {
    return read;  // it vanished since the scan
  }
  const std::optional<dom::element> file = Parser::parse(parser_->result, text);
  if (!file) return read;
  add_curves_of_steps(read.curves, *file, most);
  const std::string_view expected = text_at(*file, "/extra/series/digest");
  read.has_series = !expected.empty();
  if (!read.has_series) return read;
  const size_t before = read.curves.size();
  try {
    const std::string json = sample_series_text(series_beside(result), expected, kMostFileBytes);
    const std::optional<dom::element> series = Parser::parse(parser_->series, json);
    if (!series || text_at(*series, "/schema") != kSampleSeriesSchema)
      throw InputError(std::string("is no ") + kSampleSeriesSchema);
    add_curves_of_series(read.curves, *series, most);
  } catch (const InputError& error) {
    read.curves.resize(before);
    read.problem = error.diagnostics().front().message;
  }
  return read;
}

}  // namespace sftbench::html
