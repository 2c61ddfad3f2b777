#include "engine/divided_experts.h"

#include <map>
#include <memory>
#include <utility>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/route.h"

namespace sftbench {
namespace {

using torch::Tensor;

// Elements of the whole tensor that this rank keeps.
ElementRange kept_of(const ExpertTensor& expert, const ProcessMesh& mesh, int64_t rank) {
  if (expert.part >= 0) return expert.part == rank ? kEveryElement : ElementRange{};
  const int64_t elements = expert.tensor->numel() / mesh.shape().experts;
  return {rank * elements, (rank + 1) * elements};
}

// The tensor is whole, with the values that are kept.
void cut(const ExpertTensor& expert, const ProcessMesh& mesh, int64_t rank) {
  const torch::NoGradGuard no_grad;
  Tensor& tensor = *expert.tensor;
  const bool trains = tensor.requires_grad();
  if (expert.part < 0) {
    const int64_t rows = tensor.size(0) / mesh.shape().experts;
    tensor = tensor.detach().narrow(0, rank * rows, rows).clone();
  } else if (expert.part != rank) {
    tensor = placeholder(expert.shape, tensor.options().requires_grad(false));
  }
  tensor.set_requires_grad(trains);
}

}  // namespace

std::vector<ExpertTensor> take_experts(CausalLm& model, std::vector<ParameterUnit>& units,
                                       const ProcessMesh& mesh) {
  std::map<std::string, NamedParameter> holders;
  for (const NamedParameter& parameter : model.parameters()) {
    if (parameter.experts > 0) holders.emplace(parameter.name, parameter);
  }
  check(!holders.empty(), "only the experts of mixtures are divided");
  const int64_t of_a_rank = model.config().experts->count / mesh.shape().experts;
  std::vector<ExpertTensor> experts;
  for (size_t unit = 0; unit < units.size(); ++unit) {
    const auto layer = static_cast<int64_t>(unit) - 1;
    std::erase_if(units[unit].tensors, [&](const UnitTensor& named) {
      const auto found = holders.find(named.name);
      if (found == holders.end()) return false;
      const NamedParameter& holder = found->second;
      const int64_t part = holder.experts > 1 ? -1 : holder.first_expert / of_a_rank;
      experts.push_back({named.name, named.tensor, named.tensor->sizes().vec(), layer, part});
      return true;
    });
  }
  return experts;
}

void fill_experts(const std::vector<ExpertTensor>& experts, ProcessMesh& mesh,
                  const FillUnit& fill) {
  const int64_t rank = mesh.experts().rank();
  for (size_t first = 0; first < experts.size();) {
    ParameterUnit layer{"experts", {}};
    std::vector<ElementRange> kept;
    size_t end = first;
    for (; end < experts.size() && experts[end].layer == experts[first].layer; ++end) {
      layer.tensors.push_back({experts[end].name, experts[end].tensor});
      kept.push_back(kept_of(experts[end], mesh, rank));
    }
    fill(layer, kept);
    for (; first < end; ++first) cut(experts[first], mesh, rank);
  }
}

Tensor RankExperts::exchange_counts(const Tensor& counts) {
  // Of a rehearsal's other ranks, which send what this one sends. Counts are exchanged all the
  // same.
  const bool assumed = ops::EvenRoutes::are_assumed();
  const Tensor sent = counts.to(device_);
  const Tensor received = torch::empty_like(sent);
  PendingCollective pending = mesh_.experts().all_to_all(received, sent);
  wait(pending);
  const Tensor here = received.cpu();
  return assumed ? counts : here;
}

ExpertGroup::Wait RankExperts::start(const Tensor& rows, const std::vector<int64_t>& sent,
                                     const Tensor& received, const std::vector<int64_t>& count) {
  const auto elements = [width = rows.size(1)](std::vector<int64_t> parts) {
    for (int64_t& part : parts) part *= width;
    return parts;
  };
  auto pending = std::make_shared<PendingCollective>(
      mesh_.experts().all_to_all(received, rows, elements(count), elements(sent)));
  return [this, pending] { wait(*pending); };
}

void RankExperts::wait(PendingCollective& pending) {
  const double begin_s = steady_seconds();
  pending.wait();
  waited_s_ += steady_seconds() - begin_s;
}

double RankExperts::take_wait_seconds() {
  return std::exchange(waited_s_, 0.0);
}

}  // namespace sftbench
