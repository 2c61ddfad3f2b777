// Expert parallelism put together: which tensors of a model hold experts, which of their values
// this rank keeps, and the exchange of rows over the ranks' communicators.
#pragma once

#include <vector>

#include "sftbench/model/causal_lm.h"
#include "sftbench/model/expert_group.h"
#include "sftbench/parallel/parallel_parameters.h"

namespace sftbench {

// Takes the tensors of experts out of the units.
std::vector<ExpertTensor> take_experts(CausalLm& model, std::vector<ParameterUnit>& units,
                                       const ProcessMesh& mesh);

// Gives this rank's experts their values, layer by layer, and cuts tensors of several experts to
// its rows. `fill` sets wanted elements of whole tensors.
void fill_experts(const std::vector<ExpertTensor>& experts, ProcessMesh& mesh,
                  const FillUnit& fill);

class RankExperts : public ExpertGroup {
 public:
  RankExperts(ProcessMesh& mesh, torch::Device device) : mesh_(mesh), device_(device) {}

  int64_t size() const override { return mesh_.shape().experts; }
  int64_t rank() const override { return mesh_.experts().rank(); }
  torch::Tensor exchange_counts(const torch::Tensor& counts) override;
  Wait start(const torch::Tensor& rows, const std::vector<int64_t>& sent,
             const torch::Tensor& received, const std::vector<int64_t>& count) override;

  double take_wait_seconds();

 private:
  void wait(PendingCollective& pending);

  ProcessMesh& mesh_;
  torch::Device device_;
  double waited_s_ = 0;
};

}  // namespace sftbench
