// README.md of a saved folder: the model card that the Hugging Face Hub shows and searches.
// Metadata stand in front as YAML, with the names and values that peft and transformers give them.
// What follows is for people. Names come from users and files: none of them can end the metadata,
// add a key to them or become markup.
//
// Sources: huggingface_hub, "Model Cards"; peft.PeftModel.create_or_update_model_card.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sftbench {

inline constexpr const char* kModelCardFile = "README.md";

// Tasks of the hub.
inline constexpr const char* kText = "text-generation";
inline constexpr const char* kImagesToText = "image-text-to-text";

struct ModelCard {
  std::string title;       // "LoRA adapter", before the base model's name
  std::string base_model;  // a hub id or a folder; empty: the model began with random weights
  bool is_adapter = false;
  std::vector<std::string> tags;  // without those of peft
  std::string pipeline_tag = kText;
  std::vector<std::pair<std::string, std::string>> facts;      // label, and a text as it is
  std::vector<std::pair<std::string, std::string>> arguments;  // name, value
};

// The same bytes for the same card.
std::string model_card_text(const ModelCard& card);

// "16", "0.5".
std::string card_number(double value);

// "org/name" where `folder` is a snapshot in a Hugging Face cache, which tells more than its path;
// else the path.
std::string base_model_name(const std::filesystem::path& folder);

// A text in the double quotes of YAML 1.1 and 1.2, in one line. Bytes that are not UTF-8 become
// U+FFFD.
std::string yaml_quoted(std::string_view text);

// A text as Markdown's code, in one line (base/terminal_text.h).
std::string markdown_code(std::string_view text);

}  // namespace sftbench
