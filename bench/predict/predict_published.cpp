// The cost model (plan/cost_model.h) against steps that others measured and published
// (published.yaml). One row of each machine settles the rate at which it computes; all others are
// predicted with it, and the error is printed. Usage: predict_published [--format md]
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/catalog/fields.h"
#include "sftbench/predict/cost_model.h"
#include "sftbench/predict/machine_catalog.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

constexpr double kGiB = 1 << 30;
constexpr double kGiga = 1e9;
constexpr int64_t kGpusOfANode = 8;

struct PublishedRow {
  std::string machine;
  TrainingJob job;
  Recompute recompute = Recompute::kJob;
  std::string checkpointing;
  double tokens_per_s = 0;
  std::optional<double> memory_gib;
  bool calibrates = false;
};

std::map<std::string, MachineModel> read_machines(Fields& file, Diagnostics& diagnostics) {
  const Catalog& catalog = Catalog::shipped();
  const MachineCatalog known = MachineCatalog::read(
      (resource_directory() / "config" / "machines.yaml").string(), catalog.gpus);
  std::map<std::string, MachineModel> machines;
  for (const YamlNode& node : file.sequence("machines")->items) {
    Fields fields(node, "machines", diagnostics);
    const std::string name = fields.text("name");
    machines[name] = machine_of(fields.text("gpu"), "bfloat16", catalog.gpus, known);
    machines[name].memory_bytes_per_s = fields.number("memory_gb_per_s").value_or(0) * kGiga;
    fields.reject_unknown();
  }
  return machines;
}

PublishedRow read_row(const YamlNode& node, Diagnostics& diagnostics) {
  Fields fields(node, "rows", diagnostics);
  PublishedRow row;
  TrainingJob& job = row.job;
  row.machine = fields.text("machine");
  job.model.name = fields.text("model");
  const ModelFacts* model = Catalog::shipped().models.find(job.model.name);
  if (model == nullptr) throw InputError("published.yaml: no model " + job.model.name);
  job.model.hf_config = model->hf_config;
  job.device.kind = "cuda";
  job.device.ranks = fields.integer("gpus").value_or(0);
  job.device.nodes = job.device.ranks / kGpusOfANode;
  job.data.model_max_length = fields.integer("length").value_or(0);
  job.batches.per_device_batch_size = fields.integer("batch").value_or(0);
  job.precision = {.torch_dtype = ParameterDtype::kFloat32, .autocast = Autocast::kBf16};
  job.parallel.strategy = Strategy::kFullShard;
  job.parallel.reduce_dtype = "float32";
  job.kernels.fused_loss = false;
  row.checkpointing = fields.text("checkpointing");
  job.activations.gradient_checkpointing = false;
  if (row.checkpointing == "full") row.recompute = Recompute::kTorchLayers;
  if (row.checkpointing == "every_other_product") {
    row.recompute = Recompute::kTorchEveryOtherProduct;
  }
  row.tokens_per_s = fields.number("tokens_per_s").value_or(0);
  row.memory_gib = fields.number("memory_gib", Presence::kOptional);
  fields.text("source");
  row.calibrates = fields.boolean("calibrates", false);
  fields.reject_unknown();
  return row;
}

double predicted_tokens_per_s(const PublishedRow& row, const MachineModel& machine) {
  return predict_step(row.job, machine, row.recompute).positions_per_second() /
         static_cast<double>(row.job.device.ranks);
}

// The rate with which the row is predicted as it was measured: throughput only rises with it.
double fitted_rate(const PublishedRow& row, MachineModel machine) {
  double low = 1e12;
  double high = 1e16;
  while (high / low > 1 + 1e-9) {
    machine.flops_per_s = std::sqrt(low * high);
    (predicted_tokens_per_s(row, machine) < row.tokens_per_s ? low : high) = machine.flops_per_s;
  }
  return low;
}

std::string percent(double share, const char* form) {
  char text[16];
  std::snprintf(text, sizeof text, form, 100 * share);
  return text;
}

std::string error_of(double predicted, double published) {
  return percent(predicted / published - 1, "%+.1f %%");
}

int run(OutputFormat format) {
  const YamlNode root = read_yaml_file(SFTBENCH_PUBLISHED);
  Diagnostics diagnostics(SFTBENCH_PUBLISHED);
  Fields file(root, {}, diagnostics);
  file.mapping("sources");
  std::map<std::string, MachineModel> machines = read_machines(file, diagnostics);
  std::vector<PublishedRow> rows;
  for (const YamlNode& node : file.sequence("rows")->items) {
    rows.push_back(read_row(node, diagnostics));
  }
  diagnostics.throw_if_failed();
  for (const PublishedRow& row : rows) {
    MachineModel& machine = machines.at(row.machine);
    if (row.calibrates) machine.flops_per_s = fitted_rate(row, machine);
  }
  Table table{
      {"machine", "TFLOP/s", "model", "GPUs", "batch", "recomputed", "published tok/s",
       "predicted tok/s", "error", "exposed", "published GiB", "predicted GiB", "error GiB"},
      {}};
  for (const PublishedRow& row : rows) {
    const MachineModel& machine = machines.at(row.machine);
    const StepCost cost = predict_step(row.job, machine, row.recompute);
    const double tokens_per_s = predicted_tokens_per_s(row, machine);
    const double gib = cost.memory.total() / kGiB;
    table.rows.push_back({row.machine, std::round(machine.flops_per_s / 1e11) / 10,
                          row.job.model.name, row.job.device.ranks,
                          std::to_string(row.job.batches.per_device_batch_size) + " x " +
                              std::to_string(row.job.data.model_max_length),
                          row.checkpointing, row.tokens_per_s, std::round(tokens_per_s),
                          row.calibrates ? "fitted" : error_of(tokens_per_s, row.tokens_per_s),
                          percent(cost.exposed_s / cost.step_s, "%.1f %%"),
                          row.memory_gib ? Json(*row.memory_gib) : Json(),
                          std::round(10 * gib) / 10,
                          row.memory_gib ? Json(error_of(gib, *row.memory_gib)) : Json()});
  }
  std::cout << render(table, format);
  return 0;
}

}  // namespace
}  // namespace sftbench

int main(int argc, char** argv) {
  const bool has_format = argc == 3 && std::strcmp(argv[1], "--format") == 0;
  try {
    return sftbench::run(sftbench::output_format(has_format ? argv[2] : "table"));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "predict_published: %s\n", error.what());
    return 2;
  }
}
