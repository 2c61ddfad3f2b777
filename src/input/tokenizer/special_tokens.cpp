// Special tokens as fms-hf-tuning sets them when no separate tokenizer is named
// (tuning/utils/tokenizer_data_utils.py, set_special_tokens_dict). "Missing" is asked of the
// tokenizer as it was loaded: a Llama tokenizer without a pad token gets <PAD>, one that has a pad
// token of its own gets <pad>.
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {
namespace {

constexpr const char* kDefaultPad = "<PAD>";
constexpr const char* kDefaultEos = "</s>";
constexpr const char* kDefaultBos = "<s>";
constexpr const char* kDefaultUnk = "<unk>";

bool is_llama(const std::string& tokenizer_class) {
  return tokenizer_class == "LlamaTokenizer" || tokenizer_class == "LlamaTokenizerFast";
}

bool is_gpt2_or_neox(const std::string& tokenizer_class) {
  return tokenizer_class == "GPT2Tokenizer" || tokenizer_class == "GPT2TokenizerFast" ||
         tokenizer_class == "GPTNeoXTokenizer" || tokenizer_class == "GPTNeoXTokenizerFast";
}

// Ids are given in the order in which the tokens were first named.
struct Assignments {
  struct Assignment {
    std::string SpecialTokens::*role;
    std::string text;
  };
  std::vector<Assignment> list;

  void set(std::string SpecialTokens::*role, const char* text) {
    for (Assignment& assignment : list) {
      if (assignment.role == role) {
        assignment.text = text;
        return;
      }
    }
    list.push_back({role, text});
  }
};

}  // namespace

int64_t complete_special_tokens(Tokenizer& tokenizer) {
  const SpecialTokens loaded = tokenizer.special_tokens();
  Assignments assignments;
  if (is_llama(tokenizer.tokenizer_class())) {
    assignments.set(&SpecialTokens::bos, kDefaultBos);
    assignments.set(&SpecialTokens::eos, kDefaultEos);
    assignments.set(&SpecialTokens::unk, kDefaultUnk);
    assignments.set(&SpecialTokens::pad, "<pad>");
  } else if (is_gpt2_or_neox(tokenizer.tokenizer_class())) {
    assignments.set(&SpecialTokens::pad, "<pad>");
  }
  if (loaded.pad.empty()) assignments.set(&SpecialTokens::pad, kDefaultPad);
  if (loaded.eos.empty()) assignments.set(&SpecialTokens::eos, kDefaultEos);
  if (loaded.bos.empty()) assignments.set(&SpecialTokens::bos, kDefaultBos);
  if (loaded.unk.empty()) assignments.set(&SpecialTokens::unk, kDefaultUnk);
  if (!loaded.pad.empty() && loaded.pad == loaded.eos) {
    if (loaded.eos == kDefaultPad) {
      assignments.set(&SpecialTokens::eos, kDefaultEos);
    } else {
      assignments.set(&SpecialTokens::pad, kDefaultPad);
    }
  }

  SpecialTokens completed = loaded;
  int64_t new_tokens = 0;
  for (const auto& [role, text] : assignments.list) {
    if (!tokenizer.token_id(text)) ++new_tokens;
    tokenizer.add_special_token(text);
    completed.*role = text;
  }
  tokenizer.set_special_tokens(completed);
  return new_tokens;
}

}  // namespace sftbench
