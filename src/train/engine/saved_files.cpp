#include "engine/saved_files.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/prepare_data.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "sftbench/families/model_config.h"
#include "sftbench/jinja/chat_template.h"
#include "sftbench/plan/data_sets.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kTemplateFile = "chat_template.jinja";
// transformers' save_pretrained() of a processor.
constexpr const char* kProcessorFiles[] = {"preprocessor_config.json", "processor_config.json",
                                           "chat_template.json"};

Tokenizer tokenizer_of(const TrainingJob& job, int64_t rows) {
  Tokenizer completed = prepare_tokenizer(job.model);
  if (completed.vocabulary_size() <= rows) return completed;
  Tokenizer own = own_tokenizer(job.model);
  SpecialTokens special = own.special_tokens();
  if (special.pad.empty()) special.pad = special.unk.empty() ? special.eos : special.unk;
  own.set_special_tokens(special);
  return own;
}

// That conversations were rendered with. Empty: there were none.
std::string trained_template(const TrainingJob& job) {
  for (const DataSet& set : data_sets(job)) {
    if (!set.source.conversation_field.empty()) return set.source.chat_template;
  }
  return {};
}

// As transformers writes one template, and reads several.
void set_template(const std::string& text, std::vector<TokenizerFile>& files) {
  std::erase_if(files, [](const TokenizerFile& file) { return file.name == kTemplateFile; });
  const std::vector<NamedChatTemplate> named = named_chat_templates(text);
  Json list;
  if (named.size() == 1) {
    files.push_back({kTemplateFile, named.front().text});
  } else {
    for (const NamedChatTemplate& one : named)
      list.push_back({{"name", one.name}, {"template", one.text}});
  }
  for (TokenizerFile& file : files) {
    if (file.name != kTokenizerConfig) continue;
    const Json before = parse_json(file.text, kTokenizerConfig);
    Json config = before;
    config.erase("chat_template");
    if (!list.is_null()) config["chat_template"] = std::move(list);
    if (config != before) file.text = json_text(config, 2) + "\n";
  }
}

}  // namespace

bool adds_text_tokens(const Tokenizer& completed, int64_t rows) {
  const SpecialTokens& special = completed.special_tokens();
  const auto lies_behind = [&](const std::string& token) {
    return completed.token_id(token).value_or(0) >= rows;
  };
  return lies_behind(special.bos) || lies_behind(special.eos);
}

std::vector<TokenizerFile> saved_files(const TrainingJob& job, int64_t rows) {
  const fs::path folder = job.model.tokenizer_directory;
  std::vector<TokenizerFile> files = tokenizer_files(folder, tokenizer_of(job, rows));
  const ChatTemplateText own = folder.empty() ? ChatTemplateText() : chat_template_of(folder);
  std::string used = trained_template(job);
  if (used.empty()) used = own.text;
  // Those of a processor's files, and those in a folder beside the tokenizer's, would stay behind.
  const bool has_own =
      own.origin.find(kTokenizerConfig) != std::string::npos ||
      (own.origin.ends_with(kTemplateFile) && named_chat_templates(own.text).size() == 1);
  if (!used.empty() && (used != own.text || !has_own)) set_template(used, files);
  if (!job.model.hf_config.contains("vision_config")) return files;
  for (const char* name : kProcessorFiles) {
    if (fs::is_regular_file(folder / name)) files.push_back({name, read_file(folder / name)});
  }
  return files;
}

}  // namespace sftbench
