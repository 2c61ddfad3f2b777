#include "sftbench/catalog/prices.h"

#include "sftbench/base/text.h"
#include "sftbench/base/yaml.h"
#include "sftbench/catalog/fields.h"

namespace sftbench {
namespace {

Price read_price(const YamlNode& node, const std::string& path, const GpuCatalog& gpus,
                 Diagnostics& diagnostics) {
  Fields fields(node, path, diagnostics);
  Price price;
  const std::string name = fields.text("gpu");
  const GpuFacts* gpu = gpus.find(name);
  if (gpu == nullptr) {
    diagnostics.error(node, fields.path("gpu"), "unknown GPU '" + name + "'",
                      "a name of config/gpus.yaml", nearest_spelling(name, gpus.names()));
  }
  price.gpu = gpu == nullptr ? name : gpu->name;
  price.per_hour = fields.number("per_hour").value_or(0);
  if (price.per_hour <= 0) {
    diagnostics.error(node, fields.path("per_hour"), "no price", "a number above 0");
  }
  price.kind = fields.text("kind", Presence::kOptional);
  price.region = fields.text("region", Presence::kOptional);
  if (const YamlNode* date = fields.any("date", Presence::kOptional)) price.date = date->text;
  price.mark = fields.text("mark", Presence::kOptional);
  price.source = fields.text("source", Presence::kOptional);
  fields.reject_unknown();
  return price;
}

}  // namespace

const Price* PriceBook::find(const std::string& gpu) const {
  const auto found = prices.find(gpu);
  return found == prices.end() ? nullptr : &found->second;
}

PriceBook PriceBook::read(const std::string& path, const GpuCatalog& gpus) {
  const YamlNode root = read_yaml_file(path);
  Diagnostics diagnostics(path);
  PriceBook book;
  book.file = path;
  Fields fields(root, {}, diagnostics);
  book.currency = fields.text("currency");
  if (const YamlNode* list = fields.sequence("prices")) {
    for (size_t i = 0; i < list->items.size(); ++i) {
      const std::string place = "prices[" + std::to_string(i) + "]";
      Price price = read_price(list->items[i], place, gpus, diagnostics);
      const std::string gpu = price.gpu;
      if (book.prices.emplace(gpu, std::move(price)).second) continue;
      diagnostics.error(list->items[i], place + ".gpu", gpu + " has two prices", "one");
    }
  }
  fields.reject_unknown();
  diagnostics.throw_if_failed();
  return book;
}

}  // namespace sftbench
