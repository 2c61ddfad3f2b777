#include "sftbench/results/left_out.h"

#include <filesystem>
#include <map>
#include <sstream>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLeftOutSchema = "sftbench.left_out/1";
constexpr const char* kLeftOutFolder = "left_out";
constexpr const char* kLinesEnding = ".jsonl";

Json json_of(const LeftOutCell& cell) {
  return {{"schema", kLeftOutSchema},
          {"experiment", cell.experiment},
          {"key", cell.key},
          {"entity_id", cell.entity_id},
          {"cell", cell.label},
          {"reason", cell.reason},
          {"at_most", cell.at_most ? Json(*cell.at_most) : Json()},
          {"dies", cell.dies},
          {"message", cell.message},
          {"decided_at", cell.decided_at}};
}

LeftOutCell cell_of(const Json& json, const std::string& origin) {
  try {
    if (json.at("schema") != kLeftOutSchema) {
      throw InputError(
          {{origin, 0, "schema", "is " + json_text(json.at("schema")), kLeftOutSchema, {}}});
    }
    LeftOutCell cell;
    cell.experiment = json.at("experiment").get<std::string>();
    cell.key = json.at("key").get<std::string>();
    cell.entity_id = json.at("entity_id").get<std::string>();
    cell.label = json.at("cell").get<std::string>();
    cell.reason = json.at("reason").get<std::string>();
    if (json.at("at_most").is_number()) cell.at_most = json.at("at_most").get<double>();
    cell.dies = json.at("dies").get<double>();
    cell.message = json.at("message").get<std::string>();
    cell.decided_at = json.at("decided_at").get<std::string>();
    return cell;
  } catch (const Json::exception& error) {
    throw InputError({{origin, 0, {}, error.what(), "a cell that a sweep left out", {}}});
  }
}

}  // namespace

void write_left_out(const std::string& results, const std::string& space,
                    const std::vector<LeftOutCell>& cells) {
  const fs::path folder = fs::path(results) / kLeftOutFolder;
  const fs::path file = folder / (space + kLinesEnding);
  std::error_code error;
  if (cells.empty()) {
    fs::remove(file, error);
    return;
  }
  fs::create_directories(folder, error);
  if (error) throw InputError({{folder.string(), 0, {}, error.message(), "a folder", {}}});
  std::string text;
  for (const LeftOutCell& cell : cells) text += json_text(json_of(cell)) + "\n";
  write_file_atomic(file, text);
}

std::vector<LeftOutCell> read_left_out(const std::string& results,
                                       std::vector<std::string>& problems) {
  std::map<std::string, LeftOutCell> cells;
  const ResultStore store(results);
  std::error_code error;
  for (fs::directory_iterator entry(fs::path(results) / kLeftOutFolder, error), end;
       !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() != kLinesEnding) continue;
    const std::string origin = entry->path().string();
    try {
      int line = 0;
      std::istringstream lines(read_file(origin));
      for (std::string text; std::getline(lines, text);) {
        ++line;
        if (text.empty()) continue;
        LeftOutCell cell = cell_of(parse_json(text, origin), origin + ":" + std::to_string(line));
        const fs::path result = store.result_path(cell.experiment, cell.key);
        if (fs::exists(result, error)) continue;
        cells.insert_or_assign(cell.experiment + "/" + cell.key, std::move(cell));
      }
    } catch (const InputError& problem) {
      problems.emplace_back(problem.what());
    }
  }
  std::vector<LeftOutCell> all;
  for (auto& [id, cell] : cells) all.push_back(std::move(cell));
  return all;
}

}  // namespace sftbench
