// Context parallelism put together: the exchange of keys and sums over the ranks' communicator, and
// each rank's part of a micro-batch.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sftbench/data/micro_batch.h"
#include "sftbench/model/context_group.h"
#include "sftbench/parallel/process_mesh.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

class RankContext : public ContextGroup {
 public:
  // `mesh` outlives this.
  RankContext(ProcessMesh& mesh, torch::Device device) : mesh_(mesh), device_(device) {}

  int64_t size() const override { return mesh_.shape().context; }
  int64_t rank() const override { return mesh_.context().rank(); }
  Wait exchange(const torch::Tensor& from, const std::vector<int64_t>& sent,
                const torch::Tensor& to, const std::vector<int64_t>& received) override;
  Wait all_gather(const torch::Tensor& all, const torch::Tensor& own) override;
  Wait reduce_scatter(const torch::Tensor& own, const torch::Tensor& all) override;
  void all_reduce(const torch::Tensor& tensor) override;

  // Of rows whose length all ranks can divide (divisible_rows()).
  std::shared_ptr<const ContextPart> part_of(const MicroBatch& rows);

  double take_wait_seconds();

 private:
  Wait waiting(PendingCollective pending);

  ProcessMesh& mesh_;
  torch::Device device_;
  double waited_s_ = 0;
};

// The same entries in rows that `ranks` can divide: padded further, a row of several entries by a
// sequence of padding behind them.
MicroBatch divisible_rows(MicroBatch rows, int64_t ranks, int64_t pad_id);

// A rank's part of a whole, such that those of all ranks add up.
int64_t share_of(int64_t whole, int64_t rank, int64_t ranks);

}  // namespace sftbench
