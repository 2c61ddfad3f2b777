// What stands beside saved weights, so that transformers, peft and this program read them as they were trained: the tokenizer,
// the chat template, and the image processor.
#pragma once

#include <cstdint>
#include <vector>

#include "sftbench/plan/training_job.h"
#include "sftbench/tokenizer/files.h"

namespace sftbench {

// Whether texts have tokens that a base of `rows` rows lacks: a BOS or an EOS that its tokenizer did not have. The others
// that are added, a pad and an unknown token, stand in no text.
bool adds_text_tokens(const Tokenizer& completed, int64_t rows);

// `rows`: of the embedding that they are loaded with. Where the tokenizer that was trained with has more tokens, the
// base's own is saved, whose pad token is then its unknown or its EOS token where it has none. InputError when a file cannot
// be read.
std::vector<TokenizerFile> saved_files(const TrainingJob& job, int64_t rows);

}  // namespace sftbench
