// A decoder-only language model, as the engine sees it. The families (families/family.h) share an
// implementation where their layers are alike (src/train/model/llama.h), each written like the
// paper: single device, no training concern inside. Precision, recomputation, sharding and adapters
// are applied from outside, through parameters() and LayerRunner.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/base/element_range.h"
#include "sftbench/base/json.h"
#include "sftbench/base/work_count.h"
#include "sftbench/families/family.h"
#include "sftbench/model/context_group.h"
#include "sftbench/model/decoding_state.h"
#include "sftbench/model/linear.h"
#include "sftbench/model/token_adapters.h"
#include "sftbench/ops/attention.h"
#include "sftbench/ops/kernel_choice.h"
#include "sftbench/ops/loss_denominator.h"

namespace sftbench {

// Runs one transformer layer. The default just calls it; activation checkpointing recomputes it in
// the backward pass, a sharded model gathers its parameters around it.
class LayerRunner {
 public:
  using Layer = std::function<torch::Tensor(const torch::Tensor& hidden)>;
  virtual ~LayerRunner() = default;
  // hidden [B, S, H] -> [B, S, H]
  virtual torch::Tensor run(int64_t layer_index, const Layer& layer, const torch::Tensor& hidden) {
    (void)layer_index;
    return layer(hidden);
  }
};

// The images of a batch, row by row in the order of their placeholders.
struct ImageRows {
  torch::Tensor
      pixels;  // [tiles of all images, colors, side, side], normalized; undefined: there are none
  std::vector<PixelSize> sizes;  // of the images as they were decoded
  int64_t token = 0;             // the placeholder
};

// What a forward pass reads: ids [B, S] int64, and, where the one row holds several sequences,
// which. Positions begin anew with each of them, and none attends to another.
struct TokenRows {
  TokenRows(torch::Tensor ids,
            ops::PackedSequences sequences = {},  // NOLINT: plain ids are rows, too
            torch::Tensor real = {}, ImageRows pictures = {})
      : input_ids(std::move(ids)),
        packed(std::move(sequences)),
        mask(std::move(real)),
        images(std::move(pictures)) {}

  torch::Tensor input_ids;
  ops::PackedSequences packed;
  // [B, S], 1 for tokens and 0 for padding, where that is needed (CausalLm::needs_mask());
  // undefined: all are tokens.
  torch::Tensor mask;
  // [B, S] bool, true where adapters stay silent and the base model works alone; undefined:
  // nowhere.
  torch::Tensor silent;
  ImageRows images;
  // What this rank has of rows that several ranks divide; null: rows are whole. All of the above
  // are of the part but `packed`, which is the whole row's.
  std::shared_ptr<const ContextPart> part;
  // Of the positions that stand before these and were computed earlier; null: rows are whole.
  // Without packed rows.
  std::shared_ptr<DecodingState> state;

  int64_t positions_before() const { return state ? state->length() : 0; }
  // Of the whole row, of which a model computes so many positions.
  int64_t row_length(int64_t positions) const {
    return part ? part->layout.row_length() : positions_before() + positions;
  }
};

// Which forward pass runs, and how. A layer that is recomputed in the backward pass finds the
// number of the forward pass that it belongs to.
struct ForwardPass {
  uint64_t seed = 0;      // of the run, for the model's own dropout
  int64_t number = 0;     // counts calls of loss()
  bool training = false;  // logits() are computed without dropout
  int64_t mlp_tiles = 1;  // that an MLP computes one after the other (ops/row_tiles.h)
  torch::Tensor silent;   // of the rows that it reads
};

// float32 scalars.
struct LossParts {
  torch::Tensor cross_entropy;
  torch::Tensor auxiliary;  // of a mixture of experts; undefined: none is asked for
};

class ExpertGroup;
class RouterBalance;

class CausalLm {
 public:
  CausalLm(ModelConfig config, const ops::KernelChoice& kernels);
  virtual ~CausalLm();

  const ModelConfig& config() const { return config_; }
  // How the checkpoints of its family name what every model has.
  const ModelNames& names() const;

  // -> last hidden states [B, P + S, H], after the final norm. P virtual tokens (prompt()) stand in
  // front and shift the positions of what follows.
  virtual torch::Tensor hidden_states(const TokenRows& rows, LayerRunner& runner) = 0;

  // [V, H]: one row for each token.
  virtual torch::Tensor& embedding() = 0;

  // [V, H]: the output projection (the embedding itself when tied).
  virtual const torch::Tensor& output_weight() const = 0;
  bool is_tied() { return &output_weight() == &embedding(); }
  // Of a tied model: from now on the output projection is a parameter of its own, a copy of the
  // embedding.
  virtual void untie_output() = 0;

  // Whether loss() has to know padding: it is no part of the auxiliary loss of a mixture of
  // experts.
  bool needs_mask() const { return balance_ != nullptr; }

  // labels [B, S] int64 (not shifted, -100 ignored) -> float32 scalar: sum of the next-token
  // cross-entropies / denominator, plus the auxiliary loss of a mixture of experts where its
  // configuration asks for it. Of a rank's part of rows, labels are shifted: the next position may
  // be another rank's. The loss is the part's share: shares of a group add up. REQUIRES: the label
  // of each packed sequence's first position is -100 (nothing predicts it).
  torch::Tensor loss(const TokenRows& rows, const torch::Tensor& labels,
                     const ops::LossDenominator& denominator, LayerRunner& runner);

  // The same for entries that are not trained on: the sum of the cross-entropies, without dropout
  // and without a graph. Counts as no pass.
  LossParts evaluate(const TokenRows& rows, const torch::Tensor& labels, LayerRunner& runner);

  // -> logits [B, S, V]; for tests and small inputs: holds all of them.
  torch::Tensor logits(const TokenRows& rows);

  // -> [B] int64: the likeliest token behind each row. Without dropout and without a graph; counts
  // as no pass.
  torch::Tensor likeliest_next(const TokenRows& rows, LayerRunner& runner);

  // What passes read beside parameters and rows, and may make anew for longer rows: who repeats
  // recorded work of a pass holds them.
  virtual std::vector<torch::Tensor> kept_tables() const { return {}; }

  // Every parameter once (a tied output projection is not listed), in forward order: embedding,
  // layers, norm, head.
  virtual std::vector<NamedParameter> parameters() = 0;

  // The linear projections of the layers (not the output projection), in forward order, grouped by
  // what they read: where adapters go. linears() is the same without the groups.
  virtual std::vector<NamedLinearGroup> linear_groups() = 0;
  std::vector<NamedLinear> linears();

  // Prompt tuning's virtual tokens [P, H] in front of every row, of any float dtype; undefined
  // without. A parameter named "prompt_embeddings" once it is set.
  virtual torch::Tensor& prompt() = 0;

  // Their parameters follow those of the embedding and of the output projection.
  void set_embedding_adapter(std::unique_ptr<EmbeddingAdapter> adapter) {
    embedding_adapter_ = std::move(adapter);
  }
  void set_output_adapter(std::unique_ptr<OutputAdapter> adapter) {
    output_adapter_ = std::move(adapter);
  }

  const ForwardPass& pass() const { return pass_; }
  // What the model's own dropout (attention_dropout, of probabilities) draws from. Before the first
  // loss().
  void seed_dropout(uint64_t seed) { pass_.seed = seed; }
  // As if loss() had been called so many times: a run that is resumed draws its dropout from there
  // on.
  void resume_at_pass(int64_t number) { pass_.number = number; }

  // The MLP of a layer computes the positions of a micro-batch in `tiles` parts (ops/row_tiles.h).
  // RunError(kUnsupported) for a mixture of experts, which sorts all of them.
  void tile_mlps(int64_t tiles);

  // The transformer layers: the units of sharding and of checkpointing. Names of the parameters of
  // layer i begin with names().layer_prefix and i.
  int64_t layer_count() const { return config_.num_hidden_layers; }

  // torch.autocast: linears, attention and the output projection compute in `dtype`, whatever dtype
  // the parameters have; norms and the residual stream keep theirs. Set after adapters are in
  // place.
  void set_compute_dtype(torch::Dtype dtype);

  // Everything computes in `dtype`, norms and the residual stream included; parameters keep theirs
  // and are cast where they are used.
  void compute_in(torch::Dtype dtype);

  // The linears of the layers multiply in float8, all else as set_compute_dtype(bfloat16) says:
  // what accelerate's fp8 leaves to autocast. RunError(kUnsupported) naming the first linear that
  // cannot.
  void multiply_in_fp8();

  // Of a mixture: each rank of `group`, which outlives the model, has a part of the experts, and
  // rows go to them (model/expert_group.h). From then on parameters with experts hold this rank's
  // rows, or, where each expert has tensors of its own, nothing for those of other ranks. No effect
  // on models without experts.
  virtual void divide_experts(ExpertGroup&) {}

  // Of a mixture: how often the positions of this rank chose each expert since the last call, layer
  // by layer. Padding counts, a layer that runs again does not. Empty for models without experts.
  virtual std::vector<int64_t> take_expert_choices() { return {}; }

 protected:
  EmbeddingAdapter* embedding_adapter() const { return embedding_adapter_.get(); }
  OutputAdapter* output_adapter() const { return output_adapter_.get(); }
  // The dtype of the residual stream that begins with rows of the embedding.
  torch::Tensor to_stream_dtype(const torch::Tensor& rows) const;
  const ops::KernelChoice& kernels() const { return kernels_; }
  // Where adapters are silent in the rows that begin.
  void silence_adapters(const TokenRows& rows) { pass_.silent = rows.silent; }
  // What is told of the choices of a mixture of experts; null where no auxiliary loss is asked for.
  RouterBalance* balance() { return balance_.get(); }
  // Parts that are no linears compute in `dtype` from now on.
  virtual void follow_compute_dtype(torch::Dtype) {}

 private:
  LossParts loss_parts(const TokenRows& rows, const torch::Tensor& labels,
                       const ops::LossDenominator& denominator, LayerRunner& runner);
  torch::Tensor logits_of(torch::Tensor hidden) const;

  ModelConfig config_;
  ops::KernelChoice kernels_;
  ForwardPass pass_;
  std::optional<torch::Dtype> compute_dtype_, stream_dtype_;
  std::unique_ptr<RouterBalance> balance_;
  std::unique_ptr<EmbeddingAdapter> embedding_adapter_;
  std::unique_ptr<OutputAdapter> output_adapter_;
};

// Builds the model that a Hugging Face config.json describes, with uninitialized parameters that
// require no gradient; on the device "meta" they have shapes and no memory. InputError: unknown
// model_type or architecture (the known ones are listed), missing or impossible fields.
std::unique_ptr<CausalLm> make_causal_lm(const Json& hf_config, torch::Dtype dtype,
                                         torch::Device device,
                                         const ops::KernelChoice& kernels = {});

// Which elements of each parameter are to be set, by its name; the others are left as they are.
using WantedElements = std::function<ElementRange(const std::string& name)>;
inline ElementRange every_element(const std::string&) {
  return kEveryElement;
}

// Hugging Face's initializer: linears and embeddings normal(0, initializer_range), norms 1, biases
// 0; drawn parameter by parameter from a generator seeded by (seed, name), so the values do not
// depend on order, device or ranks. Norms, biases and quantized linears of which any element is
// wanted are set whole. `work`, when given, counts the bytes of parameters that have their values;
// norms and biases, which are small, are left out.
void initialize_randomly(CausalLm& model, uint64_t seed,
                         const WantedElements& wanted = every_element, WorkCount* work = nullptr);

// Loads model.safetensors or the shards of model.safetensors.index.json from `directory` into the
// model, converting to its dtype and device. Reads no more than the wanted elements. InputError
// listing every missing, unexpected and wrongly shaped tensor; of parameters of which nothing is
// wanted, none. `work`, when given, counts the bytes of parameters that have their values.
void load_weights(CausalLm& model, const std::string& directory,
                  const WantedElements& wanted = every_element, WorkCount* work = nullptr);

// Throws what load_weights() would, and loads nothing.
void check_weights(CausalLm& model, const std::string& directory);

// Grows (never shrinks) the embedding and an untied output projection to `vocabulary_size` rows;
// the new rows are the mean of the old ones, as fms-hf-tuning sets them.
void resize_vocabulary(CausalLm& model, int64_t vocabulary_size);

}  // namespace sftbench
