#include "engine/prepare_data.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/encode_entries.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/data/chat_template.h"
#include "sftbench/data/image_scaling_file.h"
#include "sftbench/data/packing.h"
#include "sftbench/data/parquet_library.h"
#include "sftbench/data/vision_dataset.h"
#include "sftbench/families/model_config.h"

namespace sftbench {
namespace {

// --- images --------------------------------------------------------------------------------------

std::optional<VisionConfig> vision_of(const ModelSource& model) {
  return parse_model_config(model.hf_config).vision;
}

ChatForm chat_form(const ModelSource& model) {
  if (!model.tokenizer_directory.empty()) {
    if (const auto form = chat_form_of(model.tokenizer_directory)) return *form;
  }
  const Json text = model.hf_config.value("text_config", Json::object());
  return text.value("model_type", Json()) == "granite" ? ChatForm::kGraniteVision
                                                       : ChatForm::kLlavaMistral;
}

// Sets what the processor's file says of tiles.
ImageScaling image_scaling(const ModelSource& model, VisionConfig& vision) {
  if (!model.tokenizer_directory.empty()) {
    if (const auto scaling = read_image_scaling(model.tokenizer_directory, vision)) return *scaling;
  }
  return default_scaling(vision);
}

// The placeholder of images. InputError where the files of a model do not agree on it.
void add_placeholder(Tokenizer& tokenizer, const ModelSource& model, const VisionConfig& vision) {
  const std::optional<int32_t> id = tokenizer.token_id(kImagePlaceholder);
  if (!id) {
    tokenizer.add_special_token(kImagePlaceholder);
  } else if (*id != vision.image_token) {
    throw InputError(model.tokenizer_directory + ": the token " + kImagePlaceholder + " has id " +
                     std::to_string(*id) + ", and the placeholder's of config.json is " +
                     std::to_string(vision.image_token) + "; expected the same");
  }
}

void require_vision_fits(const TrainingJob& job, const std::optional<VisionConfig>& vision,
                         Padding padding) {
  if (!vision) {
    throw RunError(ReasonCode::kUnsupported, "model_name " + job.model.name +
                                                 " reads no images, and the dataset " +
                                                 job.data.dataset_id +
                                                 " has some; granite-vision-3.2-2b and "
                                                 "llava-v1.6-mistral-7b read them");
  }
  if (row_of(padding).one_row) {
    throw RunError(ReasonCode::kUnsupported,
                   std::string("padding ") + name_of(padding) +
                       ": entries with images stand one in a row; longest or max_length works");
  }
}

VisionDatasetOptions dataset_options(const TrainingJob& job, const VisionConfig& vision) {
  VisionDatasetOptions options = {job.data.model_max_length, vision};
  if (vision.connector == VisionConnector::kSquares) {
    options.chat_template =
        std::make_shared<const jinja::Template>(smolvlm_template(job.model.tokenizer_directory));
  } else {
    options.form = chat_form(job.model);
  }
  return options;
}

TrainingData prepare_vision_data(const TrainingJob& job, const Tokenizer& tokenizer, int threads,
                                 int64_t rank, WorkCount& work, Padding padding) {
  std::optional<VisionConfig> vision = vision_of(job.model);
  require_vision_fits(job, vision, padding);
  const ImageScaling scaling = image_scaling(job.model, *vision);
  const std::unique_ptr<ParquetLibrary> parquet = load_parquet_library();
  const auto dataset = std::make_shared<VisionDataset>(
      parquet->read_chats(job.data.path, job.data.text_field, job.data.image_field), tokenizer,
      dataset_options(job, *vision));
  StepPlan plan = plan_steps(job, dataset->size());
  try {
    encode_entries(*dataset, units_to_encode(job, plan, rank), job.data,
                   job.model.tokenizer_directory, threads, work);
  } catch (const InputError& error) {
    throw RunError(ReasonCode::kData, error.what());
  }
  return {dataset, std::move(plan), {}, padding, pad_id_of(tokenizer), dataset, scaling};
}

}  // namespace

Tokenizer own_tokenizer(const ModelSource& model) {
  return model.tokenizer_directory.empty() ? Tokenizer::builtin()
                                           : Tokenizer::from_directory(model.tokenizer_directory);
}

Tokenizer prepare_tokenizer(const ModelSource& model) {
  Tokenizer tokenizer = own_tokenizer(model);
  complete_special_tokens(tokenizer);
  if (const auto vision = vision_of(model)) add_placeholder(tokenizer, model, *vision);
  return tokenizer;
}

std::string tokenizer_origin(const ModelSource& model) {
  return model.tokenizer_directory.empty() ? "builtin" : model.tokenizer_directory;
}

namespace {

// All ranks find the same step.
void put_worst_batch_first(TrainingData& data) {
  const auto positions = [&data](const std::vector<int64_t>& units) {
    const std::vector<int64_t> entries = unpacked(units, data.packs);
    int64_t total = 0, longest = 1;
    for (const int64_t entry : entries) {
      const int64_t length = data.dataset->length(entry);
      total += length;
      longest = std::max(longest, length);
    }
    return row_of(data.padding).one_row ? total : std::ssize(entries) * longest;
  };
  data.plan.bring_first(data.plan.step_of_largest(positions));
}

PreparedData prepare_any(const TrainingJob& job, const Tokenizer& tokenizer, int threads,
                         int64_t rank, WorkCount& work) {
  if (!job.data.image_field.empty()) {
    if (job.evaluation.evaluates()) {
      throw RunError(ReasonCode::kUnsupported,
                     "evaluation on images: this version evaluates on texts; eval_strategy no "
                     "trains on images");
    }
    return {prepare_vision_data(job, tokenizer, threads, rank, work, job.data.padding), {}};
  }
  return TextPreparation(job, tokenizer, threads, rank, work).prepare();
}

}  // namespace

PreparedData prepare_data(const TrainingJob& job, const Tokenizer& tokenizer, int threads,
                          int64_t rank, WorkCount& work) {
  PreparedData data = prepare_any(job, tokenizer, threads, rank, work);
  if (job.data.worst_batch_first) put_worst_batch_first(data.training);
  return data;
}

}  // namespace sftbench
