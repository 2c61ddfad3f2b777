#include "sftbench/advise/foreign_table.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "advise/csv_file.h"
#include "advise/foreign_row.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

using Cell = std::function<std::string(const std::string&)>;  // of a column; empty: none

// Of --map, besides properties.
const std::set<std::string> kFigures = {"experiment", "tokens_per_second", "allocated_bytes",
                                        "is_valid"};
// Figures that all tell the tokens per second of all devices, the most reliable one first: after an
// early stop, rates of the trainer count tokens that were never trained.
const std::vector<std::string> kRates = {"dataset_tokens_per_second", "train_tokens_per_second"};

std::optional<bool> truth_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  if (text == "1" || text == "1.0" || text == "True" || text == "true") return true;
  if (text == "0" || text == "0.0" || text == "False" || text == "false") return false;
  throw Misfit{"is_valid: found '" + text + "', expected 0, 1, True or False"};
}

// --- ado -----------------------------------------------------------------------------------------

// "model_name.llama3-8b-batch_size.8": a property begins where its name stands between a dash, or
// the beginning, and a dot. Names and values may hold dashes and dots themselves.
void read_identifier(const std::string& id, const Catalog& catalog, ForeignRow& row) {
  static const std::vector<std::string> kNames = [&catalog] {
    std::set<std::string> names;
    for (const Experiment& experiment : catalog.experiments) {
      for (const std::string& name : experiment.names()) names.insert(name);
    }
    return std::vector<std::string>(names.begin(), names.end());
  }();
  std::map<size_t, std::string> begins;
  for (const std::string& name : kNames) {
    const std::string mark = name + ".";
    for (size_t at = id.find(mark); at != std::string::npos; at = id.find(mark, at + 1)) {
      if (at == 0 || id[at - 1] == '-') begins[at] = name;
    }
  }
  for (auto it = begins.begin(); it != begins.end(); ++it) {
    const size_t from = it->first + it->second.size() + 1;
    const auto next = std::next(it);
    const size_t to = next == begins.end() ? id.size() : next->first - 1;
    row.properties.emplace(it->second, id.substr(from, to - from));
  }
}

// "SFTTrainer.finetune_full_benchmark-v1.0.0-max_steps.8", with the actuator or without it.
std::string experiment_in(const std::string& id, const Catalog& catalog) {
  for (const Experiment& experiment : catalog.experiments) {
    std::vector<std::string> names = experiment.aliases;
    names.push_back(experiment.identifier);
    for (const std::string& name : names) {
      if (id.rfind(name, 0) == 0 || id.rfind(experiment.actuator + "." + name, 0) == 0)
        return experiment.identifier;
    }
  }
  return {};
}

void read_ado_properties(const CsvFile& file, const Cell& cell, const Catalog& catalog,
                         ForeignRow& row) {
  for (const std::string& column : file.header) {
    const bool alias = column == "tokens_per_sample";
    const std::string property = alias ? "model_max_length" : column;
    const bool known = std::any_of(
        catalog.experiments.begin(), catalog.experiments.end(),
        [&](const Experiment& experiment) { return experiment.find(property) != nullptr; });
    if (!known) continue;
    if (const std::string text = cell(column); !text.empty()) row.properties[property] = text;
  }
}

// A column of the row's experiment, or, in the observed format, one that an experiment's id
// precedes.
std::string ado_figure(const CsvFile& file, const Cell& cell, const std::string& target) {
  if (std::string text = cell(target); !text.empty()) return text;
  const std::string end = "-" + target;
  for (const std::string& column : file.header) {
    if (!column.ends_with(end)) continue;
    if (std::string text = cell(column); !text.empty()) return text;
  }
  return {};
}

std::string ado_experiment(const CsvFile& file, const Cell& cell, const Catalog& catalog) {
  const std::string id = cell("experiment_id");
  if (std::string named = experiment_in(id, catalog); !named.empty()) return named;
  if (std::string method = cell("method"); !method.empty()) return method;
  for (const std::string& column : file.header) {
    std::string named = cell(column).empty() ? std::string() : experiment_in(column, catalog);
    if (!named.empty()) return named;
  }
  return id;
}

ForeignRow ado_row(const CsvFile& file, const Cell& cell, const Catalog& catalog) {
  ForeignRow row;
  row.experiment = ado_experiment(file, cell, catalog);
  read_ado_properties(file, cell, catalog, row);
  read_identifier(cell("identifier"), catalog, row);
  read_identifier(cell("experiment_id"), catalog, row);
  row.is_valid = truth_of(ado_figure(file, cell, "is_valid"));
  if (!row.is_valid.value_or(true)) return row;
  for (const std::string& rate : kRates) {
    if (!row.tokens_per_second)
      row.tokens_per_second = figure_of(rate, ado_figure(file, cell, rate));
  }
  return row;
}

// --- fms-acceleration ----------------------------------------------------------------------------

// What its models are called here. GPTQ's are conversions of them.
const std::map<std::string, std::string> kFmsModels = {
    {"mistralai/Mistral-7B-v0.1", "mistral-7b-v0.1"},
    {"TheBloke/Mistral-7B-v0.1-GPTQ", "mistral-7b-v0.1"},
    {"meta-llama/Meta-Llama-3-8B", "llama3-8b"},
    {"TechxGenus/Meta-Llama-3-8B-GPTQ", "llama3-8b"},
    {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b-instruct-v0.1"},
    {"TheBloke/Mixtral-8x7B-Instruct-v0.1-GPTQ", "mixtral-8x7b-instruct-v0.1"},
    {"NousResearch/Llama-2-70b-hf", "llama2-70b"},
    {"TheBloke/Llama-2-70B-GPTQ", "llama2-70b"},
    {"ibm/PowerLM-3b", "powerlm-3b"},
    {"bigcode/gpt_bigcode-santacoder", "gpt_bigcode-santacoder"}};
// Tokens of a row: santacoder has 2048 positions, the others train on 4096. Rows that ran say the
// same: tokens per second over samples per second.
constexpr const char* kFmsLength = "4096";
constexpr const char* kSantacoderLength = "2048";

std::string fms_experiment(const std::string& config, const std::string& peft) {
  if (config.find("bnb") != std::string::npos) {
    throw Misfit{"bitsandbytes' 4-bit weights are no experiment's"};
  }
  if (config.find("moe") != std::string::npos || config.find("padding-free") != std::string::npos) {
    throw Misfit{"does not say how long its rows are"};
  }
  if (peft.empty()) return "full";
  return config.find("gptq") != std::string::npos ? "gptq-lora" : "lora";
}

std::string python_list(const std::string& words) {
  std::string list;
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    list += (list.empty() ? "" : ", ") + words.substr(begin, end - begin);
    begin = end + 1;
  }
  return "[" + list + "]";
}

void read_fms_batch(const Cell& cell, ForeignRow& row) {
  const std::string gpus = cell("num_gpus");
  const double devices = figure_of("num_gpus", gpus).value_or(1);
  const double batch =
      figure_of("per_device_train_batch_size", cell("per_device_train_batch_size")).value_or(1);
  row.properties["number_gpus"] = gpus;
  row.properties["batch_size"] = std::to_string(static_cast<int64_t>(devices * batch));
  const std::string steps = cell("gradient_accumulation_steps");
  row.properties["gradient_accumulation_steps"] = steps.empty() ? "1" : steps;
  if (const auto rate = figure_of("train_tokens_per_second", cell("train_tokens_per_second"))) {
    row.tokens_per_second = *rate * devices;  // the trainer counts one device's
  }
}

void read_fms_tuning(const Cell& cell, const std::string& config, ForeignRow& row) {
  if (row.experiment != "full") {
    row.properties["r"] = cell("r");
    row.properties["lora_alpha"] = cell("lora_alpha");
    row.properties["target_modules"] = python_list(cell("target_modules"));
  }
  const bool fast = config.find("foak") != std::string::npos;
  row.properties["fast_kernels"] = fast ? "[\"True\", \"True\", \"True\"]" : "None";
  // GPTQ-LoRA always computes in float16, full and LoRA by autocast where bf16 says so.
  if (row.experiment == "gptq-lora") return;
  row.properties["torch_dtype"] = cell("torch_dtype");
  if (truth_of(cell("bf16") == "TRUE" ? "True" : cell("bf16")).value_or(false))
    row.properties["bf16"] = "true";
}

ForeignRow fms_row(const CsvFile&, const Cell& cell, const Catalog&) {
  ForeignRow row;
  const std::string config = cell("framework_config");
  row.experiment = fms_experiment(config, cell("peft_method"));
  const std::string model = cell("model_name_or_path");
  const auto known = kFmsModels.find(model);
  if (known == kFmsModels.end()) throw Misfit{"unknown model '" + model + "'"};
  row.properties["model_name"] = known->second;
  row.properties["gpu_model"] = "NVIDIA-A100-SXM4-80GB";
  row.properties["model_max_length"] =
      known->second == "gpt_bigcode-santacoder" ? kSantacoderLength : kFmsLength;
  read_fms_batch(cell, row);
  read_fms_tuning(cell, config, row);
  row.is_valid = row.tokens_per_second.has_value();
  row.allocated_bytes =
      figure_of("mem_peak_torch_mem_alloc_in_bytes", cell("mem_peak_torch_mem_alloc_in_bytes"));
  if (config.find("liger") != std::string::npos) row.stack = "fms-hf-tuning-liger";
  return row;
}

ForeignRow mapped_row(const CsvFile&, const Cell&, const Catalog&) {
  return {};
}

using Layout = ForeignRow (*)(const CsvFile&, const Cell&, const Catalog&);

Layout layout_named(const std::string& name) {
  const std::vector<Layout> layouts = {ado_row, fms_row, mapped_row};
  const std::vector<std::string>& names = foreign_layouts();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return layouts[static_cast<size_t>(found - names.begin())];
  throw InputError({{{},
                     0,
                     "--as",
                     name.empty() ? "not given" : "unknown layout '" + name + "'",
                     join(names, " or "),
                     nearest_spelling(name, names)}});
}

// --- all -----------------------------------------------------------------------------------------

class Importer {
 public:
  Importer(const std::string& path, const ImportOptions& options, const Catalog& catalog)
      : path_(path),
        options_(options),
        catalog_(catalog),
        layout_(layout_named(options.layout)),
        file_(read_csv(path)),
        placer_(catalog, options.extra_models) {
    for (size_t i = 0; i < file_.header.size(); ++i) column_[file_.header[i]] = i;
    check_names();
  }

  ImportedTable import() {
    ImportedTable table;
    for (const CsvRow& row : file_.rows) {
      try {
        table.rows.push_back(evidence(row));
      } catch (const Misfit& misfit) {
        table.left_out.push_back({row.line, misfit.reason});
      }
    }
    for (const std::string& column : file_.header) {
      if (!column.empty() && !used_.contains(column)) table.unused.push_back(column);
    }
    return table;
  }

 private:
  bool is_property(const std::string& name) const {
    return std::any_of(
        catalog_.experiments.begin(), catalog_.experiments.end(),
        [&name](const Experiment& experiment) { return experiment.find(name) != nullptr; });
  }

  void check_names() const {
    Diagnostics diagnostics("");
    std::vector<std::string> names(kFigures.begin(), kFigures.end());
    for (const Experiment& experiment : catalog_.experiments) {
      for (const std::string& name : experiment.names()) names.push_back(name);
    }
    for (const auto& [name, column] : options_.columns) {
      if (!kFigures.contains(name) && !is_property(name)) {
        diagnostics.error(0, "--map " + name, "is no property and no figure",
                          "a property, " + join({kFigures.begin(), kFigures.end()}, " or "),
                          nearest_spelling(name, names));
      }
      if (!column_.contains(column)) {
        diagnostics.error(0, "--map " + name, path_ + " has no column '" + column + "'",
                          join(file_.header), nearest_spelling(column, file_.header));
      }
    }
    for (const auto& [name, value] : options_.constants) {
      if (name == "experiment" || is_property(name)) continue;
      diagnostics.error(0, "--set " + name, "is no property", "a property or experiment",
                        nearest_spelling(name, names));
    }
    diagnostics.throw_if_failed();
  }

  Evidence evidence(const CsvRow& row) {
    if (row.cells.size() > file_.header.size()) {
      throw Misfit{"has " + counted(std::ssize(row.cells), "cell") + ", and the header " +
                   std::to_string(file_.header.size())};
    }
    const Cell cell = [&](const std::string& column) {
      const auto found = column_.find(column);
      if (found == column_.end() || found->second >= row.cells.size()) return std::string();
      used_.insert(column);
      return std::string(trimmed(row.cells[found->second]));
    };
    ForeignRow foreign = layout_(file_, cell, catalog_);
    take_mapped(cell, foreign);
    for (const auto& [name, value] : options_.constants) {
      if (name != "experiment") {
        foreign.properties.emplace(name, value);
      } else if (foreign.experiment.empty()) {
        foreign.experiment = value;
      }
    }
    Evidence placed = placer_.place(foreign);
    placed.stack = foreign.stack.empty() ? options_.stack : foreign.stack;
    placed.source =
        std::filesystem::path(path_).filename().string() + ":" + std::to_string(row.line);
    return placed;
  }

  void take_mapped(const Cell& cell, ForeignRow& row) const {
    for (const auto& [name, column] : options_.columns) {
      const std::string text = cell(column);
      if (text.empty()) continue;
      if (name == "experiment") {
        row.experiment = text;
      } else if (name == "is_valid") {
        row.is_valid = truth_of(text);
      } else if (name == "tokens_per_second") {
        row.tokens_per_second = figure_of(name, text);
      } else if (name == "allocated_bytes") {
        row.allocated_bytes = figure_of(name, text);
      } else {
        row.properties[name] = text;
      }
    }
  }

  const std::string& path_;
  const ImportOptions& options_;
  const Catalog& catalog_;
  Layout layout_;
  CsvFile file_;
  RowPlacer placer_;
  std::map<std::string, size_t> column_;
  std::set<std::string> used_;
};

}  // namespace

const std::vector<std::string>& foreign_layouts() {
  static const std::vector<std::string> kNames = {"ado", "fms-acceleration", "csv"};
  return kNames;
}

ImportedTable import_table(const std::string& path, const ImportOptions& options,
                           const Catalog& catalog) {
  return Importer(path, options, catalog).import();
}

}  // namespace sftbench
