#include "sftbench/tokenizer/tokenizer.h"

#include <algorithm>
#include <limits>
#include <span>

#include "sftbench/base/conversion_commands.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "tokenizer/bpe_cache.h"
#include "tokenizer/config.h"
#include "tokenizer/decode.h"
#include "tokenizer/reader.h"
#include "tokenizer/scanner.h"
#include "tokenizer/unicode.h"

namespace sftbench {
namespace {

// What encoding changes: owned by one tokenizer, so that clones work on other threads.
class Encoder final : public PieceSink {
 public:
  explicit Encoder(const TokenizerParts& parts)
      : model_(*parts.model), bytes_(parts.pre_tokenizer.ends_in_bytes()) {}

  void take(std::span<const std::string_view> pieces, const char*) override {
    ids.reserve(PieceCache::kReserve);
    for (const std::string_view piece : pieces) {
      if (piece.size() <= PieceCache::kLongestPiece_bytes && cache_.find(piece, ids)) continue;
      missed_.clear();
      model_.encode(piece, bytes_, scratch_, missed_);
      if (piece.size() <= PieceCache::kLongestPiece_bytes) cache_.insert(piece, missed_);
      ids.append(missed_);
      ids.reserve(PieceCache::kReserve);
    }
  }

  IdBuffer ids;      // of the text being encoded
  std::string text;  // the text being encoded, valid UTF-8 and padded

 private:
  const BpeModel& model_;
  bool bytes_;
  PieceCache cache_;
  BpeScratch scratch_;
  std::vector<int32_t> missed_;
};

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(std::shared_ptr<const TokenizerParts> tokenizer_parts)
      : parts(std::move(tokenizer_parts)), encoder(*parts) {}

  void encode(std::string_view text, bool add_special_tokens, std::vector<int32_t>& ids);
  // `head_bytes` of the piece stand for the first character of the text.
  void encode_piece(std::string_view piece, size_t head_bytes);
  void encode_normalized(std::string_view piece, size_t head_bytes);
  void add_tokens(std::vector<AddedToken> tokens);
  void apply(TokenizerConfig config);

  std::string origin;                           // of tokenizer.json
  std::shared_ptr<const TokenizerParts> parts;  // replaced, never changed, when tokens are added
  Encoder encoder;
  SpecialTokens special;
  std::string tokenizer_class;
  int64_t model_max_length = std::numeric_limits<int64_t>::max();
  bool truncates_left = false;
};

void Tokenizer::Impl::encode_normalized(std::string_view piece, size_t head_bytes) {
  parts->added.after_normalization().split(
      piece,
      [&](size_t begin, size_t end) {
        parts->pre_tokenizer.run(piece.substr(begin, end - begin), piece.data() + head_bytes,
                                 encoder);
      },
      [&](int32_t id) { encoder.ids.push(id); });
}

void Tokenizer::Impl::encode_piece(std::string_view piece, size_t head_bytes) {
  if (parts->normalizer.empty()) return encode_normalized(piece, head_bytes);
  std::string normalized;
  normalized.reserve(piece.size() + piece.size() / 2 + kTextPadding_bytes);
  normalized = piece;
  head_bytes = parts->normalizer.run(normalized, head_bytes);
  const size_t size = normalized.size();
  normalized.append(kTextPadding_bytes, '\0');
  encode_normalized({normalized.data(), size}, head_bytes);
}

// Tokenizers share their parts; one that gains tokens gets parts of its own.
void Tokenizer::Impl::add_tokens(std::vector<AddedToken> tokens) {
  auto changed = std::make_shared<TokenizerParts>(*parts);
  const TokenTable& vocabulary = changed->model->vocabulary();
  changed->added.start_batch(static_cast<int64_t>(vocabulary.size()));
  for (AddedToken& token : tokens) {
    const int32_t model_id = vocabulary.find(token.content);
    changed->added.add(std::move(token), model_id);
  }
  changed->added.refresh(changed->normalizer);
  parts = std::move(changed);
}

// tokenizer.json says how its tokens are found; the configuration only adds those that it lacks.
void Tokenizer::Impl::apply(TokenizerConfig config) {
  std::vector<AddedToken> lacking;
  for (AddedToken& token : config.tokens) {
    const auto same = [&](const AddedToken& other) { return other.content == token.content; };
    if (token.content.empty() || parts->added.find(token.content) >= 0) continue;
    if (std::none_of(lacking.begin(), lacking.end(), same)) lacking.push_back(std::move(token));
  }
  if (!lacking.empty()) add_tokens(std::move(lacking));
  special = std::move(config.special);
  tokenizer_class = std::move(config.tokenizer_class);
  model_max_length = config.model_max_length;
  truncates_left = config.truncates_left;
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, const std::string& origin) {
  auto parts = std::make_shared<TokenizerParts>(read_tokenizer_json(tokenizer_json, origin));
  auto impl = std::make_unique<Impl>(std::move(parts));
  impl->origin = origin;
  return Tokenizer(std::move(impl));
}

Tokenizer Tokenizer::from_directory(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "tokenizer.json";
  const std::filesystem::path sentencepiece = directory / "tokenizer.model";
  if (!std::filesystem::exists(path) && std::filesystem::exists(sentencepiece)) {
    throw InputError({{.file = sentencepiece.string(),
                       .line = 0,
                       .key = {},
                       .message = "is not read",
                       .expected = "tokenizer.json beside it, which transformers makes: " +
                                   tokenizer_json_command(directory.string()),
                       .nearest = {}}});
  }
  const MappedFile file(path, kMostBytesReadWhole);
  Tokenizer tokenizer = from_json(file.text(), path.string());
  tokenizer.impl_->apply(read_tokenizer_config(directory));
  return tokenizer;
}

Tokenizer Tokenizer::builtin() {
  return from_directory(resource_directory() / "datasets" / "tokenizer");
}

Tokenizer Tokenizer::clone() const {
  auto copy = std::make_unique<Impl>(impl_->parts);
  copy->origin = impl_->origin;
  copy->special = impl_->special;
  copy->tokenizer_class = impl_->tokenizer_class;
  copy->model_max_length = impl_->model_max_length;
  copy->truncates_left = impl_->truncates_left;
  return Tokenizer(std::move(copy));
}

void Tokenizer::encode(std::string_view text, bool add_special_tokens,
                       std::vector<int32_t>& ids) const {
  try {
    impl_->encode(text, add_special_tokens, ids);
  } catch (const InputError& error) {  // a pattern that backtracks without end, on this text
    throw InputError({finding(
        impl_->origin, {},
        "cannot split a text of " + std::to_string(text.size()) + " bytes: " + error.what())});
  }
}

void Tokenizer::Impl::encode(std::string_view text, bool add_special_tokens,
                             std::vector<int32_t>& ids) {
  const PostProcessor& post = parts->post_processor;
  encoder.ids.clear();
  std::string& valid = encoder.text;
  valid.clear();
  append_sanitized(valid, text);
  const size_t size = valid.size();
  valid.append(kTextPadding_bytes, '\0');
  const std::string_view whole(valid.data(), size);

  if (add_special_tokens) ids.insert(ids.end(), post.before.begin(), post.before.end());
  parts->added.before_normalization().split(
      whole,
      [&](size_t begin, size_t end) {
        const size_t head_bytes = begin == 0 && end > 0 ? decode_utf8(whole.data()).size_bytes : 0;
        encode_piece(whole.substr(begin, end - begin), head_bytes);
      },
      [&](int32_t id) { encoder.ids.push(id); });
  const std::span<const int32_t> found = encoder.ids.ids();
  ids.insert(ids.end(), found.begin(), found.end());
  if (add_special_tokens) ids.insert(ids.end(), post.after.begin(), post.after.end());
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  std::vector<int32_t> ids;
  encode(text, add_special_tokens, ids);
  return ids;
}

std::string Tokenizer::decode(const std::vector<int32_t>& ids) const {
  return sftbench::decode(ids, impl_->parts->model->vocabulary(), impl_->parts->added.by_id());
}

std::optional<int32_t> Tokenizer::token_id(std::string_view token) const {
  int32_t id = impl_->parts->added.find(std::string(token));
  if (id < 0) id = impl_->parts->model->vocabulary().find(token);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

int64_t Tokenizer::vocabulary_size() const {
  const TokenizerParts& parts = *impl_->parts;
  return std::max(int64_t{parts.model->vocabulary().largest_id()},
                  int64_t{parts.added.largest_id()}) +
         1;
}

int64_t Tokenizer::model_max_length() const {
  return impl_->model_max_length;
}
bool Tokenizer::truncates_left() const {
  return impl_->truncates_left;
}
const SpecialTokens& Tokenizer::special_tokens() const {
  return impl_->special;
}
const std::string& Tokenizer::tokenizer_class() const {
  return impl_->tokenizer_class;
}

std::map<int32_t, AddedToken> Tokenizer::added_tokens() const {
  return impl_->parts->added.by_id();
}

int32_t Tokenizer::add_special_token(std::string_view token) {
  if (token.empty() || token.size() > AddedVocabulary::kLongestToken_bytes) {
    throw InputError("a special token of " + std::to_string(token.size()) +
                     " bytes cannot be added");
  }
  impl_->add_tokens({{.content = std::string(token), .normalized = false, .special = true}});
  return *token_id(token);
}

void Tokenizer::set_special_tokens(const SpecialTokens& tokens) {
  for (const std::string& token : {tokens.bos, tokens.eos, tokens.unk, tokens.pad}) {
    check(token.empty() || token_id(token).has_value(), "a special token stands in the vocabulary");
  }
  impl_->special = tokens;
}

}  // namespace sftbench
