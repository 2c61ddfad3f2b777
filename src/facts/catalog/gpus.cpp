#include "sftbench/catalog/gpus.h"

#include <cctype>
#include <utility>

#include "sftbench/base/file.h"
#include "sftbench/base/yaml.h"
#include "sftbench/catalog/fields.h"
#include "sftbench/catalog/shipped_gpus.h"

namespace sftbench {
namespace {

// "NVIDIA A100-SXM4-80GB" and "nvidia_a100_sxm4_80gb" are one name.
std::string normalized(std::string_view name) {
  std::string letters;
  for (char c : name) {
    if (c != ' ' && c != '-' && c != '_')
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

GpuFacts read_gpu(const YamlNode& node, const std::string& path, Diagnostics& diagnostics) {
  constexpr double kGiga = 1e9;
  constexpr double kTera = 1e12;
  constexpr double kGiB = 1 << 30;
  Fields fields(node, path, diagnostics);
  GpuFacts gpu;
  gpu.name = fields.text("name");
  gpu.aliases = fields.texts("aliases", Presence::kOptional);
  gpu.architecture = fields.text("architecture");
  gpu.compute_capability = fields.text("compute_capability");
  if (const size_t point = gpu.compute_capability.find('.');
      point == 0 || point + 1 >= gpu.compute_capability.size() ||
      gpu.compute_capability.find_first_not_of("0123456789.") != std::string::npos) {
    diagnostics.error(node, fields.path("compute_capability"), "found " + gpu.compute_capability,
                      "a number such as \"9.0\"");
    gpu.compute_capability = "0.0";
  }
  if (const YamlNode* peaks = fields.mapping("peak_tflops")) {
    for (const auto& [dtype, peak] : peaks->members) {
      if (peak.value.is_number()) {
        gpu.peak_flops_per_s[dtype] = peak.value.get<double>() * kTera;
      } else {
        diagnostics.error(peak, path + ".peak_tflops." + dtype, "found " + describe(peak),
                          "a number");
      }
    }
  }
  gpu.memory_bandwidth_bytes_per_s = fields.number("memory_bandwidth_gb_per_s").value_or(0) * kGiga;
  gpu.memory_bytes = static_cast<int64_t>(fields.number("memory_gib").value_or(0)) << 30;
  if (const auto usable = fields.number("usable_memory_gib", Presence::kOptional)) {
    gpu.usable_memory_bytes = static_cast<int64_t>(*usable * kGiB);
    if (*usable <= 0 || *gpu.usable_memory_bytes > gpu.memory_bytes) {
      diagnostics.error(node, fields.path("usable_memory_gib"),
                        "found " + describe(*node.find("usable_memory_gib")),
                        "a number above 0, at most memory_gib");
    }
  }
  gpu.multiprocessors = fields.integer("multiprocessors", Presence::kOptional).value_or(0);
  gpu.board_power_watts = fields.number("board_power_watts", Presence::kOptional);
  gpu.source = fields.text("source");
  gpu.note = fields.text("note", Presence::kOptional);
  fields.reject_unknown();
  return gpu;
}

}  // namespace

std::optional<double> GpuFacts::peak_flops(const std::string& dtype) const {
  const auto found = peak_flops_per_s.find(dtype);
  return found == peak_flops_per_s.end() ? std::nullopt : std::optional(found->second);
}

std::string GpuFacts::obstacle() const {
  constexpr double kLeast = 7.5;
  if (std::stod(compute_capability) >= kLeast) return {};
  return "CUDA 13 of `experiments/setup.sh --cuda` has no code for its compute capability " +
         compute_capability + "; a build with CUDA 12 has (docs/internals/building.md)";
}

GpuCatalog GpuCatalog::read(const std::string& path) {
  const YamlNode root = read_yaml_file(path);
  Diagnostics diagnostics(path);
  GpuCatalog catalog;
  Fields fields(root, {}, diagnostics);
  if (const YamlNode* list = fields.sequence("gpus")) {
    for (size_t i = 0; i < list->items.size(); ++i) {
      GpuFacts gpu = read_gpu(list->items[i], "gpus[" + std::to_string(i) + "]", diagnostics);
      if (catalog.find(gpu.name) != nullptr)
        diagnostics.error(list->items[i], gpu.name, "listed twice");
      catalog.places_.emplace(normalized(gpu.name), i);
      for (const std::string& alias : gpu.aliases) catalog.places_.emplace(normalized(alias), i);
      catalog.gpus_.push_back(std::move(gpu));
    }
  }
  fields.reject_unknown();
  diagnostics.throw_if_failed();
  return catalog;
}

const GpuFacts* GpuCatalog::find(std::string_view name) const {
  const auto found = places_.find(normalized(name));
  return found == places_.end() ? nullptr : &gpus_[found->second];
}

std::string product_name(const std::string& gpu) {
  const GpuFacts* facts = shipped_gpus().find(gpu);
  return facts == nullptr ? gpu : facts->name;
}

std::vector<std::string> GpuCatalog::names() const {
  std::vector<std::string> names;
  for (const GpuFacts& gpu : gpus_) names.push_back(gpu.name);
  return names;
}

const GpuCatalog& shipped_gpus() {
  static const GpuCatalog kGpus =
      GpuCatalog::read((resource_directory() / "config" / "gpus.yaml").string());
  return kGpus;
}

}  // namespace sftbench
