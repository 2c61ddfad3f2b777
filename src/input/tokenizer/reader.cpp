#include "tokenizer/reader.h"

#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "tokenizer/json_parser.h"

namespace sftbench {
namespace {

const Json kNull = nullptr;

const Json& member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() ? kNull : *found;
}

std::shared_ptr<const BpeModel> read_model(TokenizerJson& json, TokenizerProblems& problems) {
  const Json& model = member(json.rest, "model");
  if (!model.is_object()) {
    problems.add("model", "is " + kind_of(model), "an object");
    return nullptr;
  }
  // Files from before 2020 name no type; only a BPE model has merges.
  const std::string type = problems.text(model, "type", json.has_merges ? "BPE" : "", "model");
  if (type != "BPE") {
    problems.add("model.type", "unsupported model '" + type + "'", "BPE",
                 nearest_spelling(type, {"BPE"}));
    return nullptr;
  }
  const Json& dropout = member(model, "dropout");
  if (!dropout.is_null() && !(dropout.is_number() && dropout.get<double>() == 0.0)) {
    problems.add("model.dropout",
                 "is " + (dropout.is_number() ? json_text(dropout) : kind_of(dropout)),
                 "null: token ids must not be random");
  }
  if (!json.has_vocabulary)
    problems.add("model.vocab", "is missing", "an object of tokens and ids");
  if (!json.has_merges) problems.add("model.merges", "is missing", "a list of merges");
  BpeConfig config;
  config.unk_token = problems.optional_text(model, "unk_token", "model");
  config.continuing_subword_prefix = problems.text(model, "continuing_subword_prefix", "", "model");
  config.end_of_word_suffix = problems.text(model, "end_of_word_suffix", "", "model");
  config.fuse_unk = problems.boolean(model, "fuse_unk", false, "model");
  config.byte_fallback = problems.boolean(model, "byte_fallback", false, "model");
  config.ignore_merges = problems.boolean(model, "ignore_merges", false, "model");

  auto bpe = std::make_shared<BpeModel>(std::move(json.vocabulary), std::move(config));
  bpe->reserve_merges(json.merge_pairs.size() / 2);
  for (size_t i = 0; i + 1 < json.merge_pairs.size(); i += 2) {
    if (const auto problem = bpe->add_merge(json.merge_pairs[i], json.merge_pairs[i + 1])) {
      problems.add("model.merges[" + std::to_string(i / 2) + "]", *problem);
    }
  }
  return bpe;
}

void read_added(const Json& list, const BpeModel& model, TokenizerParts& parts,
                TokenizerProblems& problems) {
  if (list.is_null()) return;
  if (!list.is_array()) return problems.add("added_tokens", "is " + kind_of(list), "a list");
  parts.added.start_batch(static_cast<int64_t>(model.vocabulary().size()));
  for (size_t i = 0; i < list.size(); ++i) {
    AddedToken token =
        parse_added_token(list[i], "added_tokens[" + std::to_string(i) + "]", problems);
    const int32_t model_id = model.vocabulary().find(token.content);
    if (!token.content.empty()) parts.added.add(std::move(token), model_id);
  }
}

// Texts without a pre-tokenizer (Llama 2, Mistral) would be one piece of megabytes. Where the
// vocabulary allows it, they are cut into words, which changes no id and lets the cache work.
void cut_into_words(const Json& json, TokenizerParts& parts) {
  const Json& pre_tokenizer = member(json, "pre_tokenizer");
  std::string mark = "\xE2\x96\x81";
  if (pre_tokenizer.is_object()) {
    if (member(pre_tokenizer, "type") != "Metaspace" || member(pre_tokenizer, "split") != false)
      return;
    mark = member(pre_tokenizer, "replacement").get<std::string>();
  }
  if (parts.model->separable_at(mark)) parts.pre_tokenizer.append_word_split(mark);
}

}  // namespace

AddedToken parse_added_token(const Json& object, const std::string& path,
                             TokenizerProblems& problems) {
  AddedToken token;
  if (!object.is_object()) {
    problems.add(path, "is " + kind_of(object), "an object");
    return token;
  }
  token.content = problems.text(object, "content", "", path);
  token.single_word = problems.boolean(object, "single_word", false, path);
  token.lstrip = problems.boolean(object, "lstrip", false, path);
  token.rstrip = problems.boolean(object, "rstrip", false, path);
  token.special = problems.boolean(object, "special", false, path);
  token.normalized = problems.boolean(object, "normalized", !token.special, path);
  if (token.content.size() > AddedVocabulary::kLongestToken_bytes) {
    problems.add(path + ".content", "is " + std::to_string(token.content.size()) + " bytes long",
                 "at most " + std::to_string(AddedVocabulary::kLongestToken_bytes));
    token.content.clear();
  }
  return token;
}

TokenizerParts read_tokenizer_json(std::string_view text, const std::string& origin) {
  TokenizerProblems problems(origin);
  TokenizerJson json = parse_tokenizer_json(text, problems);
  if (!json.rest.is_object()) {
    problems.add("", "is " + kind_of(json.rest), "a tokenizer.json object");
    problems.throw_if_any();
  }
  const std::string version = problems.text(json.rest, "version", "1.0", "");
  if (version != "1.0") problems.add("version", "unknown version '" + version + "'", "1.0");
  TokenizerParts parts;
  parts.normalizer = NormalizerChain::parse(member(json.rest, "normalizer"), problems);
  parts.pre_tokenizer = PreTokenizerChain::parse(member(json.rest, "pre_tokenizer"), problems);
  parts.post_processor = PostProcessor::parse(member(json.rest, "post_processor"), problems);
  parts.model = read_model(json, problems);
  if (parts.model) read_added(member(json.rest, "added_tokens"), *parts.model, parts, problems);
  problems.throw_if_any();
  parts.added.refresh(parts.normalizer);
  cut_into_words(json.rest, parts);
  return parts;
}

}  // namespace sftbench
