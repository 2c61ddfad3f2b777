#include "cli/report.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "cli/price_options.h"
#include "sftbench/advise/evidence.h"
#include "sftbench/advise/own_evidence.h"
#include "sftbench/base/build_info.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/results/compare.h"
#include "sftbench/results/foreign_results.h"
#include "sftbench/results/report.h"
#include "sftbench/results/report_html.h"
#include "sftbench/results/report_notes.h"
#include "sftbench/results/store.h"
#include "sftbench/results/vary.h"

namespace sftbench {
namespace {

struct ReportArguments {
  std::string directory;
  std::string format = "table";
  std::string output;
  std::string compare;
  std::string vary, baseline;
  std::string property;
  std::string property_format = "target";
  std::string aggregate;
  std::vector<std::string> experiments;
  std::vector<std::string> statuses;
  PriceOptions prices;
  bool wide = false;
  bool simulated = false;
  bool imported = false;

  bool compares() const { return !compare.empty() || !vary.empty(); }
  bool html() const { return format == "html"; }
  bool whole() const { return format == "json" || format == "jsonl"; }
  bool observed() const { return property_format == "observed"; }
};

// Where the report goes: the standard output, or a file that is there whole or not at all.
class Sink {
 public:
  explicit Sink(const std::string& path) {
    if (!path.empty()) file_.emplace(path, NamedBy::kUser);
  }

  void write(std::string_view text) {
    if (file_) return file_->append(text);
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail();
  }

  size_t columns() const { return file_ ? 0 : terminal_columns(STDOUT_FILENO); }

  void finish() {
    if (file_) return file_->commit();
    if (std::fflush(stdout) != 0) fail();
  }

 private:
  [[noreturn]] static void fail() {
    throw InputError(std::string("cannot write to the standard output: ") + std::strerror(errno));
  }

  std::optional<AtomicFile> file_;
};

[[noreturn]] void usage(const std::string& option, const std::string& message) {
  throw InputError(
      {{.file = {}, .line = 0, .key = option, .message = message, .expected = {}, .nearest = {}}});
}

// A word of a list; InputError with the nearest spelling.
size_t position(const std::string& option, const std::string& word,
                const std::vector<std::string>& words) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) {
    throw InputError({{.file = {},
                       .line = 0,
                       .key = option,
                       .message = "unknown value '" + word + "'",
                       .expected = "one of " + join(words),
                       .nearest = nearest_spelling(word, words)}});
  }
  return static_cast<size_t>(found - words.begin());
}

// An option that would change nothing is an error: whoever gave it expects something of it.
void refuse_idle_options(const ReportArguments& a) {
  std::vector<std::string> formats = output_format_names();
  formats.emplace_back("html");
  position("--format", a.format, formats);
  position("--property-format", a.property_format, {"target", "observed"});
  const bool ado = a.format == "csv" || a.wide;
  const std::string whole = "has no effect on --format " + a.format + ", which ";
  const std::string comparing = a.vary.empty() ? "--compare" : "--vary";
  if (!a.vary.empty() && !a.compare.empty()) usage("--vary", "and --compare exclude each other");
  if (!a.baseline.empty() && a.vary.empty()) {
    usage("--baseline", "is a value of what --vary varies, which is not given");
  }
  if (a.compares()) {
    if (a.html())
      usage(comparing, "a page of comparisons is not there; table, md, csv, json, jsonl are");
    for (const auto& [given, option] : {std::pair{a.wide, "--wide"},
                                        {!a.aggregate.empty(), "--aggregate"},
                                        {a.observed(), "--property-format"},
                                        {a.prices.price.has_value(), "--price"},
                                        {a.imported, "--imported"},
                                        {!a.prices.book.empty(), "--prices"}}) {
      if (given) usage(option, "has no effect with " + comparing);
    }
    return;
  }
  if (!a.property.empty())
    usage("--property", "says what --compare and --vary compare; neither is given");
  if (a.imported && (a.whole() || a.html()))
    usage("--imported", whole + "shows own measurements alone; table, md and --wide show both");
  if (a.imported && a.format == "csv" && !a.wide)
    usage("--imported", "has no effect on ado's columns; --wide has the figures behind them");
  if (a.wide && a.html()) usage("--wide", whole + "always has everything");
  if (a.wide && a.whole()) usage("--wide", whole + "has the measurements whole");
  if (a.wide && a.observed()) usage("--wide", "has no effect with --property-format observed");
  if (!a.aggregate.empty() && !ado) usage("--aggregate", "belongs to --format csv or --wide");
  const char* price = a.prices.price ? "--price" : "--prices";
  if (a.prices.given() && a.html()) usage(price, whole + "asks for prices itself");
  if (a.prices.given() && a.format == "csv" && !a.wide) {
    usage(price, "has no effect on ado's columns; --wide has the cost behind them");
  }
  if (a.observed() && !ado) usage("--property-format", "observed belongs to --format csv");
}

void name_skipped(const StoreScan& scan, const std::string& directory) {
  constexpr size_t kNamed = 20;
  for (size_t i = 0; i < scan.skipped.size(); ++i) {
    const auto level = i < kNamed ? spdlog::level::warn : spdlog::level::debug;
    spdlog::log(level, "skipped {}/{}: {}", directory, scan.skipped[i].file,
                scan.skipped[i].reason);
  }
  if (scan.skipped.size() > kNamed) {
    spdlog::warn("skipped {} more; --log-level debug names them", scan.skipped.size() - kNamed);
  }
}

ReportFilter filter_of(const ReportArguments& arguments) {
  ReportFilter filter;
  for (const std::string& name : arguments.experiments) {
    const Experiment* known = Catalog::shipped().experiment(name);
    filter.experiments.push_back(known == nullptr ? name : known->identifier);
  }
  filter.simulated = arguments.simulated;
  for (const std::string& word : arguments.statuses) {
    filter.statuses.push_back(
        static_cast<Status>(position("--status", word, {"valid", "invalid", "failed"})));
  }
  return filter;
}

ForeignMeasurement foreign(const Evidence& evidence) {
  ForeignMeasurement row{evidence.source, evidence.stack, evidence.experiment, evidence.inputs};
  row.padded_tokens_per_second = evidence.tokens_per_second;
  row.device_peak_allocated_bytes = evidence.allocated_bytes;
  if (evidence.outcome == EvidenceOutcome::kValid) {
    row.status = Status::kValid;
  } else if (evidence.outcome == EvidenceOutcome::kOutOfMemory) {
    row.status = Status::kInvalid;
    row.reason = Reason{ReasonCode::kOomGpu, "as " + evidence.source + " says", {}, {}};
  }
  return row;
}

// What `import` put beside the results.
void add_imported(const std::string& directory, StoreScan& scan) {
  const std::vector<std::string> files = evidence_files(directory);
  if (files.empty()) {
    usage("--imported", directory + " has no evidence; sftbench import puts it there");
  }
  std::vector<ForeignMeasurement> rows;
  for (const std::string& file : files) {
    for (const Evidence& evidence : read_evidence(file)) rows.push_back(foreign(evidence));
  }
  add_foreign_results(rows, scan);
  spdlog::info("{}: {} that others made; the column origin names file and line", directory,
               counted(rows.size(), "measurement"));
}

// Reads a directory, leaves what is asked for, and says on stderr what that is and what it is not.
StoreScan load(const std::string& directory, const ReportArguments& arguments) {
  StoreScan scan = ResultStore(directory).scan();
  name_skipped(scan, directory);
  if (arguments.imported) add_imported(directory, scan);
  const size_t found = scan.results.size();
  const size_t simulated = select_results(scan, filter_of(arguments));
  if (simulated > 0) {
    spdlog::warn("left out {}, no evidence about any machine; --include-simulated shows them",
                 counted(simulated, "simulated result"));
  }
  std::array<size_t, 3> counts{};
  for (const StoredResult& result : scan.results) ++counts[static_cast<size_t>(result.status)];
  std::string line = counted(scan.results.size(), "result") + ": " + std::to_string(counts[0]) +
                     " valid, " + std::to_string(counts[1]) + " invalid, " +
                     std::to_string(counts[2]) + " failed";
  if (found > scan.results.size() + simulated) line += " (of " + std::to_string(found) + ")";
  if (!scan.skipped.empty()) line += "; " + counted(scan.skipped.size(), "file") + " skipped";
  spdlog::info("{}: {}", directory, line);
  return scan;
}

void say_notes(const std::vector<const StoreScan*>& scans) {
  for (const std::string& note : report_notes(scans)) spdlog::warn("{}", note);
}

void write_table(const ReportTable& table, const std::string& format, Sink& sink) {
  if (format == "csv") return write_csv(table, [&](std::string_view text) { sink.write(text); });
  sink.write(render(to_table(table), output_format(format), sink.columns()));
}

void write_ado(const StoreScan& scan, const ReportArguments& arguments, Sink& sink) {
  AdoLayout layout;
  layout.observed = arguments.observed();
  layout.wide = arguments.wide;
  if (arguments.wide) layout.prices = device_prices(arguments.prices);
  if (!arguments.aggregate.empty()) {
    layout.method =
        static_cast<Aggregate>(position("--aggregate", arguments.aggregate, aggregate_names()));
  }
  const auto failed = static_cast<size_t>(
      std::count_if(scan.results.begin(), scan.results.end(),
                    [](const StoredResult& result) { return result.status == Status::kFailed; }));
  if (failed > 0 && !arguments.wide) {
    spdlog::info("{} without a row, as in ado; --wide shows them",
                 counted(failed, "failed measurement"));
  }
  write_table(ado_table(scan, layout), arguments.format, sink);
}

// Source, program and time; prices and memory of the GPUs that the catalog knows.
HtmlOptions page_options(const std::string& source) {
  HtmlOptions options;
  options.source = source;
  options.created_by = version_text();
  options.created_at = utc_now_iso8601();
  const PriceBook book = read_price_book({});
  for (const GpuFacts& gpu : Catalog::shipped().gpus.gpus()) {
    if (const Price* price = book.find(gpu.name))
      options.usd_per_gpu_hour[gpu.name] = price->per_hour;
    if (gpu.memory_bytes > 0) options.gpu_memory_bytes[gpu.name] = gpu.memory_bytes;
  }
  return options;
}

void write_page(const StoreScan& scan, const ReportArguments& arguments, Sink& sink) {
  HtmlOptions options = page_options(arguments.directory);
  options.results = arguments.directory;
  sink.write(render_html(scan, options));
}

void write_comparison(const StoreScan& scan, const ReportArguments& arguments, Sink& sink) {
  const StoreScan other = load(arguments.compare, arguments);
  say_notes({&scan, &other});
  CompareOptions options;
  if (!arguments.property.empty()) options.property = arguments.property;
  options.with_ids = arguments.format != "table" && arguments.format != "md";
  const Comparison comparison = compare_results(scan, other, options);
  for (const FolderDifference& apart : comparison.apart) {
    spdlog::info("{} is {} in {} and {} in {}", apart.input, apart.here, arguments.directory,
                 apart.other, arguments.compare);
  }
  if (comparison.both == 0) {
    spdlog::warn(
        "the folders have no configurations that are alike{}; --vary INPUT compares "
        "within a folder",
        comparison.apart.empty() ? "" : " but for that");
  } else if (!comparison.apart.empty()) {
    spdlog::info("compared are configurations that are alike but for that");
  }
  spdlog::info("{} in both, {} only in {}, {} only in {}",
               counted(comparison.both, "configuration"), comparison.only_here, arguments.directory,
               comparison.only_other, arguments.compare);
  if (comparison.judged > 0) {
    spdlog::info(
        "{} of {} differ beyond the noise: {} higher, {} lower in {} (95 % intervals: {:.1f} would "
        "without any difference); mean ratio {:.4f}",
        comparison.higher + comparison.lower, comparison.judged, comparison.higher,
        comparison.lower, arguments.directory, 0.05 * static_cast<double>(comparison.judged),
        comparison.mean_ratio);
  }
  write_table(comparison.table, arguments.format, sink);
}

Table table_of(const std::vector<MainEffect>& effects, const VaryOptions& options,
               const std::string& baseline) {
  Table table{
      {options.input, "beside", "pairs", "judged", "ratio", "low", "high", "higher", "lower"}, {}};
  for (const MainEffect& effect : effects) {
    const bool judged = effect.judged > 0;
    table.rows.push_back({effect.value, baseline, effect.pairs, effect.judged,
                          judged ? Json(effect.ratio) : Json(), judged ? Json(*effect.low) : Json(),
                          judged ? Json(*effect.high) : Json(), effect.higher, effect.lower});
  }
  return table;
}

void write_variation(const StoreScan& scan, const ReportArguments& arguments, Sink& sink) {
  VaryOptions options{arguments.vary, arguments.baseline, {}};
  if (!arguments.property.empty()) options.compare.property = arguments.property;
  const Variation variation = vary(scan, options);
  if (!variation.why_empty.empty()) spdlog::warn("{}", variation.why_empty);
  const bool people = arguments.format == "table" || arguments.format == "md";
  if (people && !variation.effects.empty()) {
    const Table effects = table_of(variation.effects, options, variation.baseline);
    sink.write(render(effects, output_format(arguments.format), sink.columns()) + "\n");
  }
  write_table(variation.table, arguments.format, sink);
}

// The short table has their codes alone.
void say_where_reasons_are(const StoreScan& scan) {
  const auto without = static_cast<size_t>(
      std::count_if(scan.results.begin(), scan.results.end(),
                    [](const StoredResult& result) { return result.reason.has_value(); }));
  if (without == 0) return;
  spdlog::info("{} not valid; --wide shows why",
               counted(without, "measurement") + (without == 1 ? " is" : " are"));
}

void report(const ReportArguments& arguments) {
  refuse_idle_options(arguments);
  const StoreScan scan = load(arguments.directory, arguments);
  if (arguments.compare.empty()) say_notes({&scan});
  Sink sink(arguments.output);
  if (!arguments.vary.empty()) {
    write_variation(scan, arguments, sink);
  } else if (!arguments.compare.empty()) {
    write_comparison(scan, arguments, sink);
  } else if (arguments.html()) {
    write_page(scan, arguments, sink);
  } else if (arguments.whole()) {
    // The files as they are, unless somebody asks for more.
    const PriceOptions& prices = arguments.prices;
    write_measurements(
        arguments.directory, scan, arguments.format == "jsonl",
        [&](std::string_view text) { sink.write(text); },
        prices.given() ? device_prices(prices) : DevicePrices());
  } else if (arguments.format == "csv" || arguments.wide) {
    write_ado(scan, arguments, sink);
  } else {
    write_table(short_table(scan, device_prices(arguments.prices)), arguments.format, sink);
    say_where_reasons_are(scan);
  }
  sink.finish();
  if (!arguments.output.empty()) spdlog::info("wrote {}", arguments.output);
}

void add_comparison_options(CLI::App& command, ReportArguments& arguments) {
  command
      .add_option("--compare", arguments.compare,
                  "join with another directory; says whether differences exceed the noise")
      ->type_name("DIR");
  command
      .add_option("--vary", arguments.vary,
                  "pair configurations that differ in this input alone: what each of its values "
                  "does; experiment works, too")
      ->type_name("INPUT");
  command
      .add_option("--baseline", arguments.baseline,
                  "value that the others of --vary stand beside; the most frequent one")
      ->type_name("VALUE");
}

}  // namespace

void add_report_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("report", "tables, CSV and a page of the measurements in a directory");
  const auto arguments = std::make_shared<ReportArguments>();
  command->add_option("DIR", arguments->directory, "directory of results")->required();
  command->add_option("--format", arguments->format, "table, json, jsonl, csv, md or html")
      ->type_name("table|json|jsonl|csv|md|html")
      ->capture_default_str();
  command->add_flag("--wide", arguments->wide,
                    "behind ado's columns: outcome, repeats, figures, all inputs, provenance");
  command->add_option("-o,--output", arguments->output, "file to write, instead of stdout")
      ->type_name("FILE");
  command->add_option("--experiment", arguments->experiments, "only this experiment (repeatable)")
      ->type_name("ID");
  command->add_option("--status", arguments->statuses, "only these outcomes, comma between them")
      ->delimiter(',')
      ->type_name("valid|invalid|failed");
  command->add_flag("--include-simulated", arguments->simulated,
                    "also what --backend simulate made up");
  command->add_flag("--imported", arguments->imported,
                    "also what sftbench import took from others, a row each, with its origin");
  command
      ->add_option("--aggregate", arguments->aggregate,
                   "repeats in csv: median (the default, under the property's own name), or ado's "
                   "columns <property>-<method>; list: ado's list in a cell")
      ->type_name(join(aggregate_names(), "|"));
  command
      ->add_option("--property-format", arguments->property_format,
                   "ado's layouts of csv: a row per entity and experiment, or one per entity")
      ->type_name("target|observed")
      ->capture_default_str();
  add_comparison_options(*command, *arguments);
  add_price_option(*command, arguments->prices);
  add_price_book_option(*command, arguments->prices.book);
  command->add_option("--property", arguments->property, "what --compare and --vary compare")
      ->option_text("NAME=dataset_tokens_per_second");
  command->footer(R"(

Examples:
  sftbench report results                          what came out, for people
  sftbench report results --format csv             ado's columns, for pandas
  sftbench report results --format html -o report.html
  sftbench report results --price 2.5              what do tokens cost?
  sftbench report after --compare before           did it get faster?
  sftbench report results --vary optim             what does the optimizer cost?)");
  command->callback([arguments, &exit_code] {
    report(*arguments);
    exit_code = 0;
  });
}

}  // namespace sftbench
