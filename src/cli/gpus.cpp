#include "cli/gpus.h"

#include <array>
#include <memory>
#include <string>

#include "cli/catalog_table.h"
#include "cli/definition_list.h"
#include "cli/price_options.h"
#include "cli/record.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;
constexpr std::array<const char*, 5> kDtypes = {"float32", "tf32", "bfloat16", "float16", "fp8"};

Json memory_gib(const GpuFacts& gpu) {
  return gpu.memory_bytes >> 30;
}

Table overview(const GpuCatalog& catalog, const PriceBook& prices) {
  Table table{{"gpu", "architecture", "memory_GiB", "GB/s", prices.currency + "/h"}, {}};
  for (const char* dtype : kDtypes) table.columns.push_back(std::string(dtype) + "_TFLOP/s");
  for (const GpuFacts& gpu : catalog.gpus()) {
    const Price* price = prices.find(gpu.name);
    std::vector<Json> row = {gpu.name, gpu.architecture, memory_gib(gpu),
                             gpu.memory_bandwidth_bytes_per_s / kGiga,
                             price != nullptr ? Json(short_figure(price->per_hour)) : Json()};
    for (const char* dtype : kDtypes) {
      const std::optional<double> peak = gpu.peak_flops(dtype);
      row.push_back(peak ? Json(*peak / kTera) : Json(nullptr));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Json as_json(const GpuFacts& gpu) {
  return {{"name", gpu.name},
          {"aliases", gpu.aliases},
          {"architecture", gpu.architecture},
          {"compute_capability", gpu.compute_capability},
          {"peak_flops_per_s", gpu.peak_flops_per_s},
          {"memory_bandwidth_bytes_per_s", gpu.memory_bandwidth_bytes_per_s},
          {"memory_bytes", gpu.memory_bytes},
          {"usable_memory_bytes", gpu.memory_of_programs()},
          {"board_power_watts", gpu.board_power_watts ? Json(*gpu.board_power_watts) : Json()},
          {"source", gpu.source},
          {"note", gpu.note},
          {"obstacle", gpu.obstacle()}};
}

std::string in_full(const GpuFacts& gpu) {
  Definitions facts = {
      {"architecture", gpu.architecture + ", compute capability " + gpu.compute_capability}};
  if (!gpu.obstacle().empty()) facts.emplace_back("trains", "not yet: " + gpu.obstacle());
  if (!gpu.aliases.empty()) facts.emplace_back("also named", join(gpu.aliases));
  facts.emplace_back("memory", cell_text(memory_gib(gpu)) + " GiB");
  if (gpu.usable_memory_bytes) {
    const double gib = static_cast<double>(*gpu.usable_memory_bytes) / (1 << 30);
    facts.emplace_back("memory of programs", cell_text(gib) + " GiB");
  }
  facts.emplace_back("memory bandwidth",
                     cell_text(gpu.memory_bandwidth_bytes_per_s / kGiga) + " GB/s");
  if (gpu.board_power_watts)
    facts.emplace_back("board power", cell_text(*gpu.board_power_watts) + " W at most");
  for (const char* dtype : kDtypes) {
    if (const std::optional<double> peak = gpu.peak_flops(dtype)) {
      facts.emplace_back(std::string("peak ") + dtype,
                         cell_text(*peak / kTera) + " TFLOP/s, dense");
    }
  }
  facts.emplace_back("source", gpu.source);
  if (!gpu.note.empty()) facts.emplace_back("note", gpu.note);
  return gpu.name + "\n" + definition_list(facts);
}

void print_gpus(const CatalogTableOptions& options) {
  const OutputFormat format = output_format(options.format);
  const GpuCatalog& catalog = Catalog::shipped().gpus;
  const GpuFacts* gpu = options.word.empty() ? nullptr : catalog.find(options.word);
  if (gpu != nullptr) return print_record(in_full(*gpu), as_json(*gpu), format);
  Table table = rows_with(options.word, overview(catalog, read_price_book({})));
  if (table.rows.empty()) {
    throw InputError({{{},
                       0,
                       {},
                       "unknown GPU '" + options.word + "'",
                       "a name, or part of one, that `sftbench gpus` lists",
                       nearest_spelling(options.word, catalog.names())}});
  }
  sort_rows(options.sort, table);
  print_table(table, format);
}

}  // namespace

void add_gpus_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("gpus", "the GPU products that are known, or one in full");
  const auto options = std::make_shared<CatalogTableOptions>();
  add_catalog_table_options(*command, "NAME", "GPU to show in full", *options);
  command->footer(R"(
Prices are those of the cheapest offer that is kept (config/prices.yaml).

Examples:
  sftbench gpus
  sftbench gpus hopper --sort memory_GiB
  sftbench gpus NVIDIA-H100-80GB-HBM3)");
  command->callback([options, &exit_code] {
    print_gpus(*options);
    exit_code = 0;
  });
}

}  // namespace sftbench
