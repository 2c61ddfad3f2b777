#include "sftbench/predict/machine_catalog.h"

#include <algorithm>
#include <map>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/text.h"
#include "sftbench/base/yaml.h"
#include "sftbench/catalog/fields.h"
#include "sftbench/catalog/shipped_gpus.h"
#include "sftbench/variants/precision.h"

namespace sftbench {
namespace {

constexpr double kMicro = 1e-6;
constexpr double kGiga = 1e9;

// Of a slot of 16 lanes, each way: four fifths of what its generation of PCI Express transfers,
// which is what copies of pinned memory reach. Boards of a host that they share have less.
double host_bytes_per_s(const std::string& architecture) {
  static const std::map<std::string, double> kGigaPerSecond = {
      {"Pascal", 12.6},       {"Volta", 12.6},  {"Turing", 12.6}, {"Ampere", 25.2},
      {"Ada Lovelace", 25.2}, {"CDNA 2", 25.2}, {"Hopper", 50.4}, {"Blackwell", 50.4},
      {"CDNA 3", 50.4},       {"CDNA 4", 50.4}};
  const auto found = kGigaPerSecond.find(architecture);
  return found == kGigaPerSecond.end() ? 0 : found->second * kGiga;
}

LinkModel read_link(Fields& machine, const std::string& key, Diagnostics& diagnostics) {
  const YamlNode* node = machine.mapping(key);
  if (node == nullptr) return {};
  Fields fields(*node, machine.path(key), diagnostics);
  const LinkModel link = {fields.number("latency_us").value_or(0) * kMicro,
                          fields.number("gb_per_s").value_or(0) * kGiga,
                          fields.boolean("shared", false)};
  if (link.bytes_per_s <= 0) {
    diagnostics.error(*node, fields.path("gb_per_s"), "no bandwidth", "a number above 0");
  }
  fields.reject_unknown();
  return link;
}

double read_share(Fields& machine, const std::string& key, const YamlNode& node,
                  Diagnostics& diagnostics) {
  const double share = machine.number(key).value_or(0);
  if (share <= 0 || share > 1) {
    diagnostics.error(node, machine.path(key), "found " + std::to_string(share),
                      "a number above 0, at most 1");
  }
  return share;
}

MachineFacts read_machine(const YamlNode& node, const std::string& path, const GpuCatalog& gpus,
                          Diagnostics& diagnostics) {
  Fields fields(node, path, diagnostics);
  MachineFacts machine;
  for (const std::string& name : fields.texts("gpus")) {
    const GpuFacts* gpu = gpus.find(name);
    if (gpu == nullptr) {
      diagnostics.error(node, fields.path("gpus"), "unknown GPU '" + name + "'",
                        "a name of config/gpus.yaml");
    } else {
      machine.gpus.push_back(gpu->name);
    }
  }
  machine.reached = read_share(fields, "reached", node, diagnostics);
  machine.attention = read_share(fields, "attention", node, diagnostics);
  machine.elements = read_share(fields, "elements", node, diagnostics);
  machine.fitted = fields.texts("fitted", Presence::kOptional);
  machine.inside = read_link(fields, "inside", diagnostics);
  machine.between = read_link(fields, "between", diagnostics);
  machine.source = fields.text("source");
  fields.reject_unknown();
  return machine;
}

[[noreturn]] void unknown(const std::string& what, const std::string& expected,
                          const std::string& nearest = {}) {
  throw InputError({{{}, 0, "gpu_model", what, expected, nearest}});
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

const MachineCatalog& MachineCatalog::shipped() {
  static const MachineCatalog kMachines =
      read((resource_directory() / "config" / "machines.yaml").string(), shipped_gpus());
  return kMachines;
}

MachineCatalog MachineCatalog::read(const std::string& path, const GpuCatalog& gpus) {
  const YamlNode root = read_yaml_file(path);
  Diagnostics diagnostics(path);
  MachineCatalog catalog;
  Fields fields(root, {}, diagnostics);
  if (const YamlNode* list = fields.sequence("machines")) {
    for (size_t i = 0; i < list->items.size(); ++i) {
      catalog.machines_.push_back(
          read_machine(list->items[i], "machines[" + std::to_string(i) + "]", gpus, diagnostics));
    }
  }
  fields.reject_unknown();
  diagnostics.throw_if_failed();
  return catalog;
}

const MachineFacts* MachineCatalog::find(const std::string& gpu) const {
  for (const MachineFacts& machine : machines_) {
    if (std::find(machine.gpus.begin(), machine.gpus.end(), gpu) != machine.gpus.end()) {
      return &machine;
    }
  }
  return nullptr;
}

MachineModel machine_of(const std::string& gpu_model, const std::string& dtype,
                        const GpuCatalog& gpus, const MachineCatalog& machines) {
  const GpuFacts* gpu = gpus.find(gpu_model);
  if (gpu == nullptr) {
    unknown("unknown GPU '" + gpu_model + "'",
            "a name of `sftbench gpus`, or what a card has: --flops-per-s, --memory-gb-per-s and "
            "--memory-gib",
            nearest_spelling(gpu_model, gpus.names()));
  }
  const MachineFacts* facts = machines.find(gpu->name);
  if (facts == nullptr) {
    unknown(gpu->name + " is not in config/machines.yaml", "a GPU that is");
  }
  const std::optional<double> peak = gpu->peak_flops(dtype);
  if (!peak) {
    throw RunError(ReasonCode::kUnsupported,
                   gpu->name + " has no peak for " + dtype + "; another torch_dtype works");
  }
  // What float8 does not multiply is computed as under bfloat16.
  const bool is_fp8 = dtype == row_of(Autocast::kFp8).computes_in;
  const double rest =
      is_fp8 ? gpu->peak_flops(row_of(Autocast::kBf16).computes_in).value_or(*peak) : *peak;
  MachineModel machine;
  machine.flops_per_s = rest * facts->reached;
  if (is_fp8) machine.fp8_flops_per_s = *peak * facts->reached;
  machine.memory_bytes_per_s = gpu->memory_bandwidth_bytes_per_s;
  machine.memory_bytes = static_cast<double>(gpu->memory_of_programs());
  machine.inside = facts->inside;
  machine.between = facts->between;
  machine.attention_flops_per_s = rest * facts->attention;
  machine.element_bytes_per_s = gpu->memory_bandwidth_bytes_per_s * facts->elements;
  machine.multiprocessors = gpu->multiprocessors;
  machine.host_bytes_per_s = host_bytes_per_s(gpu->architecture);
  return machine;
}

MachineModel unlisted_machine(double flops_per_s, double memory_bytes_per_s, double memory_bytes,
                              const MachineCatalog& machines) {
  std::vector<double> attention, elements;
  for (const MachineFacts& facts : machines.all()) {
    attention.push_back(facts.attention / facts.reached);
    elements.push_back(facts.elements);
  }
  MachineModel machine;
  machine.flops_per_s = flops_per_s;
  machine.memory_bytes_per_s = memory_bytes_per_s;
  machine.memory_bytes = memory_bytes;
  machine.attention_flops_per_s = flops_per_s * median(std::move(attention));
  machine.element_bytes_per_s = memory_bytes_per_s * median(std::move(elements));
  return machine;
}

}  // namespace sftbench
