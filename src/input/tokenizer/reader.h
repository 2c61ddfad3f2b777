// Reads tokenizer.json into the parts of a tokenizer.
//
// Vocabulary and merges (nearly all of a file of up to 17 MB) go straight from the JSON parser into
// flat tables; only the rest becomes a JSON value.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/post.h"
#include "tokenizer/pre.h"

namespace sftbench {

struct TokenizerParts {
  NormalizerChain normalizer;
  PreTokenizerChain pre_tokenizer;
  std::shared_ptr<const BpeModel> model;
  PostProcessor post_processor;
  AddedVocabulary added;
};

// InputError with everything that is wrong; `origin` is the path for the messages.
TokenizerParts read_tokenizer_json(std::string_view text, const std::string& origin);

// Reads the flags of an added token; the content must be there.
AddedToken parse_added_token(const Json& object, const std::string& path,
                             TokenizerProblems& problems);

}  // namespace sftbench
