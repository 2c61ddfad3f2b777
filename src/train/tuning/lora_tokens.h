// LoRA of the embedding, A^T[ids] B^T, and of the output projection (peft's lora.Embedding, and its
// lora.Linear over lm_head). Of an embedding A starts at zero, B normal, and nothing is dropped.
#pragma once

#include <memory>
#include <string>

#include "sftbench/model/token_adapters.h"
#include "sftbench/ops/low_rank.h"

namespace sftbench {

struct ForwardPass;

// a [r, V], b [H, r]; padding_row as TokenEmbedding's, or -1.
std::unique_ptr<EmbeddingAdapter> make_embedding_adapter(std::string module,
                                                         ops::LowRankFactors factors, double scale,
                                                         int64_t padding_row);

// a [r, H], b [V, r]. `pass` outlives it.
std::unique_ptr<OutputAdapter> make_output_adapter(std::string module, ops::LowRankFactors factors,
                                                   double scale, double dropout, uint64_t stream,
                                                   const ForwardPass& pass);

}  // namespace sftbench
