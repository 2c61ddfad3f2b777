#include "engine/saved_card.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "sftbench/base/json_text.h"
#include "sftbench/checkpoint/model_card.h"

namespace sftbench {
namespace {

// Of a job's JSON: what shapes the training. Others are about this machine, or stand elsewhere in
// the card or the folder.
constexpr std::array kSections = {"data",     "batches",     "precision", "optimizer", "device",
                                  "parallel", "activations", "kernels",   "evaluation"};
constexpr std::array kLeftOut = {"dataset_id", "path",     "token_cache_directory",
                                 "mixture",    "threads",  "chat_template",
                                 "kind",       "timeout_s"};

std::string loss_text(double loss) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.4f", loss);  // as Trainer's cards have it
  return text.data();
}

std::string title_of(const TrainingJob& job, const std::string& base) {
  if (row_of(job.tuning).adds_adapters) return "LoRA adapter";
  if (job.tuning == TuningMethod::kPrompt) return "Prompt tuning";
  return base.empty() ? "Model trained from random weights" : "Fine-tuned model";
}

std::string method_of(const TrainingJob& job) {
  std::string method = name_of(job.tuning);
  if (row_of(job.tuning).adds_adapters) {
    method +=
        ", r " + std::to_string(job.lora.rank) + ", lora_alpha " + card_number(job.lora.alpha);
  } else if (job.tuning == TuningMethod::kPrompt) {
    method += ", " + std::to_string(job.prompt.virtual_tokens) + " virtual tokens";
  }
  return method;
}

bool is_left_out(const std::string& name) {
  return std::find(kLeftOut.begin(), kLeftOut.end(), name) != kLeftOut.end();
}

void add_differences(const TrainingJob& job, ModelCard& card) {
  const Json given = to_json(job), usual = to_json(TrainingJob());
  std::vector<std::string> sections(kSections.begin(), kSections.end());
  if (row_of(job.tuning).adds_adapters) sections.emplace_back("lora");
  if (job.tuning == TuningMethod::kPrompt) sections.emplace_back("prompt");
  for (const std::string& section : sections) {
    for (const auto& [name, value] : given.at(section).items()) {
      if (is_left_out(name) || value == usual.at(section).at(name)) continue;
      card.arguments.emplace_back(section + "." + name,
                                  value.is_string() ? value.get<std::string>() : json_text(value));
    }
  }
  if (given.at("seed") != usual.at("seed")) {
    card.arguments.emplace_back("seed", json_text(given.at("seed")));
  }
}

}  // namespace

std::string saved_card_text(const TrainingJob& job, const Json& peft_config,
                            const TrainingProgress& progress) {
  const std::string& weights = job.model.weights_directory;
  const bool is_adapter = !peft_config.is_null();
  ModelCard card;
  card.is_adapter = is_adapter;
  // An adapter has a base, whatever its weights are.
  if (!weights.empty()) {
    card.base_model = base_model_name(weights);
  } else if (is_adapter) {
    card.base_model = job.model.name;
  }
  card.title = title_of(job, card.base_model);
  card.tags = {"sft"};
  if (row_of(job.tuning).adds_adapters) card.tags.emplace_back("lora");
  if (job.model.hf_config.contains("vision_config")) card.pipeline_tag = kImagesToText;

  card.facts = {
      {"Base model", weights.empty() ? job.model.name + " with random weights" : card.base_model},
      {"Dataset", job.data.dataset_id},
      {"Method", method_of(job)},
      {"Optimization steps", std::to_string(progress.steps)}};
  if (progress.loss) card.facts.emplace_back("Training loss, last step", loss_text(*progress.loss));
  if (progress.last.step == progress.steps) {
    card.facts.emplace_back("Evaluation loss", loss_text(progress.last.loss));
  }
  add_differences(job, card);
  return model_card_text(card);
}

}  // namespace sftbench
