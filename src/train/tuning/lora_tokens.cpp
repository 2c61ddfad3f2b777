#include "tuning/lora_tokens.h"

#include <utility>

#include "sftbench/base/torch.h"
#include "sftbench/ops/linear.h"
#include "tuning/adapter_dropout.h"

namespace sftbench {
namespace {

class LoraEmbedding : public EmbeddingAdapter {
 public:
  LoraEmbedding(std::string module, ops::LowRankFactors factors, double scale, int64_t padding_row)
      : module_(std::move(module)),
        factors_(std::move(factors)),
        scale_(scale),
        padding_row_(padding_row) {}

  torch::Tensor add_to(const torch::Tensor& rows, const torch::Tensor& ids) const override {
    const torch::Tensor narrow =
        at::embedding(factors_.a.t(), ids, padding_row_, /*scale_grad_by_freq=*/false,
                      /*sparse=*/false);
    const torch::Tensor added = at::linear(narrow, factors_.b) * scale_;
    return (rows + added).to(rows.scalar_type());
  }

  void append_parameters(std::vector<NamedParameter>& parameters) override {
    parameters.push_back({module_ + ".lora_embedding_A", &factors_.a});
    parameters.push_back({module_ + ".lora_embedding_B", &factors_.b});
  }

 private:
  std::string module_;
  ops::LowRankFactors factors_;
  double scale_;
  int64_t padding_row_;
};

class LoraOutput : public OutputAdapter {
 public:
  LoraOutput(std::string module, ops::LowRankFactors factors, double scale, double dropout,
             uint64_t stream, const ForwardPass& pass)
      : module_(std::move(module)),
        factors_(std::move(factors)),
        scale_(scale),
        dropout_(dropout),
        stream_(stream),
        pass_(pass) {}

  Product product(const torch::Tensor& hidden) const override {
    const auto dtype = hidden.scalar_type();
    const torch::Tensor kept = ops::dropout(hidden, adapter_dropout(dropout_, stream_, pass_));
    return {ops::linear(kept, factors_.a.to(dtype)) * scale_, factors_.b.to(dtype)};
  }

  void append_parameters(std::vector<NamedParameter>& parameters) override {
    parameters.push_back({module_ + ".lora_A.weight", &factors_.a});
    parameters.push_back({module_ + ".lora_B.weight", &factors_.b});
  }

 private:
  std::string module_;
  ops::LowRankFactors factors_;
  double scale_, dropout_;
  uint64_t stream_;
  const ForwardPass& pass_;  // of the model that this belongs to
};

}  // namespace

std::unique_ptr<EmbeddingAdapter> make_embedding_adapter(std::string module,
                                                         ops::LowRankFactors factors, double scale,
                                                         int64_t padding_row) {
  return std::make_unique<LoraEmbedding>(std::move(module), std::move(factors), scale, padding_row);
}

std::unique_ptr<OutputAdapter> make_output_adapter(std::string module, ops::LowRankFactors factors,
                                                   double scale, double dropout, uint64_t stream,
                                                   const ForwardPass& pass) {
  return std::make_unique<LoraOutput>(std::move(module), std::move(factors), scale, dropout, stream,
                                      pass);
}

}  // namespace sftbench
