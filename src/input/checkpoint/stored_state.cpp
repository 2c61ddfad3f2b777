#include "sftbench/checkpoint/stored_state.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBlockNumel = 256;  // of block-wise quantized values

int64_t numel_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
}

PieceRow row_from_json(const Json& json) {
  PieceRow row;
  json.at("value").get_to(row.value);
  json.at("shape").get_to(row.shape);
  json.at("begin").get_to(row.begin);
  json.at("end").get_to(row.end);
  json.at("file").get_to(row.file);
  json.at("tensor").get_to(row.tensor);
  json.at("offset").get_to(row.offset);
  row.map = json.value("map", "");
  row.scales = json.value("scales", "");
  return row;
}

const StoredTensor* find_tensor(const CheckpointShard& file, const std::string& name) {
  const auto found = std::find_if(file.tensors.begin(), file.tensors.end(),
                                  [&](const StoredTensor& t) { return t.name == name; });
  return found == file.tensors.end() ? nullptr : &*found;
}

// Elements of `tensor` from the offset on; of codes with four bits, two in each.
int64_t held_elements(const StoredRun& run) {
  const bool four_bits = !run.map.empty() && run.map.back() == '4';
  return (four_bits ? 2 : 1) * run.tensor->numel() - run.offset;
}

// What is wrong with a row; empty: nothing.
std::string problem_of(const PieceRow& row, const StoredRun& run) {
  if (row.begin < 0 || row.begin > row.end || row.end > numel_of(row.shape)) {
    return "elements " + std::to_string(row.begin) + " to " + std::to_string(row.end) +
           " are not in shape " + shape_text(row.shape);
  }
  if (run.tensor == nullptr) return "no tensor '" + row.tensor + "' in " + row.file;
  if (row.offset < 0 || held_elements(run) < row.end - row.begin) {
    return "tensor '" + row.tensor + "' of " + row.file + " is too short for " +
           std::to_string(row.end - row.begin) + " elements";
  }
  if (row.map.empty()) return {};
  const int64_t blocks = (row.end - row.begin + kBlockNumel - 1) / kBlockNumel;
  if (run.scales == nullptr || run.scales->numel() != blocks) {
    return "no scales of " + std::to_string(blocks) + " blocks";
  }
  return {};
}

StoredRun cut(StoredRun run, int64_t begin, int64_t end) {
  if (!run.map.empty()) return run;
  const int64_t first = std::max(run.begin, begin);
  run.offset += first - run.begin;
  run.begin = first;
  run.end = std::min(run.end, end);
  return run;
}

}  // namespace

Json to_json(const PieceRow& row) {
  Json json = {{"value", row.value},  {"shape", row.shape}, {"begin", row.begin},
               {"end", row.end},      {"file", row.file},   {"tensor", row.tensor},
               {"offset", row.offset}};
  if (row.map.empty()) return json;
  json["map"] = row.map;
  json["scales"] = row.scales;
  return json;
}

std::string pieces_file_name(const std::string& stem) {
  return stem + "_pieces.json";
}

FileSum write_pieces(const fs::path& folder, const std::string& stem, Json rows) {
  const Json index = {{"pieces", std::move(rows)}};
  return write_summed(folder, pieces_file_name(stem), json_text(index, 1) + "\n");
}

StoredState StoredState::of_pieces(const fs::path& folder, const std::string& stem) {
  const fs::path path = folder / pieces_file_name(stem);
  const Json index = read_json_file(path.string());
  std::vector<PieceRow> rows;
  try {
    for (const Json& row : index.at("pieces")) rows.push_back(row_from_json(row));
  } catch (const Json::exception& error) {
    throw InputError({finding(path, "pieces", "not an index of pieces: " + json_problem(error))});
  }
  StoredState state;
  state.folder_ = folder;
  std::vector<Diagnostic> findings;
  for (const PieceRow& row : rows) {
    if (row.file.empty() || fs::path(row.file).filename() != row.file || row.file == "..") {
      findings.push_back(
          finding(path, row.value, "'" + row.file + "' leads out of the folder", "a file name"));
      continue;
    }
    auto& file = state.files_[row.file];
    if (!file) file = std::make_unique<CheckpointShard>(open_safetensors(folder / row.file));
    StoredRun run{row.begin,  row.end, file.get(), find_tensor(*file, row.tensor),
                  row.offset, row.map, nullptr};
    if (!row.map.empty()) run.scales = find_tensor(*file, row.scales);
    if (const std::string problem = problem_of(row, run); !problem.empty()) {
      findings.push_back(finding(path, row.value, problem));
      continue;
    }
    StoredValue& value = state.values_[row.value];
    if (value.runs.empty()) value.shape = row.shape;
    if (value.shape != row.shape) findings.push_back(finding(path, row.value, "has two shapes"));
    value.runs.push_back(run);
  }
  if (!findings.empty()) throw InputError(findings);
  for (auto& [name, value] : state.values_) {
    std::sort(value.runs.begin(), value.runs.end(),
              [](const StoredRun& a, const StoredRun& b) { return a.begin < b.begin; });
  }
  return state;
}

StoredState StoredState::of_files(const fs::path& folder, std::vector<CheckpointShard> files) {
  StoredState state;
  state.folder_ = folder;
  for (CheckpointShard& shard : files) {
    auto& file = state.files_[shard.path.filename().string()];
    file = std::make_unique<CheckpointShard>(std::move(shard));
    for (const StoredTensor& tensor : file->tensors) {
      StoredRun run{0, tensor.numel(), file.get(), &tensor, 0, {}, nullptr};
      state.values_[tensor.name] = {tensor.shape, {std::move(run)}};
    }
  }
  return state;
}

const StoredValue* StoredState::find(const std::string& value) const {
  const auto found = values_.find(value);
  return found == values_.end() ? nullptr : &found->second;
}

std::vector<std::string> StoredState::names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values_) names.push_back(name);
  return names;
}

std::vector<StoredRun> StoredState::runs(const std::string& value, int64_t begin,
                                         int64_t end) const {
  const StoredValue* stored = find(value);
  if (stored == nullptr) throw InputError({finding(folder_, value, "missing")});
  std::vector<StoredRun> runs;
  int64_t reached = begin;
  for (const StoredRun& run : stored->runs) {
    if (run.end <= reached) continue;
    if (run.begin > reached || reached >= end) break;
    runs.push_back(cut(run, reached, end));
    reached = run.end;
  }
  if (reached >= end) return runs;
  throw InputError({finding(
      folder_, value,
      "elements " + std::to_string(reached) + " to " + std::to_string(end) + " are in no file",
      "the files of every rank that saved it")});
}

}  // namespace sftbench
