#include "cli/status.h"

#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <thread>

#include "cli/backend_options.h"
#include "cli/campaign_status.h"
#include "cli/number_checks.h"
#include "cli/selection.h"
#include "cli/status_view.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/results/scan.h"

namespace sftbench {
namespace {

// Each is named and looked for: some seconds, and a third of a GiB.
constexpr int64_t kMostNamedCells = 2'000'000;

struct StatusArguments {
  std::string results;
  Selection selection;
  BackendOptions backend;
  std::string format = "table";
  bool watch = false;
  double interval_s = 2;
};

bool names_a_space(const Selection& selection) {
  return !selection.space_path.empty() || !selection.experiment.empty() ||
         !selection.model.empty() || !selection.arguments_paths.empty();
}

// `space`, where its cells can be named. InputError, with their number.
const Space& countable(const Space& space) {
  const int64_t entities = space.entity_count();
  const auto experiments = static_cast<int64_t>(space.experiments.size());
  if (entities <= kMostNamedCells / std::max<int64_t>(1, experiments)) return space;
  throw InputError({{space.origin,
                     0,
                     "entitySpace",
                     "has " + counted(entities, "entity", "entities") + " under " +
                         counted(experiments, "experiment"),
                     "at most " + std::to_string(kMostNamedCells) +
                         " cells: --set narrows it, and without SPACE all results in DIR count",
                     {}}});
}

// A space and the names of its cells, which look at it.
struct NamedSpace {
  explicit NamedSpace(const StatusArguments& arguments)
      : loaded(load_space(arguments.selection)),
        options(resolving(loaded, arguments)),
        names(countable(loaded.space), options) {}

  static ResolveOptions resolving(const LoadedSpace& space, const StatusArguments& arguments) {
    for (const Diagnostic& warning : space.warnings) spdlog::warn("{}", to_string(warning));
    ResolveOptions resolved = resolve_options(space, arguments.selection);
    resolved.backend = arguments.backend.name();
    return resolved;
  }

  LoadedSpace loaded;
  ResolveOptions options;
  CellNames names;
};

// The last look, and where to look again.
class Watch {
 public:
  explicit Watch(const StatusArguments& arguments)
      : arguments_(arguments), format_(output_format(arguments.format)), scan_(arguments.results) {
    scan_.refresh();  // before a space is read: the folder may be none
    if (names_a_space(arguments.selection)) space_ = std::make_unique<NamedSpace>(arguments);
  }

  void look() {
    scan_.refresh();
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    status_ =
        campaign_status(scan_, list_claims(arguments_.results), space_ ? &space_->names : nullptr,
                        std::chrono::duration<double>(now).count());
  }

  bool all_has_ended() const {
    return status_.waiting && *status_.waiting == 0 && status_.measuring.empty();
  }

  void print() const {
    const size_t columns = format_ == OutputFormat::kTable ? terminal_columns(STDOUT_FILENO) : 0;
    std::cout << terminal_text(status_text(status_, format_, columns)) << std::flush;
  }

  // A screen where there is one, else a line each time.
  void redraw() const {
    if (format_ == OutputFormat::kJson) {
      std::cout << json_text(status_json(status_)) << "\n";
    } else if (format_ != OutputFormat::kTable) {
      print();
    } else if (::isatty(STDOUT_FILENO) != 0) {
      std::cout << "\x1b[H\x1b[2J" << screen();
    } else {
      std::cout << terminal_line(status_line(status_)) << "\n";
    }
    std::cout << std::flush;
    if (!std::cout) throw InputError("status: nobody reads standard output any more");
  }

 private:
  // As many rows as the terminal has: what it would break itself, or scroll away, would stay there.
  std::string screen() const {
    winsize size = {};
    const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1;
    const size_t columns = terminal_columns(STDOUT_FILENO);
    const std::string text =
        wrapped(terminal_text(status_text(status_, format_, columns)), columns);
    std::string shown;
    size_t begin = 0;
    for (int row = 0; row < (known ? size.ws_row - 1 : 23) && begin < text.size(); ++row) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      shown += cut_to(std::string_view(text).substr(begin, end - begin), columns) + "\n";
      begin = end + 1;
    }
    return shown;
  }

  const StatusArguments& arguments_;
  const OutputFormat format_;
  OutcomeScan scan_;
  std::unique_ptr<NamedSpace> space_;
  CampaignStatus status_;
};

int watch_status(const StatusArguments& arguments) {
  Watch watch(arguments);
  watch.look();
  watch.redraw();
  while (!watch.all_has_ended()) {
    std::this_thread::sleep_for(std::chrono::duration<double>(arguments.interval_s));
    watch.look();
    watch.redraw();
  }
  return 0;
}

int show_status(const StatusArguments& arguments) {
  check_backend(arguments.backend);
  if (arguments.watch) return watch_status(arguments);
  Watch watch(arguments);
  watch.look();
  watch.print();
  return 0;
}

}  // namespace

void add_status_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("status", "tell how far a campaign is, and who measures what");
  const auto arguments = std::make_shared<StatusArguments>();
  command->add_option("DIR", arguments->results, "folder of the results")
      ->required()
      ->type_name("");
  add_selection_options(*command, arguments->selection);
  add_backend_options(*command, arguments->backend);
  command->add_flag("--watch", arguments->watch,
                    "look again and again, until all cells of SPACE have ended");
  command->add_option("--interval", arguments->interval_s, "time between two looks")
      ->transform(duration(kLeastSeconds, kMostSeconds))
      ->option_text("DURATION=2s");
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  command->footer(R"(
Without SPACE, every result in DIR counts. With SPACE, its cells count, and how
many wait is known. Give the options of the sweep that change what is measured.
A lease that is silent for longer than it lasts belongs to a process that is
gone or stopped: a worker takes it over.

Examples:
  sftbench status results
  sftbench status results space.yaml --watch
  sftbench status results space.yaml --format json)");
  command->callback([arguments, &exit_code] { exit_code = show_status(*arguments); });
}

}  // namespace sftbench
