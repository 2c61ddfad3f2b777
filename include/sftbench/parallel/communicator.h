// Collective operations among the processes that train one job. Every rank calls the same ones in
// the same order. Source of the names and meanings: NCCL.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>

namespace sftbench {

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t world_size() const = 0;

  // tensor := sum over ranks of tensor, in place.
  virtual void all_reduce(torch::Tensor& tensor) = 0;
  // output [world_size * n] := the ranks' inputs [n], in rank order.
  virtual void all_gather(torch::Tensor& output, const torch::Tensor& input) = 0;
  // output [n] := this rank's slice of the sum over ranks of input [world_size * n].
  virtual void reduce_scatter(torch::Tensor& output, const torch::Tensor& input) = 0;
  // tensor := root's tensor.
  virtual void broadcast(torch::Tensor& tensor, int64_t root) = 0;
  // Returns when every rank has called it.
  virtual void barrier() = 0;
};

// A world of one: every sum has one term.
std::unique_ptr<Communicator> make_local_communicator();

}  // namespace sftbench
