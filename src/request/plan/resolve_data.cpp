#include "plan/resolve_data.h"

#include <algorithm>
#include <filesystem>

#include "plan/mixture.h"
#include "plan/model_source.h"
#include "plan/own_data.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/text.h"
#include "sftbench/huggingface/cache.h"
#include "sftbench/huggingface/datasets.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

class DataResolver : RequestReader {
 public:
  explicit DataResolver(const RequestReader& request) : RequestReader(request) {}

  DataSource data() {
    DataSource source;
    source.dataset_id = text("dataset_id");
    source.response_template = unescaped_text(argument_text("response_template"));
    source.model_max_length = integer("model_max_length");
    source.most_entries = argument("max_train_samples").get<int64_t>();
    source.padding = options_.padding;
    source.worst_batch_first = reorders(options_);
    if (const std::string field = text("dataset_text_field"); !field.empty())
      source.text_field = field;
    source.pretokenized = argument("pretokenized").get<bool>();
    source.entry_template = unescaped_text(argument_text("data_formatter_template"));
    source.conversation_field = argument_text("conversation_column");
    source.mask = named<ConversationMask>(argument_text("conversation_mask"));
    source.input_field = argument_text("input_column_name");
    source.output_field = argument_text("output_column_name");
    source.sampling_seed = argument("sampling_seed").get<uint64_t>();
    if (has_images()) source.image_field = text("dataset_image_field");
    if (const std::string own = argument_text("training_data_path"); !own.empty()) {
      return own_data(std::move(source), own);
    }
    if (const std::string mixture = argument_text("data_mixture"); mixture != "{}") {
      return mixed_data(std::move(source), parse_json(mixture, "data_mixture"));
    }
    const fs::path directory = dataset_directory();
    const bool images = is_vision_dataset(source.dataset_id);
    const fs::path file = directory / (source.dataset_id + (images ? ".parquet" : ".jsonl"));
    source.path = file.string();
    generates_ = !settings_.data_directory && !simulated();
    std::error_code error;
    if (settings_.data_directory && !fs::exists(file, error)) {
      throw RunError(ReasonCode::kData,
                     "the dataset " + source.dataset_id +
                         " is not in data_directory; make it: sftbench dataset " +
                         (images ? "vision " : "text ") + source.dataset_id + " -o " + source.path,
                     "no such file: " + source.path);
    }
    source.token_cache_directory = token_cache(directory);
    return source;
  }

  EvaluationPlan evaluation(const DataSource& data) {
    EvaluationPlan plan;
    if (const std::string file = argument_text("validation_data_path"); !file.empty()) {
      plan.path = own_file("validation_data_path", file);
    }
    plan.split = number("eval_split");
    for (const Json& set : data.mixture.value("sets", Json::array())) {
      plan.split = std::max(plan.split, set.value("held_out", 0.0));
    }
    plan.strategy = named<IntervalStrategy>(argument_text("eval_strategy"));
    plan.steps = argument("eval_steps").get<int64_t>();
    plan.steps_ratio = argument("eval_steps_ratio").get<double>();
    plan.per_device_batch_size = argument("per_device_eval_batch_size").get<int64_t>();
    plan.on_start = argument("eval_on_start").get<bool>();
    return plan;
  }

  bool generates() const { return generates_; }

 private:
  // Absolute.
  std::string own_file(const char* property, const std::string& given) const {
    const bool dataset = is_dataset_name(given);
    const fs::path cache = hub_cache_directory(options_.hf_home);
    try {
      if (const auto found = find_data(cache, given)) return found->path;
    } catch (const InputError& error) {
      throw RunError(ReasonCode::kData, error.what());
    }
    std::string looked_for = fs::absolute(given).lexically_normal().string();
    if (simulated()) return dataset ? given : looked_for;
    if (dataset && options_.predicts) return given;
    const std::string what = std::string(property) + " " + given;
    if (!dataset) {
      throw RunError(ReasonCode::kData, what + " is neither a file nor a folder",
                     "no such file: " + looked_for);
    }
    throw RunError(
        ReasonCode::kData,
        what + " is no file or folder, and the dataset of the hub is not at hand; fetch it: " +
            dataset_fetch_command(given, options_.hf_home) +
            (settings_.fetch_weights ? "" : ", or with --fetch"),
        "looked in " + cache.string());
  }

  fs::path dataset_directory() const {
    return settings_.data_directory ? fs::path(*settings_.data_directory)
                                    : user_data_directory() / "datasets";
  }

  // An absolute one stands for itself.
  std::string token_cache(const fs::path& directory) const {
    const auto& cache = settings_.num_tokens_cache_directory;
    return cache ? (directory / *cache).string() : std::string();
  }

  DataSource own_data(DataSource source, const std::string& file) {
    source.dataset_id = own_dataset_name(file);
    source.path = own_file("training_data_path", file);
    if (has_images() && fs::path(source.path).extension() != ".parquet") {
      throw RunError(ReasonCode::kUnsupported,
                     "training_data_path " + file +
                         ": images are read from one Parquet file; without dataset_image_field "
                         "the entries are texts");
    }
    source.token_cache_directory = token_cache(dataset_directory());  // not among the user's files
    return source;
  }

  // Each set says what its entries are; what it leaves open is as for one set.
  DataSource mixed_data(DataSource source, const Json& mixture) {
    source.token_cache_directory = token_cache(dataset_directory());
    Json sets = Json::array();
    std::vector<std::string> names;
    for (const Json& given : mixture_sets(mixture)) {
      Json set = Json::object();
      for (const auto& [property, value] : given.items()) {
        set[mixture_field(property)] = property == "data_formatter_template"
                                           ? Json(unescaped_text(value.get<std::string>()))
                                           : value;
      }
      const std::string file = given.at("training_data_path").get<std::string>();
      set["path"] = own_file("training_data_path", file);
      const double split = number("eval_split");
      if (!set.contains("held_out")) set["held_out"] = split < 1 ? split : 0;
      names.push_back(own_dataset_name(file));
      if (set.contains("conversation_field")) source.conversation_field = set["conversation_field"];
      if (number("eval_split") >= 1 && set.value("share", 0.0) > 0) {
        throw RunError(ReasonCode::kUnsupported,
                       "eval_split counts entries of all sets, and sets with shares are mixed; a "
                       "share below 1 works");
      }
      sets.push_back(std::move(set));
    }
    source.dataset_id = join(names, "+");
    source.path = sets.front().at("path");
    source.mixture = {{"sets", std::move(sets)},
                      {"stopping_strategy", argument_text("sampling_stopping_strategy")}};
    return source;
  }

  bool generates_ = false;
};

}  // namespace

std::vector<std::string> absent_datasets(const RequestReader& request) {
  std::vector<std::string> given = {request.argument_text("training_data_path"),
                                    request.argument_text("validation_data_path")};
  const Json mixture =
      Json::parse(request.argument_text("data_mixture"), nullptr, /*allow_exceptions=*/false);
  if (mixture.is_object() && mixture.value("datasets", Json()).is_array()) {
    for (const Json& set : mixture["datasets"]) {
      const auto path = set.is_object() ? set.find("training_data_path") : set.end();
      if (path != set.end() && path->is_string()) given.push_back(path->get<std::string>());
    }
  }
  std::vector<std::string> absent;
  for (const std::string& name : given) {
    if (!is_dataset_name(name)) continue;
    try {
      if (!find_data(hub_cache_directory(request.hf_home()), name)) absent.push_back(name);
    } catch (const InputError&) {  // refused where it is read
    }
  }
  return absent;
}

ResolvedData resolve_data(const RequestReader& request) {
  DataResolver resolver(request);
  ResolvedData data;
  data.source = resolver.data();
  data.evaluation = resolver.evaluation(data.source);
  data.generates = resolver.generates();
  return data;
}

}  // namespace sftbench
