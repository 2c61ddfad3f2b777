#include "sftbench/huggingface/model_list.h"

#include <algorithm>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/fields.h"
#include "sftbench/huggingface/cache.h"

namespace sftbench {
namespace {

// As the documents spell them (the last one with a slip that a copied file may have).
const std::vector<std::string> kWeightTypes = {"Vanilla", "GPTQ-Quantized", "QPTQ-Quantized"};

constexpr size_t kLongestPart = 96;

bool made_of(std::string_view text, std::string_view more) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           more.find(c) != std::string_view::npos;
  });
}

bool is_folder(const std::string& place) {
  return !place.empty() && (place[0] == '/' || place[0] == '.' || place[0] == '~');
}

Diagnostic diagnostic(std::string key, std::string message, std::string expected,
                      std::string nearest = {}) {
  return {{}, 0, std::move(key), std::move(message), std::move(expected), std::move(nearest)};
}

// Reads ado's form; what it says of one model, by weight type.
class ListReader {
 public:
  ListReader(const std::string& path, std::vector<std::string>& notes)
      : diagnostics_(path), notes_(notes) {}

  std::vector<FetchRequest> read(const YamlNode& root) {
    if (!root.is_mapping() || root.members.empty()) {
      diagnostics_.error(
          root, {}, "found " + describe(root),
          "models by name, like `smollm2-135m: {Vanilla: HuggingFaceTB/SmolLM2-135M}`");
    }
    for (const auto& [name, node] : root.members) {
      if (node.is_mapping()) {
        read_types(name, node);
      } else {
        add(name, name, node);
      }
    }
    diagnostics_.throw_if_failed();
    return std::move(requests_);
  }

 private:
  void read_types(const std::string& name, const YamlNode& node) {
    diagnostics_.unknown_keys(node, name, kWeightTypes);
    for (const auto& [type, place] : node.members) {
      if (std::count(kWeightTypes.begin(), kWeightTypes.end(), type) == 0) continue;
      add(type == "Vanilla" ? name : name + " (" + type + ")", name + "." + type, place);
    }
  }

  void add(const std::string& name, const std::string& key, const YamlNode& node) {
    if (!node.is_scalar() || node.is_null()) {
      diagnostics_.error(node, key, "found " + describe(node), "a hub id like ORG/NAME");
      return;
    }
    if (is_folder(node.text)) {
      notes_.push_back(key + " is the folder " + node.text + ": nothing to fetch");
      return;
    }
    if (const std::string problem = hub_name_problem(node.text); !problem.empty()) {
      diagnostics_.error(node, key, problem, "a hub id like ORG/NAME");
      return;
    }
    const HubName hub = hub_name(node.text);
    requests_.push_back({name, hub.id, hub.revision});
  }

  Diagnostics diagnostics_;
  std::vector<std::string>& notes_;
  std::vector<FetchRequest> requests_;
};

// Catalog entries list places to look; the first on the hub is where they come from.
std::string first_on_hub(const std::vector<std::string>& places) {
  const auto found = std::find_if(places.begin(), places.end(), [](const std::string& place) {
    return hub_name_problem(place).empty();
  });
  return found == places.end() ? std::string() : *found;
}

std::vector<FetchRequest> from_catalog(const ModelCatalog& catalog,
                                       std::vector<std::string>& notes) {
  std::vector<FetchRequest> requests;
  for (const ModelFacts& model : catalog.models()) {
    for (const auto& [type, places] : model.weights) {
      const std::string name = type == "Vanilla" ? model.name : model.name + " (" + type + ")";
      const std::string id = first_on_hub(places);
      if (id.empty()) {
        notes.push_back(name + " is the folder " + places.front() + ": nothing to fetch");
      } else {
        requests.push_back({name, id, "main"});
      }
    }
  }
  return requests;
}

}  // namespace

std::string hub_name_problem(const std::string& text) {
  const size_t at = text.find('@');
  const std::string id = text.substr(0, at);
  const size_t slash = id.find('/');
  const std::string organization = slash == std::string::npos ? "" : id.substr(0, slash);
  const std::string name = slash == std::string::npos ? id : id.substr(slash + 1);
  const auto is_part = [](const std::string& part) {
    return !part.empty() && part.size() <= kLongestPart && made_of(part, "-._") &&
           part.front() != '.' && part.front() != '-' && part.back() != '.' &&
           part.find("..") == std::string::npos && part.find("--") == std::string::npos;
  };
  if (!is_part(name) || (slash != std::string::npos && !is_part(organization)))
    return "'" + id + "' is no hub id";
  if (at == std::string::npos) return {};
  const std::string revision = text.substr(at + 1);
  const bool leads_away = revision.empty() || revision.front() == '/' || revision.back() == '/' ||
                          revision.find("..") != std::string::npos ||
                          revision.find("//") != std::string::npos || revision.front() == '.' ||
                          revision.find("/.") != std::string::npos;
  if (leads_away || revision.size() > 2 * kLongestPart || !made_of(revision, "-._/+"))
    return "'" + revision + "' is no revision";
  return {};
}

HubName hub_name(const std::string& text) {
  check(hub_name_problem(text).empty(), "a hub id is checked before it is used");
  const size_t at = text.find('@');
  if (at == std::string::npos) return {text, "main"};
  return {text.substr(0, at), text.substr(at + 1)};
}

std::vector<FetchRequest> read_model_list(const std::string& path,
                                          std::vector<std::string>& notes) {
  const YamlNode root = read_yaml_file(path);
  const bool catalog = root.find("models") != nullptr && root.find("sources") != nullptr;
  if (catalog) return from_catalog(ModelCatalog::read(path), notes);
  return ListReader(path, notes).read(root);
}

std::vector<FetchRequest> choose_models(const std::vector<FetchRequest>& listed,
                                        const std::vector<std::string>& names,
                                        const std::string& path) {
  if (names.empty()) return listed;
  std::vector<std::string> known;
  for (const FetchRequest& request : listed) known.push_back(request.name);
  std::vector<FetchRequest> chosen;
  std::vector<Diagnostic> problems;
  for (const std::string& name : names) {
    const size_t before = chosen.size();
    for (const FetchRequest& request : listed) {
      // A name stands for all of its weight types.
      if (request.name == name || request.name.rfind(name + " (", 0) == 0)
        chosen.push_back(request);
    }
    if (chosen.size() > before) continue;
    problems.push_back(diagnostic({}, "model '" + name + "' is not to be fetched by " + path,
                                  "one of " + join(known), nearest_spelling(name, known)));
  }
  if (!problems.empty()) throw InputError(problems);
  return chosen;
}

std::vector<FetchRequest> find_models(const std::vector<std::string>& names,
                                      const ModelCatalog& catalog) {
  std::vector<FetchRequest> requests;
  std::vector<Diagnostic> problems;
  for (const std::string& name : names) {
    const size_t at = name.find('@');
    const ModelFacts* model = catalog.find(name.substr(0, at));
    if (model == nullptr && name.find('/') != std::string::npos && hub_name_problem(name).empty()) {
      const HubName hub = hub_name(name);
      requests.push_back({hub.id, hub.id, hub.revision});
      continue;
    }
    if (model == nullptr) {
      problems.push_back(diagnostic({}, "unknown model '" + name + "'",
                                    "a model of `sftbench models`, or a hub id like ORG/NAME",
                                    nearest_spelling(name, catalog.names())));
      continue;
    }
    const auto vanilla = model->weights.find("Vanilla");
    std::string id = vanilla == model->weights.end() ? "" : first_on_hub(vanilla->second);
    if (id.empty()) {
      problems.push_back(
          diagnostic({},
                     "model '" + model->name + "' is not on a hub; its weights are known only as " +
                         (vanilla == model->weights.end() ? "nothing" : join(vanilla->second)),
                     "its folder under model_map of --config"));
      continue;
    }
    if (at != std::string::npos) id += name.substr(at);
    if (const std::string problem = hub_name_problem(id); !problem.empty()) {
      problems.push_back(diagnostic({}, problem, "NAME@REVISION"));
      continue;
    }
    const HubName hub = hub_name(id);
    requests.push_back({model->name, hub.id, hub.revision});
  }
  if (!problems.empty()) throw InputError(problems);
  return requests;
}

}  // namespace sftbench
