#include "campaign/slurm_script.h"

#include <algorithm>
#include <filesystem>

#include "sftbench/base/error.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr int kSecondsAhead = 120;  // of the time limit: a worker ends its measurement in 5
constexpr int kMostRequeues = 20;
// One that leaves cells sooner has met those that its node cannot measure.
constexpr int kSecondsOfAWorker = 300;

// A line #SBATCH ends with its line, and sbatch knows no escape for that. Whatever follows would be
// a line of the script.
void require_one_line(const char* subject, const std::string& folder) {
  if (folder.find_first_of("\n\r") == std::string::npos) return;
  throw InputError({{{},
                     0,
                     subject,
                     "found " + terminal_line("'" + folder + "'") +
                         ", and a line #SBATCH cannot hold a line end",
                     "a folder whose path has no line end",
                     {}}});
}

// The value of an option as sbatch reads it from a line #SBATCH: by words, with quotes, escapes and
// comments.
std::string directive_value(const std::string& value) {
  if (value.find_first_of(" \t\v\f\"'\\#") == std::string::npos) return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

// In the name of a log `%` begins a pattern, and a backslash turns all patterns off.
std::string log_pattern(const CampaignPlan& plan) {
  require_one_line("--output", plan.output);
  std::string pattern;
  for (const char c : slurm_log_folder(plan)) pattern += c == '%' ? "%%" : std::string(1, c);
  if (pattern.find('\\') == std::string::npos) return pattern + "/%x-%A_%a.log";
  throw InputError({{{},
                     0,
                     "--output",
                     "found '" + plan.output +
                         "', and sbatch gives a backslash in the name of a "
                         "log a meaning of its own",
                     "a folder whose path has no backslash",
                     {}}});
}

std::string working_folder() {
  std::string folder = std::filesystem::current_path().string();
  require_one_line("the current folder", folder);
  return folder;
}

std::map<std::string, std::string> own_lines(const CampaignPlan& plan, const WorkerGroup& group,
                                             int64_t count) {
  const DeviceNeed& need = group.need;
  std::map<std::string, std::string> lines = {
      {"job-name", plan.name + "-" + group.name},
      {"array", count == 1 ? "0" : "0-" + std::to_string(count - 1)},
      {"nodes", std::to_string(need.nodes)},
      {"ntasks-per-node", "1"},
      {"requeue", ""},
      {"open-mode", "append"},
      {"signal", "B:USR1@" + std::to_string(kSecondsAhead)},
      {"output", log_pattern(plan)},
      {"chdir", working_folder()}};
  if (need.gpus_per_node > 0) {
    lines["gpus-per-node"] = std::to_string(need.gpus_per_node);
    lines["cpus-per-task"] = std::to_string(2 * need.gpus_per_node);
  } else if (need.cores > 0) {
    lines["cpus-per-task"] = std::to_string(need.cores);
  } else if (!plan.simulated && group.name != "rules") {
    lines["exclusive"] = "";  // a measurement without --threads takes all cores
  }
  if (need.nodes > 1) {
    lines["ntasks-per-node"] = std::to_string(need.ranks_on_node());
    lines["cpus-per-task"] =
        need.gpus_per_node > 0 ? "2"
                               : std::to_string(std::max<int64_t>(1, need.cores / need.cpu_ranks));
    lines["exclusive"] = "";
  }
  return lines;
}

std::string variables(const CampaignPlan& plan) {
  std::string text;
  for (const auto& [name, value] : plan.environment) {
    text += "export " + name + "=" + shell_quoted(value) + "\n";
  }
  return text;
}

// Runs in the background, so that bash hears signals while it waits.
constexpr const char* kSignals = R"(again= ended= child= status=0
# The time limit is near: what is under way ends, and this task goes on in another allocation.
trap 'again=yes; signaled=yes; [ -z "$child" ] || kill -TERM "$child"' USR1
# scancel, or preemption, after which Slurm itself starts the task again.
trap 'ended=yes; signaled=yes; [ -z "$child" ] || kill -TERM "$child"' TERM INT
attend() { # COMMAND...: sets status
  "$@" &
  child=$!
  while signaled=; wait "$child"; status=$?; [ -n "$signaled" ]; do :; done
  child=
}
)";

std::string requeue() {
  return std::string(
             "# Cells remain for later: the worker has ended in time before the limit.\n"
             "[ \"$status\" -ne 6 ] || [ \"$SECONDS\" -lt ") +
         std::to_string(kSecondsOfAWorker) + " ] || again=yes\n" +
         "if [ -n \"$again\" ] && [ \"$status\" -ne 0 ] && [ \"${SLURM_RESTART_COUNT:-0}\" -lt " +
         std::to_string(kMostRequeues) + " ]; then\n" +
         R"(  scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
fi
exit "$status"
)";
}

std::string worker_line(const CampaignPlan& plan, const WorkerGroup& group) {
  std::vector<std::string> words = worker_words(plan, group);
  if (group.need.nodes > 1) words.insert(words.end(), {"--launcher", "srun"});
  return "attend " + shell_line(words) + "\n";
}

}  // namespace

std::string slurm_log_folder(const CampaignPlan& plan) {
  return (std::filesystem::path(plan.output) / "slurm").string();
}

std::string slurm_script(const CampaignPlan& plan, const WorkerGroup& group,
                         const SlurmOptions& options, int64_t count) {
  std::string text = "#!/bin/bash\n# " + cell_count(group.cells.size()) + " of " + plan.name +
                     " on " + terminal_line(to_string(group.need)) +
                     ", by sftbench sweep --on slurm\n";
  for (const auto& [key, value] : options.over(own_lines(plan, group, count), group)) {
    text += "#SBATCH --" + key + (value.empty() ? "" : "=" + directive_value(value)) + "\n";
  }
  return text + "set -u\n" + variables(plan) + kSignals + worker_line(plan, group) + requeue();
}

}  // namespace sftbench
