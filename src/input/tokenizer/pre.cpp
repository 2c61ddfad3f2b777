#include "tokenizer/pre.h"

#include <optional>

#include "sftbench/base/text.h"
#include "tokenizer/pre_stages.h"

namespace sftbench {
namespace {

class NextStages final : public PieceSink {
 public:
  NextStages(std::span<const std::shared_ptr<const PreTokenizer>> stages, PieceSink& sink)
      : stages_(stages), sink_(sink) {}

  void take(std::span<const std::string_view> pieces, const char* head_end) override {
    if (stages_.empty()) return sink_.take(pieces, head_end);
    NextStages rest(stages_.subspan(1), sink_);
    for (const std::string_view piece : pieces) {
      stages_.front()->split(piece, head_end, rest);
    }
  }

 private:
  std::span<const std::shared_ptr<const PreTokenizer>> stages_;
  PieceSink& sink_;
};

std::optional<SplitBehavior> parse_behavior(const Json& object, const std::string& path,
                                            const char* fallback, TokenizerProblems& problems) {
  const std::string name = problems.text(object, "behavior", fallback, path);
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  problems.add(path + ".behavior", "unknown behavior '" + name + "'",
               "Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
  return std::nullopt;
}

std::unique_ptr<PreTokenizer> parse_split(const Json& object, const std::string& path,
                                          TokenizerProblems& problems) {
  const auto behavior = parse_behavior(object, path, "", problems);
  const bool invert = problems.boolean(object, "invert", false, path);
  const auto pattern = object.find("pattern");
  if (pattern == object.end() || !pattern->is_object()) {
    problems.add(path + ".pattern", "is missing", "an object with String or Regex");
    return nullptr;
  }
  const auto literal = problems.optional_text(*pattern, "String", path + ".pattern");
  const auto regex = problems.optional_text(*pattern, "Regex", path + ".pattern");
  if (!literal && !regex) problems.add(path + ".pattern", "has neither String nor Regex");
  if ((!literal && !regex) || !behavior) return nullptr;
  // The well-known patterns match everything, so that inverted "removed" is "isolated".
  const bool isolates =
      *behavior == SplitBehavior::kIsolated || (*behavior == SplitBehavior::kRemoved && invert);
  if (!literal && isolates) {
    if (auto known = PreTokenizerChain::known_split(*regex)) return known;
  }
  try {
    return std::make_unique<PatternSplit>(
        literal ? Pattern::literal(*literal) : Pattern::regex(*regex), *behavior, invert);
  } catch (const InputError& error) {
    problems.add(path + ".pattern", error.what());
    return nullptr;
  }
}

// The one character that a member must hold.
std::optional<std::string> parse_char(const Json& object, const char* name, const char* fallback,
                                      const std::string& path, TokenizerProblems& problems) {
  std::string text = problems.text(object, name, fallback, path);
  if (!text.empty() && decode_utf8(text.c_str()).size_bytes == text.size()) return text;
  problems.add(path + "." + name, "is '" + text + "'", "one character");
  return std::nullopt;
}

std::unique_ptr<PreTokenizer> parse_metaspace(const Json& object, const std::string& path,
                                              TokenizerProblems& problems) {
  const auto mark = parse_char(object, "replacement", "", path, problems);
  const bool split = problems.boolean(object, "split", true, path);
  const bool add_prefix_space = problems.boolean(object, "add_prefix_space", true, path);
  // Files from before `prepend_scheme` say add_prefix_space: false for "never".
  const std::string scheme =
      problems.text(object, "prepend_scheme", add_prefix_space ? "always" : "never", path);
  Metaspace::Prepend prepend = Metaspace::Prepend::kNever;
  if (scheme == "always") {
    prepend = Metaspace::Prepend::kAlways;
  } else if (scheme == "first") {
    prepend = Metaspace::Prepend::kFirst;
  } else if (scheme != "never") {
    problems.add(path + ".prepend_scheme", "unknown scheme '" + scheme + "'",
                 "always, first, never");
  }
  if (!add_prefix_space && scheme != "never") {
    problems.add(path + ".add_prefix_space", "is false beside prepend_scheme '" + scheme + "'",
                 "never");
  }
  if (!mark) return nullptr;
  return std::make_unique<Metaspace>(*mark, prepend, split);
}

}  // namespace

std::unique_ptr<PreTokenizer> PreTokenizerChain::general_split(const std::string& regex) {
  return std::make_unique<PatternSplit>(Pattern::regex(regex), SplitBehavior::kIsolated, false);
}

std::unique_ptr<PreTokenizer> PreTokenizerChain::known_split(const std::string& regex) {
  if (regex == kGpt2Pattern) return std::make_unique<ScannedSplit<Gpt2Scanner>>();
  if (regex == kLlama3Pattern) return std::make_unique<ScannedSplit<Llama3Scanner<3>>>();
  if (regex == kQwen2Pattern) return std::make_unique<ScannedSplit<Llama3Scanner<1>>>();
  return nullptr;
}

PreTokenizerChain PreTokenizerChain::parse(const Json& pre_tokenizer, TokenizerProblems& problems) {
  PreTokenizerChain chain;
  if (!pre_tokenizer.is_null()) chain.append(pre_tokenizer, "pre_tokenizer", 0, problems);
  if (!chain.stages_.empty() &&
      dynamic_cast<const ByteChars*>(chain.stages_.back().get()) != nullptr) {
    chain.stages_.pop_back();
    chain.ends_in_bytes_ = true;
  }
  return chain;
}

void PreTokenizerChain::append_byte_level(const Json& object, const std::string& path,
                                          TokenizerProblems& problems) {
  if (problems.boolean(object, "add_prefix_space", true, path))
    stages_.push_back(std::make_unique<SpacePrefix>());
  if (problems.boolean(object, "use_regex", true, path)) {
    stages_.push_back(std::make_unique<ScannedSplit<Gpt2Scanner>>());
  }
  stages_.push_back(std::make_unique<ByteChars>());
}

void PreTokenizerChain::append(const Json& object, const std::string& path, int depth,
                               TokenizerProblems& problems) {
  if (!object.is_object()) return problems.add(path, "is " + kind_of(object), "an object");
  if (depth > kDeepestSequence) return problems.add(path, "sequences are nested too deep");
  const std::string type = problems.text(object, "type", "", path);
  std::unique_ptr<PreTokenizer> stage;
  if (type == "Sequence") {
    const auto parts = object.find("pretokenizers");
    if (parts == object.end() || !parts->is_array()) {
      return problems.add(path + ".pretokenizers", "is missing", "a list");
    }
    for (size_t i = 0; i < parts->size(); ++i) {
      append((*parts)[i], path + ".pretokenizers[" + std::to_string(i) + "]", depth + 1, problems);
    }
  } else if (type == "ByteLevel") {
    append_byte_level(object, path, problems);
  } else if (type == "Split") {
    stage = parse_split(object, path, problems);
  } else if (type == "Digits") {
    stage =
        std::make_unique<DigitSplit>(problems.boolean(object, "individual_digits", false, path));
  } else if (type == "Metaspace") {
    stage = parse_metaspace(object, path, problems);
  } else if (type == "Whitespace") {
    stage = std::make_unique<WhitespaceSplit>();
  } else if (type == "WhitespaceSplit") {
    stage = std::make_unique<CharSplit>(kSpace, SplitBehavior::kRemoved);
  } else if (type == "Punctuation") {
    const auto behavior = parse_behavior(object, path, "Isolated", problems);
    if (behavior) stage = std::make_unique<CharSplit>(kPunctuation, *behavior);
  } else if (type == "CharDelimiterSplit") {
    const auto delimiter = parse_char(object, "delimiter", "", path, problems);
    if (delimiter) {
      stage = std::make_unique<CharSplit>(decode_utf8(delimiter->data()).code_point,
                                          SplitBehavior::kRemoved);
    }
  } else {
    const std::vector<std::string> known = {"Sequence",        "ByteLevel",   "Split",
                                            "Digits",          "Metaspace",   "Whitespace",
                                            "WhitespaceSplit", "Punctuation", "CharDelimiterSplit"};
    problems.add(path + ".type", "unsupported pre-tokenizer '" + type + "'", join(known),
                 nearest_spelling(type, known));
  }
  if (stage) stages_.push_back(std::move(stage));
}

void PreTokenizerChain::append_word_split(const std::string& mark) {
  stages_.push_back(std::make_unique<WordSplit>(mark));
}

void PreTokenizerChain::run(std::string_view piece, const char* head_end, PieceSink& sink) const {
  NextStages(stages_, sink).take({&piece, 1}, head_end);
}

}  // namespace sftbench
