#include "sftbench/catalog/models.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "sftbench/base/text.h"
#include "sftbench/catalog/fields.h"

namespace sftbench {
namespace {

std::optional<Confidence> confidence_from(const std::string& text) {
  for (Confidence c : {Confidence::kRead, Confidence::kRecalled, Confidence::kInferred,
                       Confidence::kUnpublished}) {
    if (text == to_string(c)) return c;
  }
  return std::nullopt;
}

// "6738415616" is exact; "3.4B" is 3.4e9 give or take half of its last digit.
std::optional<PublishedCount> count_from(const std::string& text) {
  PublishedCount count;
  count.text = text;
  char* end = nullptr;
  count.parameters = std::strtod(text.c_str(), &end);
  const std::string suffix = end;
  if (end == text.c_str() || (!suffix.empty() && suffix != "B")) return std::nullopt;
  if (suffix == "B") {
    const size_t point = text.find('.');
    const size_t decimals = point == std::string::npos ? 0 : text.size() - 2 - point;
    count.parameters *= 1e9;
    count.tolerance = 0.5e9 * std::pow(10.0, -static_cast<double>(decimals));
  }
  return count;
}

// Reads one file: the table of sources first, then the models that refer to it.
class ModelReader {
 public:
  explicit ModelReader(const std::string& path) : diagnostics_(path) {}

  std::vector<ModelFacts> read(const YamlNode& root) {
    Fields fields(root, {}, diagnostics_);
    fields.any("families", Presence::kOptional);
    if (const YamlNode* sources = fields.mapping("sources")) {
      for (const auto& [key, node] : sources->members) sources_[key] = node.text;
    }
    std::vector<ModelFacts> models;
    if (const YamlNode* list = fields.mapping("models")) {
      for (const auto& [name, node] : list->members) models.push_back(model(name, node));
    }
    fields.reject_unknown();
    diagnostics_.throw_if_failed();
    return models;
  }

 private:
  ModelFacts model(const std::string& name, const YamlNode& node) {
    const std::string path = "models." + name;
    Fields fields(node, path, diagnostics_);
    ModelFacts facts;
    facts.name = name;
    facts.in_entity_space = fields.boolean("in_entity_space", true);
    if (const YamlNode* weights = fields.mapping("weights")) {
      Fields formats(*weights, path + ".weights", diagnostics_);
      for (const char* format : {"Vanilla", "GPTQ-Quantized"}) {
        std::vector<std::string> places = formats.texts(format, Presence::kOptional);
        if (!places.empty()) facts.weights[format] = std::move(places);
      }
      formats.reject_unknown();
    }
    facts.lora_targets = fields.texts("lora_targets", Presence::kOptional);
    facts.gptq_lora_targets = fields.texts("gptq_lora_targets", Presence::kOptional);
    architecture(facts, fields);
    facts.same_shapes = fields.texts("same_shapes", Presence::kOptional);
    for (const std::string& key : fields.texts("sources"))
      facts.sources.push_back(source(key, node, path));
    facts.note = fields.text("note", Presence::kOptional);
    facts.published = published(fields, path);
    fields.reject_unknown();
    return facts;
  }

  void architecture(ModelFacts& facts, Fields& fields) {
    facts.family = fields.text("family", Presence::kOptional);
    facts.confidence = confidence(fields.text("facts"), fields.path("facts"));
    for (const char* level : {"recalled", "inferred"}) {
      for (const std::string& key : fields.texts(level, Presence::kOptional)) {
        facts.less_sure[key] = *confidence_from(level);
      }
    }
    const bool unpublished = facts.confidence == Confidence::kUnpublished;
    const YamlNode* config =
        fields.mapping("config", unpublished ? Presence::kOptional : Presence::kRequired);
    if (config == nullptr) return;
    facts.hf_config = to_json(*config);
    facts.family = facts.hf_config.value("model_type", std::string());
    for (const auto& [key, level] : facts.less_sure) {
      if (!facts.hf_config.contains(key)) {
        diagnostics_.error(*config, fields.path(std::string(to_string(level))),
                           "'" + key + "' is no key of config");
      }
    }
  }

  std::optional<PublishedCount> published(Fields& fields, const std::string& path) {
    const YamlNode* node = fields.mapping("published", Presence::kOptional);
    if (node == nullptr) return std::nullopt;
    Fields members(*node, path + ".published", diagnostics_);
    std::optional<PublishedCount> count = count_from(members.text("parameters"));
    const Confidence mark = confidence(members.text("mark"), path + ".published.mark");
    const std::string origin = source(members.text("source"), *node, path + ".published");
    members.reject_unknown();
    if (!count) {
      diagnostics_.error(*node, path + ".published.parameters", "no count",
                         "an integer or a figure like 3.4B");
      return std::nullopt;
    }
    count->confidence = mark;
    count->source = origin;
    return count;
  }

  Confidence confidence(const std::string& text, const std::string& path) {
    if (const auto level = confidence_from(text)) return *level;
    diagnostics_.error(0, path, "found '" + text + "'",
                       "one of read, recalled, inferred, unpublished");
    return Confidence::kRecalled;
  }

  std::string source(const std::string& key, const YamlNode& node, const std::string& path) {
    const auto found = sources_.find(key);
    if (found != sources_.end()) return found->second;
    diagnostics_.error(node, path, "unknown source '" + key + "'", "a key of the table `sources`");
    return {};
  }

  Diagnostics diagnostics_;
  std::map<std::string, std::string> sources_;
};

// "llama27b" of "meta-llama/Llama-2-7b-chat-hf" and "unsloth/llama-2-7b-bnb-4bit".
std::string spelled_alike(std::string_view name) {
  name.remove_prefix(name.rfind('/') + 1);  // npos + 1 is 0
  std::string letters;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) letters += static_cast<char>(std::tolower(byte));
  }
  if (letters.starts_with("metallama")) letters.erase(0, 4);
  for (bool shortened = true; shortened;) {
    shortened = false;
    for (const std::string_view ending :
         {"bnb4bit", "unsloth", "hf", "instruct", "chat", "base", "it"}) {
      if (letters.size() <= ending.size() || !letters.ends_with(ending)) continue;
      letters.resize(letters.size() - ending.size());
      shortened = true;
    }
  }
  return letters;
}

// Of hub ids; a path says where files are, and not what they are called.
bool has_spelling(const std::vector<std::string>& places, const std::string& letters) {
  return std::any_of(places.begin(), places.end(), [&letters](const std::string& place) {
    return !place.starts_with('/') && spelled_alike(place) == letters;
  });
}

bool is_spelling_of(const ModelFacts& model, const std::string& letters) {
  const auto places = model.weights.find("Vanilla");
  return spelled_alike(model.name) == letters ||
         (places != model.weights.end() && has_spelling(places->second, letters));
}

// Nothing that long is a name of a model.
constexpr size_t kLongestName = 256;

}  // namespace

std::string_view to_string(Confidence confidence) {
  switch (confidence) {
    case Confidence::kRead:
      return "read";
    case Confidence::kRecalled:
      return "recalled";
    case Confidence::kInferred:
      return "inferred";
    case Confidence::kUnpublished:
      return "unpublished";
  }
  return "unpublished";
}

std::optional<int64_t> ModelFacts::experts() const {
  if (hf_config.is_null()) return std::nullopt;
  return hf_config.value("num_local_experts", hf_config.value("num_experts", int64_t{0}));
}

ModelCatalog ModelCatalog::read(const std::string& path) {
  ModelCatalog catalog;
  catalog.models_ = ModelReader(path).read(read_yaml_file(path));
  return catalog;
}

const ModelFacts* ModelCatalog::find(std::string_view name) const {
  for (const ModelFacts& model : models_) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

std::vector<std::string> ModelCatalog::names() const {
  std::vector<std::string> names;
  for (const ModelFacts& model : models_) names.push_back(model.name);
  return names;
}

NearModel ModelCatalog::near(std::string_view written) const {
  if (written.size() > kLongestName) return {};
  const std::string letters = spelled_alike(written);
  if (letters.empty()) return {};
  for (const ModelFacts& model : models_) {
    if (is_spelling_of(model, letters)) return {.name = model.name, .same_one = true};
  }
  for (const ModelFacts& model : models_) {
    if (has_spelling(model.same_shapes, letters)) return {.name = model.name, .same_shapes = true};
  }
  return {.name = nearest_spelling(written, names())};
}

}  // namespace sftbench
