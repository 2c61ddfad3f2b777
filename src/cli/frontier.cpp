#include "cli/frontier.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cli/backend_options.h"
#include "cli/definition_list.h"
#include "cli/number_checks.h"
#include "cli/record.h"
#include "cli/selection.h"
#include "sftbench/advise/edge_search.h"
#include "sftbench/advise/oracle.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/cli/app.h"
#include "sftbench/launch/child_measurement.h"
#include "sftbench/plan/known_model.h"
#include "sftbench/results/key_lock.h"
#include "sftbench/results/store.h"
#include "sftbench/space/validity.h"

namespace sftbench {
namespace {

constexpr const char* kBatch = "batch_size";
constexpr const char* kLength = "model_max_length";
constexpr int64_t kMostSize = 1 << 20;
constexpr int64_t kLengthStep = 64;

struct FrontierArguments {
  Selection selection;
  BackendOptions backend;
  std::string over = kBatch;
  std::optional<int64_t> from, to, step;
  int64_t steps = 3;
  double timeout_s = 3600;
  int64_t host_memory_bytes = 0;
  bool no_guess = false;
  std::string output = "results";
  std::string format = "table";
};

bool assigns(const Selection& selection, const std::string& property) {
  const auto& all = selection.assignments;
  return std::any_of(all.begin(), all.end(), [&](const std::string& assignment) {
    return assignment.rfind(property + "=", 0) == 0;
  });
}

class Frontier {
 public:
  explicit Frontier(const FrontierArguments& arguments)
      : arguments_(arguments), store_(arguments.output) {
    const Request first = request_of_size(arguments.from.value_or(1), /*checked=*/false);
    const Json& gpus = first.request.inputs.at("number_gpus");
    const int64_t ranks = gpus.is_number_integer() ? gpus.get<int64_t>() : 0;
    step_ = arguments.step.value_or(arguments.over == kLength ? kLengthStep
                                                              : std::max<int64_t>(1, ranks));
    from_ = arguments.from.value_or(step_);
    to_ = arguments.to.value_or(arguments.over == kLength ? 131072 : 1024 * step_);
    if (to_ < from_) {
      throw InputError({{{},
                         0,
                         "--to",
                         "found " + std::to_string(to_),
                         "at least --from, " + std::to_string(from_),
                         {}}});
    }
  }

  int find(OutputFormat format) {
    EdgeSearch search;
    search.least = 1;
    search.most = 1 + (to_ - from_) / step_;
    if (!arguments_.no_guess) search.guess = predicted_edge(search.most);
    predicted_ = search.guess;
    if (predicted_) spdlog::info("predicted: {} {}", arguments_.over, size_of(*predicted_));
    const Edge edge = find_edge(search, [this](int64_t number) { return fits(size_of(number)); });
    print(edge, format);
    return edge.size < search.least ? exit_code(Status::kInvalid) : 0;
  }

 private:
  struct Request {
    LoadedSpace loaded;
    ResolveOptions options;
    MeasurementRequest request;
  };

  // Sizes by number, from 1. Number 0 stands for none.
  int64_t size_of(int64_t number) const { return from_ + (number - 1) * step_; }

  // As `run` with the size among its --set.
  Selection selection_of(int64_t size) const {
    Selection selection = arguments_.selection;
    std::erase_if(selection.assignments, [this](const std::string& assignment) {
      return assignment.rfind(arguments_.over + "=", 0) == 0;
    });
    selection.assignments.push_back(arguments_.over + "=" + std::to_string(size));
    if (!assigns(selection, "max_steps"))
      selection.assignments.push_back("max_steps=" + std::to_string(arguments_.steps));
    if (selection.padding.empty()) selection.padding = "max_length";
    return selection;
  }

  Request request_of_size(int64_t size, bool checked = true) const {
    const Selection selection = selection_of(size);
    Request made;
    made.loaded = load_space(selection);
    made.options = resolve_options(made.loaded, selection);
    made.options.backend = arguments_.backend.name();
    made.request = choose_request(made.loaded.space, selection);
    if (!checked) return made;
    const std::vector<Violation> violations =
        validate(made.request.inputs, Catalog::shipped().models);
    if (!violations.empty()) {
      throw InputError({{{},
                         0,
                         arguments_.over + " " + std::to_string(size),
                         violations.front().message,
                         "--from and --step with which all sizes are valid",
                         {}}});
    }
    return made;
  }

  // The largest that the cost model does not expect to die; 0: none, nothing: it cannot tell.
  std::optional<int64_t> predicted_edge(int64_t most) const {
    try {
      const MachineOverrides overrides;
      int64_t low = 0;
      for (int64_t high = most + 1; high - low > 1;) {
        const int64_t middle = low + (high - low) / 2;
        const Request made = request_of_size(size_of(middle));
        Oracle oracle(made.loaded.settings, made.options, overrides, Catalog::shipped());
        const Fit fit = oracle.predict(made.request).fit;
        if (fit == Fit::kUnknown) return std::nullopt;
        (fit == Fit::kDies ? high : low) = middle;
      }
      return std::max<int64_t>(1, low);
    } catch (const RunError&) {
      return std::nullopt;
    } catch (const InputError& error) {
      spdlog::info("no prediction to start from: {}", error.what());
      return std::nullopt;
    }
  }

  bool fits(int64_t size) {
    const Request made = request_of_size(size);
    Resolution resolution =
        resolve(made.request, made.loaded.settings, made.options, Catalog::shipped());
    if (resolution.job.runs > 1) {
      throw InputError({{{}, 0, "experiment", "is a series of runs", "a benchmark", {}}});
    }
    say_beyond_positions(resolution.job);
    const Measurement measurement = measure(std::move(resolution), ++attempts_[size]);
    const bool is_valid = measurement.status == Status::kValid;
    if (!is_valid) {
      const ReasonCode code = measurement.reason ? measurement.reason->code : ReasonCode::kInternal;
      if (code != ReasonCode::kOomGpu && code != ReasonCode::kOomHost)
        throw RunError(code, arguments_.over + " " + std::to_string(size) + ": " +
                                 (measurement.reason ? measurement.reason->message : ""));
    }
    spdlog::info("{} {} {}", arguments_.over, size, is_valid ? "fits" : "oom");
    return is_valid;
  }

  // Of the first size that is.
  void say_beyond_positions(const TrainingJob& job) {
    const std::string note = note_on_positions(job.model, job.data.model_max_length);
    if (note.empty() || said_beyond_) return;
    said_beyond_ = true;
    spdlog::info("{}", note);
  }

  // In a process of its own; the result is kept like any other.
  Measurement measure(Resolution resolution, int attempt) const {
    const TrainingJob& job = resolution.job;
    const std::string experiment = job.experiment;
    const std::string key = measurement_key(experiment, job.inputs);
    std::filesystem::create_directories(store_.lock_path(experiment, key).parent_path());
    const KeyLock lock = KeyLock::acquire(store_.lock_path(experiment, key));
    ChildSpec spec;
    spec.sample = store_.next_sample(experiment, key);
    spec.attempt = attempt;
    spec.generate_dataset = resolution.generate_dataset;
    spec.command = command_of(job);
    spec.simulate = arguments_.backend.simulate;
    spec.log = store_.growing_log_path(experiment, key, spec.sample);
    spec.final_log = store_.log_path(experiment, key, spec.sample).string();
    spec.inherited_fds = {lock.fd()};
    spec.timeout_s = arguments_.timeout_s;
    spec.host_memory_bytes = arguments_.host_memory_bytes;
    const int sample = spec.sample;
    spec.job = std::move(resolution.job);
    ChildMeasurement child(std::move(spec));
    Measurement measurement = child.wait();
    store_.write(measurement, key, sample);
    return measurement;
  }

  std::string command_of(const TrainingJob& job) const {
    return command_of_size(job.inputs.at(arguments_.over).get<int64_t>());
  }

  std::string command_of_size(int64_t size) const {
    std::string command = run_command(selection_of(size));
    if (arguments_.backend.backend.empty()) return command;
    command += " --backend " + arguments_.backend.backend;
    for (const std::string& setting : arguments_.backend.simulate)
      command += " --simulate " + shell_quoted(setting);
    return command;
  }

  void print(const Edge& edge, OutputFormat format) const {
    const bool any = edge.size >= 1;
    Json trials = Json::array();
    Table table{{"trial", arguments_.over, "outcome"}, {}};
    for (const Trial& trial : edge.trials) {
      const int64_t size = size_of(trial.size);
      const char* outcome = trial.fits ? "fits" : "oom";
      trials.push_back({{arguments_.over, size}, {"outcome", outcome}});
      table.rows.push_back({table.rows.size() + 1, size, outcome});
    }
    if (format == OutputFormat::kJson || format == OutputFormat::kJsonLines) {
      print_record({},
                   {{"property", arguments_.over},
                    {"edge", any ? Json(size_of(edge.size)) : Json()},
                    {"step", step_},
                    {"flaky", edge.flaky},
                    {"predicted", predicted_ ? Json(size_of(*predicted_)) : Json()},
                    {"command", any ? Json(command_of_size(size_of(edge.size))) : Json()},
                    {"trials", std::move(trials)}},
                   format);
      return;
    }
    print_table(table, format);
    std::fflush(stdout);
    if (format == OutputFormat::kTable) std::fputs(summary(edge).c_str(), stdout);
  }

  std::string summary(const Edge& edge) const {
    Definitions lines;
    if (edge.size < 1) {
      lines.emplace_back("edge", "none: " + std::to_string(from_) + " runs out of memory already");
      return "\n" + definition_list(lines);
    }
    const bool at_end = size_of(edge.size) + step_ > to_;
    lines.emplace_back("edge",
                       arguments_.over + " " + std::to_string(size_of(edge.size)) +
                           (at_end ? ", the largest that was asked for" : "") +
                           (edge.flaky ? ", flaky: a size beside it ran once and died once" : ""));
    if (predicted_) lines.emplace_back("predicted", std::to_string(size_of(*predicted_)));
    lines.emplace_back("run it", on_one_line(command_of_size(size_of(edge.size))));
    return "\n" + definition_list(lines);
  }

  const FrontierArguments& arguments_;
  ResultStore store_;
  int64_t step_ = 1, from_ = 1, to_ = 1;
  std::optional<int64_t> predicted_;
  std::map<int64_t, int> attempts_;
  bool said_beyond_ = false;
};

int frontier(const FrontierArguments& arguments) {
  const OutputFormat format = output_format(arguments.format);
  check_backend(arguments.backend);
  if (arguments.over != kBatch && arguments.over != kLength) {
    throw InputError({{{},
                       0,
                       "--over",
                       "found '" + arguments.over + "'",
                       std::string(kBatch) + " or " + kLength,
                       nearest_spelling(arguments.over, {kBatch, kLength})}});
  }
  if (arguments.backend.name() == kBackendSimulate)
    spdlog::warn("simulated: nothing is trained, every result says so");
  return Frontier(arguments).find(format);
}

}  // namespace

void add_frontier_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "frontier", "the largest batch or length that fits, found with few short runs");
  const auto arguments = std::make_shared<FrontierArguments>();
  add_selection_options(*command, arguments->selection);
  add_backend_options(*command, arguments->backend);
  command->add_option("--over", arguments->over, "what grows")
      ->type_name("batch_size|model_max_length")
      ->capture_default_str();
  const auto size = [&](const char* name, std::optional<int64_t>& value, const char* meaning) {
    command->add_option(name, value, meaning)
        ->type_name("N")
        ->transform(whole_number(1, kMostSize));
  };
  size("--from", arguments->from, "least size (default: --step)");
  size("--to", arguments->to, "largest size (default: 1024 steps of batches; 131072 tokens)");
  size("--step", arguments->step, "between sizes (default: the GPUs for batches; 64 tokens)");
  command->add_option("--steps", arguments->steps, "optimization steps of each run")
      ->transform(whole_number(1, 1000))
      ->capture_default_str();
  command->add_flag("--no-guess", arguments->no_guess, "do not start at the predicted edge");
  command->add_option("--timeout", arguments->timeout_s, "time that a run may take; 0: any")
      ->transform(duration(0, kMostSeconds))
      ->option_text("DURATION=1h");
  command
      ->add_option("--host-memory", arguments->host_memory_bytes,
                   "private memory that a run may take, as 64GiB; more ends as OOM_HOST")
      ->transform(byte_count())
      ->option_text("BYTES");
  command->add_option("-o,--output", arguments->output, "folder of the results")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  command->footer(R"(
Bisects, from the predicted edge on, and repeats the sizes beside the edge as
far as log2(sizes) + 2 runs allow. Each run is a process of its own, and its
result is kept. Rows are padded to model_max_length, unless --padding says
otherwise.

Exit status: 0 an edge was found; 2 usage or input error; 3 the least size does
not fit; 4 a run failed for another reason than memory.

Examples:
  sftbench frontier space.yaml --entity 3 --over batch_size --to 256
  sftbench frontier space.yaml --entity 3 --over model_max_length --step 512
  sftbench frontier space.yaml --entity 3 --backend simulate \
    --simulate memory_noise=0.01)");
  command->callback([arguments, &exit_code] { exit_code = frontier(*arguments); });
}

}  // namespace sftbench
