#include "cli/sweep_keeping.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/checkpoint/manifest.h"
#include "sftbench/checkpoint/saved_folder.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// Each sample has folders of its own.
SaveOptions of_cell(SaveOptions save, const Cell& cell) {
  const std::string name =
      cell.sample == 1 ? cell.key : cell.key + "." + std::to_string(cell.sample);
  for (std::string* folder : {&save.output_directory, &save.model_directory}) {
    if (!folder->empty()) *folder = (fs::path(*folder) / name).string();
  }
  return save;
}

// A measurement that was trained to its end and has no result was killed in between. Nothing is
// left to resume, so it trains anew. What it left moves aside.
bool has_ended(const std::string& checkpoint) {
  try {
    const Json state = read_json_file((fs::path(checkpoint) / kTrainerStateFile).string());
    return state.at("global_step").get<int64_t>() >= state.at("total_steps").get<int64_t>();
  } catch (const std::exception&) {  // whoever resumes from it says so
    return false;
  }
}

void begin_anew_if_ended(SavePlan& plan) {
  if (plan.resume_from.empty() || !has_ended(plan.resume_from)) return;
  plan.resume_from.clear();
  plan.from_nothing = true;
}

void set_model_aside(const std::string& folder) {
  std::error_code error;
  if (folder.empty() || !fs::exists(fs::path(folder) / kManifestFile, error)) return;
  std::string aside;
  for (int i = 1; aside.empty() || fs::exists(aside, error); ++i) {
    aside = folder + ".earlier-" + std::to_string(i);
  }
  fs::rename(folder, aside, error);
  if (!error) spdlog::info("{} is of a measurement without a result: moved to {}", folder, aside);
}

bool keeps_files(const SaveOptions& save) {
  return !save.output_directory.empty() || !save.model_directory.empty() ||
         !save.strategy.empty() || save.steps || save.total_limit || !save.log_strategy.empty() ||
         save.log_steps || save.best_model;
}

[[noreturn]] void refuse_option(const char* option, std::string message, std::string expected) {
  throw InputError({{{}, 0, option, std::move(message), std::move(expected), {}}});
}

void check_sense_for_cells(const SaveOptions& save) {
  if (!save.checkpoint_directory.empty()) {
    refuse_option("--checkpoint-dir", "is one folder, and a sweep has one for each measurement",
                  "--output-dir DIR, which gets a folder for each");
  }
  const std::string resume = CLI::detail::to_lower(save.resume_from);
  if (resume.empty() || resume == "true" || resume == "false") return;
  refuse_option("--resume-from-checkpoint", save.resume_from + " is the checkpoint of one training",
                "--output-dir DIR, where each measurement goes on from its own, or run");
}

// What is wrong for every cell is said before the first.
void check_for_any_cell(const SaveOptions& save, const std::string& results,
                        const std::string& backend) {
  TrainingJob any;
  any.backend = backend;
  Cell cell;
  cell.key = "cell";
  SaveOptions checked = of_cell(save, cell);
  checked.best_model = false;  // that depends on the cell
  apply_save_options(checked, results, any);
}

}  // namespace

std::function<void(const Cell&, TrainingJob&)> keeping(const SaveOptions& save,
                                                       const std::string& results,
                                                       const std::string& backend) {
  check_sense_for_cells(save);
  if (!keeps_files(save)) return [](const Cell&, TrainingJob&) {};
  check_for_any_cell(save, results, backend);
  return [save, results](const Cell& cell, TrainingJob& job) {
    job.save = {};  // of an earlier attempt
    const SaveOptions own = of_cell(save, cell);
    set_model_aside(own.model_directory);
    apply_save_options(own, results, job);
    begin_anew_if_ended(job.save);
  };
}

}  // namespace sftbench
