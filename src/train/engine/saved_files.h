// The files beside saved weights: the tokenizer, the chat template and the image processor. With
// them transformers, peft and this program read the weights as they were trained.
#pragma once

#include <cstdint>
#include <vector>

#include "sftbench/plan/training_job.h"
#include "sftbench/tokenizer/files.h"

namespace sftbench {

// Whether texts have tokens that a base of `rows` rows lacks: a BOS or an EOS that its tokenizer
// did not have. The others that are added, a pad and an unknown token, stand in no text.
bool adds_text_tokens(const Tokenizer& completed, int64_t rows);

// `rows`: of the embedding that the saved weights are loaded with. Training may have added more
// tokens than that. The base's own tokenizer is then saved. If it has no pad token, its unknown or
// its EOS token becomes one. InputError when a file cannot be read.
std::vector<TokenizerFile> saved_files(const TrainingJob& job, int64_t rows);

}  // namespace sftbench
