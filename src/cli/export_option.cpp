#include "cli/export_option.h"

#include <filesystem>

#include "cli/quantized_method.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/translate/export.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// The folder that the job reads, or the hub's name of a model that is not here.
std::string model_of(const TrainingJob& job, const std::string& own_model) {
  if (!own_model.empty())
    return fs::is_directory(own_model) ? fs::absolute(own_model).lexically_normal().string()
                                       : own_model;
  if (!job.model.weights_directory.empty()) return job.model.weights_directory;
  const ModelFacts* facts = Catalog::shipped().models.find(job.model.name);
  if (facts == nullptr) return job.model.name;
  for (const char* format : {is_of_gptq(job.tuning) ? "GPTQ-Quantized" : "Vanilla", "Vanilla"}) {
    const auto places = facts->weights.find(format);
    if (places == facts->weights.end()) continue;
    for (const std::string& place : places->second)
      if (!place.starts_with('/')) return place;
  }
  return job.model.name;
}

void write_new(const fs::path& path, const std::string& text) {
  std::error_code error;
  if (fs::exists(path, error) && read_file(path.string()) != text) {
    throw InputError({{{},
                       0,
                       "--export",
                       path.string() + " is there and says something else",
                       "another folder: --export PROGRAM=DIR",
                       {}}});
  }
  write_file_atomic(path, text);
}

}  // namespace

void add_export_option(CLI::App& command, std::vector<std::string>& exports) {
  command
      .add_option(
          "--export", exports,
          "write the files that train this with fms-hf-tuning, trl, axolotl or llamafactory "
          "into DIR (default: a folder of the program's name); repeatable")
      ->type_name("PROGRAM[=DIR]")
      ->allow_extra_args(false);
}

ExportedJobs write_exports(const std::vector<std::string>& exports, const TrainingJob& job,
                           const std::string& own_model, const std::string& stack) {
  ExportedJobs written;
  for (const std::string& text : exports) {
    const size_t equals = text.find('=');
    const std::string program = text.substr(0, equals);
    const fs::path folder = equals == std::string::npos ? program : text.substr(equals + 1);
    if (folder.empty()) {
      throw InputError(
          {{{},
            0,
            "--export",
            "'" + text + "' names no folder",
            program.empty() ? "PROGRAM, or PROGRAM=DIR" : program + ", or " + program + "=DIR",
            {}}});
    }
    const ExportedJob exported = exported_job(program, job, model_of(job, own_model), stack);
    fs::create_directories(folder);
    Json files = Json::array();
    for (const ExportedFile& file : exported.files) {
      write_new(folder / file.name, file.text);
      files.push_back((folder / file.name).string());
    }
    const std::string command = "sh " + shell_quoted((folder / "train.sh").string());
    written.lines.emplace_back(program, command);
    for (const std::string& note : exported.notes) written.lines.emplace_back("", note);
    written.json[program] = {
        {"files", std::move(files)}, {"command", exported.command}, {"notes", exported.notes}};
  }
  return written;
}

}  // namespace sftbench
