#include "model/expert_exchange.h"

#include <numeric>
#include <utility>

#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows that are under way in one direction, and, in the backward pass, their gradients in the
// other. Begin starts what End waits for, so that what runs between the two runs beside the
// exchange; the backward pass of End starts what that of Begin waits for.
struct Journey : torch::CustomClassHolder {
  ExpertGroup* group = nullptr;
  std::vector<int64_t> sent, received;
  ExpertGroup::Wait wait;
  Tensor from, to;  // of what is under way

  void start(const Tensor& rows, const std::vector<int64_t>& out, const std::vector<int64_t>& in) {
    from = rows.contiguous();
    const int64_t count = std::accumulate(in.begin(), in.end(), int64_t{0});
    to = torch::empty({count, rows.size(1)}, rows.options().requires_grad(false));
    wait = group->start(from, out, to, in);
  }
  Tensor finish() {
    wait();
    wait = {};
    from = Tensor();
    return std::exchange(to, {});
  }
};
using JourneyHandle = c10::intrusive_ptr<Journey>;

JourneyHandle journey_of(AutogradContext* ctx) {
  return c10::static_intrusive_pointer_cast<Journey>(ctx->saved_data["journey"].toCapsule());
}

class Begin : public torch::autograd::Function<Begin> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& rows, const JourneyHandle& journey) {
    ctx->saved_data["journey"] = c10::IValue::make_capsule(journey);
    journey->start(rows, journey->sent, journey->received);
    return journey->to;
  }
  static variable_list backward(AutogradContext* ctx, variable_list) {
    return {journey_of(ctx)->finish(), Tensor()};
  }
};

class End : public torch::autograd::Function<End> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& rows, const JourneyHandle& journey) {
    ctx->saved_data["journey"] = c10::IValue::make_capsule(journey);
    journey->finish();
    return rows.detach();
  }
  // What it returns is not used: the gradient is under way to Begin.
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const JourneyHandle journey = journey_of(ctx);
    journey->start(gradients[0], journey->received, journey->sent);
    return {gradients[0], Tensor()};
  }
};

Tensor travel(ExpertGroup& group, const Tensor& rows, const std::vector<int64_t>& sent,
              const std::vector<int64_t>& received, const std::function<void()>& meanwhile) {
  auto journey = c10::make_intrusive<Journey>();
  journey->group = &group;
  journey->sent = sent;
  journey->received = received;
  const Tensor under_way = Begin::apply(rows, journey);
  if (meanwhile) meanwhile();
  return End::apply(under_way, journey);
}

// Row i of the result is row order[i]; `inverse` is the inverse permutation.
class Permute : public torch::autograd::Function<Permute> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& rows, const Tensor& order,
                        const Tensor& inverse) {
    ctx->save_for_backward({inverse});
    return rows.index_select(0, order);
  }
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    return {gradients[0].index_select(0, ctx->get_saved_variables()[0]), Tensor(), Tensor()};
  }
};

}  // namespace

ExpertExchange::ExpertExchange(ExpertGroup& group, const std::vector<int64_t>& offsets)
    : group_(&group) {
  const int64_t ranks = group.size();
  const int64_t own = (static_cast<int64_t>(offsets.size()) - 1) / ranks;
  const Tensor counts = torch::empty({ranks, own}, torch::kInt64);
  for (int64_t e = 0; e < ranks * own; ++e) {
    const auto at = static_cast<size_t>(e);
    counts.data_ptr<int64_t>()[e] = offsets[at + 1] - offsets[at];
  }
  const Tensor here = group.exchange_counts(counts);
  for (int64_t r = 0; r < ranks; ++r) {
    sent_.push_back(counts[r].sum().item<int64_t>());
    received_.push_back(here[r].sum().item<int64_t>());
  }
  const auto* rows_of = here.data_ptr<int64_t>();
  const int64_t all = std::accumulate(received_.begin(), received_.end(), int64_t{0});
  by_expert_ = torch::empty({all}, torch::kInt64);
  by_rank_ = torch::empty({all}, torch::kInt64);
  // Where the rows of (rank, expert) begin as they come.
  std::vector<int64_t> begin(static_cast<size_t>(ranks * own) + 1);
  std::partial_sum(rows_of, rows_of + ranks * own, begin.begin() + 1);
  int64_t sorted = 0;
  own_offsets_.push_back(0);
  for (int64_t e = 0; e < own; ++e) {
    for (int64_t r = 0; r < ranks; ++r) {
      const int64_t first = begin[static_cast<size_t>(r * own + e)];
      for (int64_t i = 0; i < rows_of[r * own + e]; ++i, ++sorted) {
        by_expert_.data_ptr<int64_t>()[sorted] = first + i;
        by_rank_.data_ptr<int64_t>()[first + i] = sorted;
      }
    }
    own_offsets_.push_back(sorted);
  }
}

Tensor ExpertExchange::scatter(const Tensor& rows, const std::function<void()>& meanwhile) const {
  const Tensor here = travel(*group_, rows, sent_, received_, meanwhile);
  const auto device = rows.device();
  return Permute::apply(here, by_expert_.to(device), by_rank_.to(device));
}

Tensor ExpertExchange::gather(const Tensor& rows) const {
  const auto device = rows.device();
  const Tensor by_rank = Permute::apply(rows, by_rank_.to(device), by_expert_.to(device));
  return travel(*group_, by_rank, received_, sent_, {});
}

}  // namespace sftbench
