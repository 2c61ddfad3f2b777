#include "sftbench/catalog/prices.h"

#include <algorithm>
#include <cmath>
#include <tuple>

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
  price.gpus = fields.integer("gpus", Presence::kOptional).value_or(1);
  if (price.gpus < 1) {
    diagnostics.error(node, fields.path("gpus"), "found " + std::to_string(price.gpus),
                      "how many GPUs the instance has, at least 1");
    price.gpus = 1;
  }
  price.per_hour = fields.number("per_hour").value_or(0) / static_cast<double>(price.gpus);
  if (!(price.per_hour > 0) || !std::isfinite(price.per_hour)) {
    diagnostics.error(node, fields.path("per_hour"), "no price", "a number above 0");
  }
  price.provider = fields.text("provider", Presence::kOptional);
  price.instance = fields.text("instance", Presence::kOptional);
  price.kind = fields.text("kind", Presence::kOptional);
  // What may be taken away counts behind what is kept, so that a word of another spelling is not
  // taken for either.
  static const std::vector<std::string> kKinds = {"on_demand", "reserved", "spot", "marketplace"};
  if (!price.kind.empty() && std::find(kKinds.begin(), kKinds.end(), price.kind) == kKinds.end()) {
    diagnostics.error(node, fields.path("kind"), "unknown kind '" + price.kind + "'",
                      "one of " + join(kKinds), nearest_spelling(price.kind, kKinds));
  }
  price.region = fields.text("region", Presence::kOptional);
  if (const YamlNode* date = fields.any("date", Presence::kOptional)) price.date = date->text;
  price.mark = fields.text("mark", Presence::kOptional);
  price.source = fields.text("source", Presence::kOptional);
  fields.reject_unknown();
  return price;
}

auto identity(const Price& price) {
  return std::tie(price.gpu, price.provider, price.instance, price.gpus, price.region, price.kind);
}

bool counts_before(const Price& price, const Price& other) {
  if (price.is_kept() != other.is_kept()) return price.is_kept();
  return price.per_hour < other.per_hour;
}

}  // namespace

const Price* PriceBook::find(const std::string& gpu) const {
  const auto found = prices.find(gpu);
  return found == prices.end() ? nullptr : &found->second;
}

std::optional<Rent> PriceBook::rent(const std::string& gpu, int64_t gpus) const {
  const Price* cheapest = find(gpu);
  if (cheapest == nullptr) return std::nullopt;
  std::optional<Rent> best;
  for (const Price& offer : offers) {
    if (offer.gpu != gpu || offer.is_kept() != cheapest->is_kept()) continue;
    const int64_t rented = (gpus + offer.gpus - 1) / offer.gpus * offer.gpus;
    const double per_hour = static_cast<double>(rented) * offer.per_hour;
    if (!best || per_hour < best->per_hour) best = Rent{offer, rented, per_hour};
  }
  return best;
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
      const bool again =
          std::any_of(book.offers.begin(), book.offers.end(),
                      [&price](const Price& other) { return identity(other) == identity(price); });
      if (again) {
        diagnostics.error(list->items[i], place + ".gpu", price.gpu + " has two prices",
                          "one for each provider, instance, region and kind");
      }
      const auto [known, first] = book.prices.emplace(price.gpu, price);
      if (!first && counts_before(price, known->second)) known->second = price;
      book.offers.push_back(std::move(price));
    }
  }
  fields.reject_unknown();
  diagnostics.throw_if_failed();
  return book;
}

}  // namespace sftbench
