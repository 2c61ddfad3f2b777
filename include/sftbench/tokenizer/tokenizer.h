// Hugging Face tokenizer.json, read and run without Python: the same token ids, byte for byte.
//
// Supported: model BPE (with byte_fallback, ignore_merges, fuse_unk, dropout null); the
// normalizers, pre-tokenizers and post-processors that Llama, Mistral, GPT-2, Llama 3, Granite,
// SmolLM2, Bloom tokenizers use; added and special tokens. Anything else is an InputError naming
// the component. Not read: the decoder (text is made from ids as the pre-tokenizer and the
// vocabulary say), and the truncation and padding of an earlier call, which save_pretrained()
// leaves behind: transformers sets both anew in each call. Source: huggingface/tokenizers (the
// behavior of `Tokenizer.encode` after no_truncation()).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sftbench {

// Texts of the special tokens; empty when the tokenizer has none.
struct SpecialTokens {
  std::string bos, eos, unk, pad;
  bool operator==(const SpecialTokens&) const = default;
};

struct AddedToken;  // tokenizer/added.h

class Tokenizer {
 public:
  // Reads tokenizer.json and, where present, tokenizer_config.json and special_tokens_map.json.
  // InputError when a file is missing, malformed or of an unsupported type.
  static Tokenizer from_directory(const std::filesystem::path& directory);

  // `tokenizer_json` is the text of a tokenizer.json, `origin` its path for error messages.
  static Tokenizer from_json(std::string_view tokenizer_json, const std::string& origin);

  // The byte-level BPE that ships with the program (datasets/tokenizer/), for models whose own is
  // not at hand.
  static Tokenizer builtin();

  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Appends the ids of `text` to `ids`. Invalid UTF-8 becomes U+FFFD, as Python's errors="replace"
  // makes it. `add_special_tokens`: apply the post-processor (BOS where it adds one). Not safe for
  // concurrent calls on one object (it caches pre-tokens); copies are made by clone().
  void encode(std::string_view text, bool add_special_tokens, std::vector<int32_t>& ids) const;
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens = true) const;

  // The text of `ids`, special tokens as they are written. Where words begin with U+2581
  // (SentencePiece), it begins with the space that transformers strips. Bytes that are no UTF-8
  // become U+FFFD; ids without a token, nothing.
  std::string decode(const std::vector<int32_t>& ids) const;

  // A second tokenizer that shares the vocabulary and has a cache of its own, for another thread.
  Tokenizer clone() const;

  std::optional<int32_t> token_id(std::string_view token) const;
  int64_t vocabulary_size() const;  // with added tokens: one more than the largest id
  int64_t model_max_length()
      const;  // of tokenizer_config.json; a very large number when it has none
  bool truncates_left()
      const;  // truncation_side of tokenizer_config.json: a text loses its beginning
  const SpecialTokens& special_tokens() const;
  const std::string& tokenizer_class() const;  // of tokenizer_config.json, may be empty

  // Those that are found whole in a text, by id.
  std::map<int32_t, AddedToken> added_tokens() const;

  // Adds a special token with the next free id unless it exists; returns its id. From now on it is
  // found anywhere in a text, before normalization, also when the file said otherwise (as
  // transformers does it).
  int32_t add_special_token(std::string_view token);
  // Declares which text is the bos/eos/unk/pad token (they must exist).
  void set_special_tokens(const SpecialTokens& tokens);

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Adds and assigns what is missing among bos, eos, unk and pad as fms-hf-tuning does when no
// separate tokenizer is named; returns the number of tokens that were new to the vocabulary.
int64_t complete_special_tokens(Tokenizer& tokenizer);

}  // namespace sftbench
