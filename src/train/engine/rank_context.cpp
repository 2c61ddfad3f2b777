#include "engine/rank_context.h"

#include <utility>

#include "sftbench/base/clock.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/linear_cross_entropy.h"

namespace sftbench {

using torch::Tensor;

ContextGroup::Wait RankContext::waiting(PendingCollective pending) {
  const auto shared = std::make_shared<PendingCollective>(std::move(pending));
  return [this, shared] {
    const double begin_s = steady_seconds();
    shared->wait();
    waited_s_ += steady_seconds() - begin_s;
  };
}

ContextGroup::Wait RankContext::exchange(const Tensor& from, const std::vector<int64_t>& sent,
                                         const Tensor& to, const std::vector<int64_t>& received) {
  return waiting(mesh_.context().all_to_all(to.view(-1), from.view(-1), received, sent));
}

ContextGroup::Wait RankContext::all_gather(const Tensor& all, const Tensor& own) {
  return waiting(mesh_.context().all_gather(all.view({size(), -1}), own.view(-1)));
}

ContextGroup::Wait RankContext::reduce_scatter(const Tensor& own, const Tensor& all) {
  return waiting(mesh_.context().reduce_scatter(own.view(-1), all.view({size(), -1})));
}

void RankContext::all_reduce(const Tensor& tensor) {
  waiting(mesh_.context().all_reduce(tensor, Reduction::kSum))();
}

std::shared_ptr<const ContextPart> RankContext::part_of(const MicroBatch& rows) {
  std::vector<int64_t> offsets;
  if (rows.one_row) {
    offsets.push_back(0);
    for (const int64_t length : rows.lengths) offsets.push_back(offsets.back() + length);
  }
  ContextLayout layout(size(), rows.length, std::move(offsets));
  const Tensor positions = torch::tensor(layout.positions(rank()), torch::kInt64).to(device_);
  return std::make_shared<ContextPart>(ContextPart{this, std::move(layout), positions});
}

double RankContext::take_wait_seconds() {
  return std::exchange(waited_s_, 0.0);
}

MicroBatch divisible_rows(MicroBatch rows, int64_t ranks, int64_t pad_id) {
  const int64_t length = ContextLayout::padded_length(rows.length, ranks);
  const int64_t more = length - rows.length;
  if (more == 0) return rows;
  const auto widened = [&](const std::vector<int64_t>& values, int64_t filler) {
    std::vector<int64_t> wide;
    wide.reserve(static_cast<size_t>(rows.batch * length));
    for (int64_t row = 0; row < rows.batch; ++row) {
      const auto begin = values.begin() + row * rows.length;
      wide.insert(wide.end(), begin, begin + rows.length);
      wide.insert(wide.end(), static_cast<size_t>(more), filler);
    }
    return wide;
  };
  rows.input_ids = widened(rows.input_ids, pad_id);
  rows.labels = widened(rows.labels, ops::kIgnoredLabel);
  if (rows.one_row) rows.lengths.push_back(more);
  rows.length = length;
  rows.padded_tokens += rows.batch * more;
  rows.padding_tokens += rows.batch * more;
  return rows;
}

int64_t share_of(int64_t whole, int64_t rank, int64_t ranks) {
  return whole * (rank + 1) / ranks - whole * rank / ranks;
}

}  // namespace sftbench
