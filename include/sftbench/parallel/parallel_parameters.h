// How the parameters of a model are spread over ranks while it trains. A model's parameters come as
// units: the transformer layers, each gathered, used and freed as one, and a root unit with the
// rest (embedding, final norm, output projection), which stays gathered for a whole pass. Who runs
// the model calls the verbs below around each unit; nothing here knows models.
//
//                       parameters at rest   after forward   gradients are
//   DDP, NO_SHARD       whole                -               all-reduced, in buckets
//   SHARD_OPTIM         whole                -               reduce-scattered, in buckets; updated
//                                                            parameters are gathered
//   FULL_SHARD          1/N                  freed           reduce-scattered, unit by unit
//   SHARD_GRAD_OP       1/N                  kept            reduce-scattered, unit by unit
//   HYBRID_SHARD        1/N of a node's N    freed           reduce-scattered in the node,
//                                                            all-reduced over nodes
//   HYBRID_SHARD_ZERO2  1/N of a node's N    kept            likewise
//
// Gradients are sums over all ranks: a loss is divided by the number of tokens of all of them, so
// that nothing is left to average. Source: PyTorch FSDP2 (semantics), FSDP's ShardingStrategy.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/element_range.h"
#include "sftbench/parallel/process_mesh.h"

namespace sftbench {

// `tensor` points into the model; its requires_grad says whether it trains.
struct UnitTensor {
  std::string name;
  torch::Tensor* tensor;
  // Of the root unit: read behind the layers only (final norm, output projection), so that its
  // gradient is complete when the backward pass comes to the last layer.
  bool behind_layers = false;
  // Gathered in its own dtype whatever the others are gathered in: the scales of quantized weights.
  bool keeps_dtype = false;
};

struct ParameterUnit {
  std::string name;  // "model.layers.3"
  std::vector<UnitTensor> tensors;
};

// What an optimizer updates: a whole trained parameter, or this rank's part of one as a [n] vector.
// Its .grad() is what gradients() of the same place holds.
struct OwnedTensor {
  std::string name;  // the parameter's
  torch::Tensor tensor;
  std::vector<int64_t> shape;  // of the whole parameter
  int64_t begin = 0;           // the first element of the parameter, row by row, that is owned
  // Of the ranks that own the same elements one saves them.
  bool saved_here = true;
};

// A tensor of a mixture's experts, which a group of ranks (ProcessMesh::experts()) divides.
struct ExpertTensor {
  std::string name;
  torch::Tensor* tensor;       // into the model: this rank's rows, or nothing of another's
  std::vector<int64_t> shape;  // of the whole parameter
  int64_t layer = 0;           // whose backward pass gives its gradient
  int64_t part = -1;           // of the group that has it whole; -1: each has its rows
};

// A parameter as it is kept: where GEMMs compute in another dtype, not in that one.
struct ParameterInfo {
  std::string name;
  std::vector<int64_t> shape;
  torch::Dtype dtype;
  bool trains;
};

// An array that a rank keeps its parts of trained parameters in, padding included.
struct FlatArray {
  struct Part {
    size_t owned;    // number in owned()
    int64_t offset;  // in elements
  };
  std::string name;
  torch::Tensor values;
  std::vector<Part> parts;
  bool saved_here = true;  // as OwnedTensor's
};

// Bytes, counted from the tensors that there are.
struct ParallelMemory {
  int64_t parameters = 0;  // at rest
  int64_t gradients = 0;   // that the optimizer is given
  int64_t gathered_peak =
      0;  // the most that gathered units and gradients before their reduction took
};

// One optimization step: for each micro-batch begin_micro_batch(), the forward pass with
// before_forward(i), after_forward(i) around layer i in rising order, begin_backward(), the
// backward pass with before_backward(i) in falling order as soon as the gradient of layer i's
// output is there, end_backward(). A layer that is recomputed calls before_forward(i) and
// after_forward(i) again, in the backward pass, instead of or besides before_backward(i). After the
// last micro-batch the owned tensors have their gradients.
class ParallelParameters {
 public:
  virtual ~ParallelParameters() = default;

  virtual const std::vector<OwnedTensor>& owned() const = 0;

  // Whether the model's parameters are there outside of the verbs below, too.
  virtual bool whole() const = 0;
  // Whether they are from the end of a forward pass to the update.
  virtual bool whole_in_step() const { return whole(); }

  // The root unit is there when it returns, and the units are for forward passes without backward
  // ones, until end_evaluation(): each with before_forward(i), expect_backward(i, false) and
  // after_forward(i). Between steps.
  virtual void begin_evaluation() = 0;
  virtual void end_evaluation() = 0;

  // The root unit is there when it returns. `first`: of its optimization step; `last` likewise.
  virtual void begin_micro_batch(bool first, bool last) = 0;
  virtual void before_forward(int64_t unit) = 0;
  virtual void after_forward(int64_t unit) = 0;
  virtual void begin_backward() = 0;
  // Whether layer `unit` has a backward pass in this micro-batch, known after its forward pass.
  virtual void expect_backward(int64_t unit, bool expected) = 0;
  virtual void before_backward(int64_t unit) = 0;
  virtual void end_backward() = 0;

  // Drops the gradients, or marks them as to be written anew.
  virtual void drop_gradients() = 0;

  // The 2-norm over the gradients of all parameters; `norm_of` is asked for that of some of the
  // owned ones. Collective.
  using NormOf = std::function<double(const std::vector<torch::Tensor>& gradients)>;
  virtual double global_norm(const NormOf& norm_of) = 0;

  // Collective: every parameter, or those that train, whole and in the dtype that it is kept in, in
  // inventory()'s order, unit by unit; no more than one unit is whole at a time.
  using Visit = std::function<void(const std::string& name, const torch::Tensor& values)>;
  enum class Visited { kAll, kTrained };
  virtual void visit_whole(const Visit& visit, Visited visited = Visited::kAll) = 0;
  virtual std::vector<ParameterInfo> inventory() const = 0;
  // None where every parameter is a tensor of its own.
  virtual std::vector<FlatArray> flat_arrays() const = 0;
  // A parameter becomes `values`, which every rank has whole, on any device and of any dtype.
  virtual void put_whole(const std::string& name, const torch::Tensor& values) = 0;

  virtual ParallelMemory memory() const = 0;

  // Time in which this thread waited for other ranks since the last call, seconds. On GPUs the
  // stream waits instead: ProcessMesh::take_wait_seconds().
  virtual double take_wait_seconds() = 0;
};

// One rank: nothing is gathered, gradients stay where autograd puts them.
std::unique_ptr<ParallelParameters> keep_parameters(const std::vector<ParameterUnit>& units);

// Gradients are reduced in buckets of 25 MiB (the first, which is ready first, of 1 MiB), in the
// order in which the backward pass completes them, or unit by unit.
enum class Buckets { kBySize, kByUnit };
std::unique_ptr<ParallelParameters> replicate_parameters(const std::vector<ParameterUnit>& units,
                                                         ProcessMesh& mesh, Buckets buckets);

// As kBySize, but each rank is given a part of every bucket's gradients, and updates these
// parameters: the state of the optimizer is divided. Updated parameters are gathered in the next
// forward pass.
std::unique_ptr<ParallelParameters> shard_optimizer(const std::vector<ParameterUnit>& units,
                                                    ProcessMesh& mesh);

struct ShardingOptions {
  bool reshard_after_forward = true;
  // "each": gradients of every micro-batch are reduce-scattered; else they add up, unsharded, and
  // are reduced after the last.
  bool reduce_each_micro_batch = false;
  // Parameters are gathered and used in this dtype; their own where it is not given. Of floating
  // point parameters only.
  std::optional<torch::Dtype> compute_dtype = {};
  // Gradients are reduced in this dtype; the one they are computed in where it is not given.
  std::optional<torch::Dtype> reduce_dtype = {};
  // Shards and their gradients, and so the owned tensors, are in the host's memory. A shard is
  // copied to where its unit is gathered, beside the computation, and a gradient to the host as
  // soon as it is reduced. On CPUs that is the same memory, and a copy.
  bool offload = false;
};

// Gives the parameters of a unit their values, and memory where they have none: kept[i] are the
// elements of unit.tensors[i] that matter, those of this rank's shard.
using FillUnit =
    std::function<void(const ParameterUnit& unit, const std::vector<ElementRange>& kept)>;

// units[0] is the root unit, units[1 + i] layer i. The parameters' values become shards, unit by
// unit: `fill` is called just before, so that no more than one unit need be there at a time.
std::unique_ptr<ParallelParameters> shard_parameters(const std::vector<ParameterUnit>& units,
                                                     ProcessMesh& mesh,
                                                     const ShardingOptions& options,
                                                     const FillUnit& fill);

struct DivisionOptions {
  std::optional<torch::Dtype> reduce_dtype = {};  // as in ShardingOptions
  // Of who exchanges rows: seconds of waiting since the last call.
  std::function<double()> take_wait_seconds = [] { return 0.0; };
};

// `others`: all parameters but `experts`, spread as above. Experts are trained where they are:
// their gradients are sums over the rows that came from the ranks of a group, and are summed over
// groups in the backward pass of the last micro-batch.
std::unique_ptr<ParallelParameters> divide_experts(std::unique_ptr<ParallelParameters> others,
                                                   std::vector<ExpertTensor> experts,
                                                   ProcessMesh& mesh,
                                                   const DivisionOptions& options);

// The gradients of owned tensors, where there are any.
std::vector<torch::Tensor> gradients_of(const std::vector<OwnedTensor>& owned);

// A tensor of this shape, dtype and device that takes no memory: what stands in a model for a
// parameter that is elsewhere.
torch::Tensor placeholder(torch::IntArrayRef shape, torch::TensorOptions options);

}  // namespace sftbench
