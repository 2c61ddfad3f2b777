// What the model writes behind the beginnings of held-out entries, by greedy decoding:
// transformers' generate(do_sample=False). All rows go on together, one token a pass, so that none
// is padded.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sftbench/measure/events.h"
#include "sftbench/model/causal_lm.h"
#include "sftbench/parallel/communicator.h"
#include "sftbench/parallel/parallel_parameters.h"

namespace sftbench {

class Tokenizer;
struct EvaluationData;
struct TrainingJob;

struct GenerationRows {
  std::vector<std::vector<int32_t>> prompts;  // none empty
  std::vector<GeneratedText> texts;           // prompt and expected text of each
  std::set<int32_t> ends;                     // ids that end a text
  int64_t max_new_tokens = 0;
  int64_t most_positions = 0;  // of a row, which the model knows
};

// Of the job's first held-out entries, but those without a prompt or without what bears loss, in a
// model that puts so many virtual tokens in front. RunError(kUnsupported) where a prompt has more
// positions than the model knows, or than LongRoPE's pre-training had.
GenerationRows generation_rows(const TrainingJob& job, const EvaluationData& data,
                               const Tokenizer& tokenizer, const ModelConfig& model,
                               int64_t virtual_tokens);

// The references outlive it. `runner` runs layers without a backward pass.
class Generation {
 public:
  Generation(GenerationRows rows, std::shared_ptr<const Tokenizer> tokenizer, CausalLm& model,
             ParallelParameters& parameters, Communicator& world,
             std::unique_ptr<LayerRunner> runner, torch::Device device);

  // Collective. The texts get what the model writes now.
  void write(std::string GeneratedText::*by_the_model);

  const std::vector<GeneratedText>& texts() const { return rows_.texts; }

 private:
  torch::Tensor next_tokens(const std::vector<std::vector<int32_t>>& rows, int64_t first,
                            int64_t count, const std::shared_ptr<DecodingState>& state);

  GenerationRows rows_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  CausalLm& model_;
  ParallelParameters& parameters_;
  Communicator& world_;
  std::unique_ptr<LayerRunner> runner_;
  torch::Device device_;
};

}  // namespace sftbench
