// The schedules of sharded parameters and of a sharded optimizer, with a communicator that records
// and poisons, and their values and gradients for shapes that do not divide, against sums made
// here.
#include "sftbench/parallel/parallel_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/rank_processes.h"
#include "parallel/recording_communicator.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;

// Tensors in units, and what a model would do with them.
class ToyModel {
 public:
  explicit ToyModel(const std::vector<std::vector<std::vector<int64_t>>>& shapes,
                    torch::Dtype dtype = torch::kFloat32) {
    int64_t number = 0;
    for (size_t unit = 0; unit < shapes.size(); ++unit) {
      units_.push_back({name_of("unit ", static_cast<int64_t>(unit)), {}});
      for (const std::vector<int64_t>& shape : shapes[unit]) {
        tensors_.push_back(values(number, shape).to(dtype).set_requires_grad(true));
        shapes_.push_back(shape);
        units_.back().tensors.push_back({name_of("t", number++), &tensors_.back()});
      }
    }
  }

  static torch::Tensor values(int64_t number, const std::vector<int64_t>& shape) {
    int64_t numel = 1;
    for (const int64_t size : shape) numel *= size;
    // Exact in bfloat16.
    const torch::Tensor eighths = torch::arange(numel, torch::kFloat32).remainder(16) / 8;
    return (eighths + static_cast<double>(number)).reshape(shape).to(rank_device());
  }

  static std::string name_of(const char* what, int64_t number) {
    return std::string(what).append(std::to_string(number));
  }

  void freeze(const std::string& name) {
    for (const ParameterUnit& unit : units_) {
      for (const UnitTensor& named : unit.tensors) {
        if (named.name == name) named.tensor->set_requires_grad(false);
      }
    }
  }

  const std::vector<ParameterUnit>& units() const { return units_; }
  int64_t layers() const { return static_cast<int64_t>(units_.size()) - 1; }
  const std::vector<int64_t>& shape(int64_t number) const {
    return shapes_[static_cast<size_t>(number)];
  }
  int64_t count() const { return static_cast<int64_t>(shapes_.size()); }

  // The parameters of a unit are those that it began with.
  void expect_there(size_t unit) const {
    for (const UnitTensor& named : units_[unit].tensors) {
      const int64_t number = std::stoll(named.name.substr(1));
      EXPECT_TRUE(
          torch::equal(named.tensor->detach().to(torch::kFloat32), values(number, shape(number))))
          << named.name;
    }
  }

  // What a backward pass does: adds to the gradients that are there.
  void add_gradients(size_t unit, double factor) {
    const torch::NoGradGuard no_grad;
    for (const UnitTensor& named : units_[unit].tensors) {
      if (!named.tensor->requires_grad()) continue;
      named.tensor->mutable_grad().add_(torch::ones_like(named.tensor->grad()), factor);
    }
  }

 private:
  std::deque<torch::Tensor> tensors_;
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<ParameterUnit> units_;
};

void nothing(const ParameterUnit&, const std::vector<ElementRange>&) {}

// Takes away what a rank says that it does not keep.
void only_what_is_kept(const ParameterUnit& unit, const std::vector<ElementRange>& kept) {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < unit.tensors.size(); ++i) {
    torch::Tensor& tensor = *unit.tensors[i].tensor;
    const torch::Tensor values = tensor.detach().reshape(-1);
    const torch::Tensor rest = torch::full_like(values, -1e4);
    const ElementRange range = kept[i].within(values.numel());
    if (!range.empty()) {
      rest.slice(0, range.begin, range.end).copy_(values.slice(0, range.begin, range.end));
    }
    tensor.set_data(rest.view(tensor.sizes()));
  }
}

void run_micro_batch(ToyModel& model, ParallelParameters& parameters, bool first, bool last,
                     double factor, const std::function<void(const std::string&)>& mark) {
  parameters.begin_micro_batch(first, last);
  model.expect_there(0);
  for (int64_t layer = 0; layer < model.layers(); ++layer) {
    parameters.before_forward(layer);
    mark(ToyModel::name_of("forward ", layer));
    model.expect_there(static_cast<size_t>(layer) + 1);
    parameters.expect_backward(layer, true);
    parameters.after_forward(layer);
  }
  mark("loss");
  parameters.begin_backward();
  for (int64_t layer = model.layers(); layer-- > 0;) {
    parameters.before_backward(layer);
    mark(ToyModel::name_of("backward ", layer));
    model.expect_there(static_cast<size_t>(layer) + 1);
    model.add_gradients(static_cast<size_t>(layer) + 1, factor);
  }
  model.expect_there(0);
  model.add_gradients(0, factor);
  parameters.end_backward();
  mark("end");
}

struct Recorded {
  std::shared_ptr<CommunicationLog> log = std::make_shared<CommunicationLog>();
  ProcessMesh mesh{
      {.replicas = 1, .shards = 1}, 0, [this](const std::string& name, const std::vector<int>&) {
        return std::make_unique<RecordingCommunicator>(name, make_local_communicator(), log);
      }};
};

const std::vector<std::vector<std::vector<int64_t>>> kThreeLayers = {{{4}}, {{5}}, {{5}}, {{5}}};

std::vector<std::string> schedule(const ShardingOptions& options) {
  ToyModel model(kThreeLayers);
  Recorded recorded;
  const auto parameters = shard_parameters(model.units(), recorded.mesh, options, nothing);
  recorded.log->clear();
  run_micro_batch(model, *parameters, true, true, 1,
                  [&](const std::string& text) { recorded.log->mark(text); });
  return recorded.log->lines();
}

TEST(ShardedParameters, GatherOneLayerAheadAndReduceBesideTheNext) {
  const std::string gather = "start world all_gather", reduce = "start world reduce_scatter";
  const std::string gathered = "wait world all_gather", reduced = "wait world reduce_scatter";
  EXPECT_THAT(schedule({}),
              ElementsAre(gather, gathered,                    // root
                          gather, gathered, gather,            // layer 0, and 1 ahead
                          "forward 0", gathered, gather,       // 1, and 2 ahead
                          "forward 1", gathered, "forward 2",  //
                          gather,                    // 2 again, while the loss is computed
                          "loss", gathered, gather,  // 2, and 1 ahead
                          "backward 2", reduce, gathered, gather,   // of 2; 1, and 0 ahead
                          "backward 1", reduce, reduced, gathered,  // of 1; of 2; 0
                          "backward 0", reduce, reduce, reduced, reduced, reduced,  // of 0 and root
                          "end"));
}

// The same order of operations, and gradients and parameters that no device holds.
TEST(ShardedParameters, OnTheHostKeepTheScheduleAndAreNotWhereTheyAreGathered) {
  EXPECT_EQ(schedule({.offload = true}), schedule({}));
  ToyModel model(kThreeLayers);
  Recorded recorded;
  const auto parameters =
      shard_parameters(model.units(), recorded.mesh, {.offload = true}, nothing);
  for (int step = 1; step <= 2; ++step) {
    run_micro_batch(model, *parameters, true, false, 1, [](const std::string&) {});
    run_micro_batch(model, *parameters, false, true, 1, [](const std::string&) {});
    for (const OwnedTensor& owned : parameters->owned()) {
      EXPECT_TRUE(owned.tensor.is_cpu());
      ASSERT_TRUE(owned.tensor.grad().is_cpu());
      EXPECT_TRUE((owned.tensor.grad() == 2.0).all().item<bool>()) << owned.name;
    }
    parameters->drop_gradients();
  }
}

TEST(ShardedParameters, KeptAfterTheForwardPassLayersAreGatheredOnce) {
  const std::string gather = "start world all_gather", reduce = "start world reduce_scatter";
  const std::string gathered = "wait world all_gather", reduced = "wait world reduce_scatter";
  EXPECT_THAT(
      schedule({.reshard_after_forward = false}),
      ElementsAre(gather, gathered, gather, gathered, gather, "forward 0", gathered, gather,
                  "forward 1", gathered, "forward 2", "loss", "backward 2", reduce, "backward 1",
                  reduce, reduced, "backward 0", reduce, reduce, reduced, reduced, reduced, "end"));
}

int64_t count(const CommunicationLog& log, const std::string& line) {
  const std::vector<std::string> lines = log.lines();
  return std::count(lines.begin(), lines.end(), line);
}

// PyTorch's own counts for nu units (test_fsdp_comm.py): forward nu; backward nu - 1, the root
// being kept, or none without resharding; none forward either where the last backward kept
// everything.
TEST(ShardedParameters, GatherAndReduceAsOftenAsPyTorch) {
  constexpr int64_t kUnits = 4, kMicroBatches = 3;
  for (const bool reshard : {true, false}) {
    for (const bool each : {true, false}) {
      ToyModel model(kThreeLayers);
      Recorded recorded;
      const auto parameters = shard_parameters(
          model.units(), recorded.mesh,
          {.reshard_after_forward = reshard, .reduce_each_micro_batch = each}, nothing);
      for (int64_t i = 0; i < kMicroBatches; ++i) {
        run_micro_batch(model, *parameters, i == 0, i + 1 == kMicroBatches, 1,
                        [](const std::string&) {});
      }
      const int64_t gathers =
          reshard ? kMicroBatches * (2 * kUnits - 1) : (each ? kMicroBatches : 1) * kUnits;
      EXPECT_EQ(count(*recorded.log, "start world all_gather"), gathers) << reshard << each;
      EXPECT_EQ(count(*recorded.log, "start world reduce_scatter"),
                (each ? kMicroBatches : 1) * kUnits);
      for (const OwnedTensor& owned : parameters->owned()) {
        EXPECT_TRUE((owned.tensor.grad() == static_cast<double>(kMicroBatches)).all().item<bool>());
      }
    }
  }
}

TEST(ShardedParameters, FrozenTensorsAreGatheredAndNeverReduced) {
  ToyModel model({{{4}}, {{5}, {6}}, {{7}}});
  model.freeze("t1");  // beside a trained one
  model.freeze("t3");  // all of its unit
  Recorded recorded;
  const auto parameters = shard_parameters(model.units(), recorded.mesh, {}, nothing);
  recorded.log->clear();
  run_micro_batch(model, *parameters, true, true, 1, [](const std::string&) {});
  // Root; layer 0 in two segments, twice; layer 1 twice.
  EXPECT_EQ(count(*recorded.log, "start world all_gather"), 1 + 2 * 2 + 2);
  EXPECT_EQ(count(*recorded.log, "start world reduce_scatter"), 2);
  std::vector<std::string> names;
  for (const OwnedTensor& owned : parameters->owned()) names.push_back(owned.name);
  EXPECT_THAT(names, ElementsAre("t0", "t2"));
}

TEST(ShardedParameters, AUnitIsFilledJustBeforeItIsSharded) {
  ToyModel model(kThreeLayers);
  Recorded recorded;
  std::vector<std::string> filled;
  shard_parameters(model.units(), recorded.mesh, {},
                   [&](const ParameterUnit& unit, const std::vector<ElementRange>&) {
                     filled.push_back(unit.name);
                   });
  EXPECT_THAT(filled, ElementsAre("unit 0", "unit 1", "unit 2", "unit 3"));
}

// --- parts of the optimizer ----------------------------------------------------------------------

// Buckets of one layer each: the first is full with a MiB, the others with 25.
const std::vector<std::vector<std::vector<int64_t>>> kLargeLayers = {
    {{4}}, {{7'000'000}}, {{7'000'000}}, {{300'000}}};

TEST(OptimizerShards, GatherWhatWasUpdatedBesideTheForwardPassAndReduceBesideTheBackwardPass) {
  ToyModel model(kLargeLayers);
  Recorded recorded;
  const auto parameters = shard_optimizer(model.units(), recorded.mesh);
  const auto mark = [&](const std::string& text) { recorded.log->mark(text); };
  run_micro_batch(model, *parameters, true, false, 1, mark);
  const std::string gather = "start world all_gather", reduce = "start world reduce_scatter";
  const std::string gathered = "wait world all_gather", reduced = "wait world reduce_scatter";
  EXPECT_THAT(recorded.log->lines(),
              ElementsAre(gather, gather, gather, gather, gathered,  // all start, the root is there
                          gathered, "forward 0", gathered, "forward 1", gathered, "forward 2",
                          "loss", "backward 2", "backward 1", "backward 0", "end"));
  recorded.log->clear();
  run_micro_batch(model, *parameters, false, true, 1, mark);
  EXPECT_THAT(recorded.log->lines(),
              ElementsAre("forward 0", "forward 1", "forward 2", "loss", "backward 2", reduce,
                          "backward 1", reduce, "backward 0", reduce, reduce,  // of 0 and root
                          reduced, reduced, reduced, reduced, "end"));
  for (const OwnedTensor& owned : parameters->owned()) {
    EXPECT_TRUE((owned.tensor.grad() == 2.0).all().item<bool>()) << owned.name;
  }
}

TEST(OptimizerShards, AnEvaluationGathersOnceForAllItsBatchesAndStepsSendTheSameWithoutIt) {
  ToyModel model(kThreeLayers);
  Recorded recorded;
  const auto parameters = shard_optimizer(model.units(), recorded.mesh);
  run_micro_batch(model, *parameters, true, true, 1, [](const std::string&) {});
  recorded.log->clear();
  parameters->begin_evaluation();
  parameters->begin_evaluation();  // of the next batch
  parameters->end_evaluation();
  EXPECT_EQ(count(*recorded.log, "start world all_gather"), 1);
  recorded.log->clear();
  run_micro_batch(model, *parameters, true, true, 1, [](const std::string&) {});
  EXPECT_EQ(count(*recorded.log, "start world all_gather"), 1);
  EXPECT_EQ(count(*recorded.log, "start world reduce_scatter"), 1);
}

// --- on several ranks ----------------------------------------------------------------------------

const std::vector<std::vector<std::vector<int64_t>>> kAwkward = {
    {{7, 3}, {}}, {{1}, {0, 4}, {13, 3}, {257}}, {{2, 2, 2}, {1, 1}, {64}}};

using Spread = std::function<std::unique_ptr<ParallelParameters>(
    const std::vector<ParameterUnit>& units, ProcessMesh& mesh)>;

void expect_values_and_gradients(RankGroup& group, const Spread& spread, torch::Dtype dtype,
                                 MeshKind kind = MeshKind::kSharded) {
  ToyModel model(kAwkward, dtype);
  const auto mesh = make_process_mesh(kind, group, rank_device());
  const auto parameters = spread(model.units(), *mesh);
  // Rank r's gradients are all r + 1; one rank uses nothing at all.
  const int64_t ranks = group.world_size();
  const bool unused = group.rank() == ranks - 1 && ranks > 1;
  run_micro_batch(model, *parameters, true, true, unused ? 0 : group.rank() + 1,
                  [](const std::string&) {});
  const int64_t users = ranks > 1 ? ranks - 1 : 1;
  const auto sum = static_cast<double>(users * (users + 1) / 2);
  double squares = 0;
  for (const OwnedTensor& owned : parameters->owned()) {
    EXPECT_TRUE((owned.tensor.grad() == sum).all().item<bool>()) << owned.name;
    squares += owned.tensor.grad().to(torch::kFloat64).square().sum().item<double>();
  }
  int64_t numel = 0;
  parameters->visit_whole([&](const std::string& name, const torch::Tensor& values) {
    const int64_t number = std::stoll(name.substr(1));
    EXPECT_TRUE(
        torch::equal(values.to(torch::kFloat32), ToyModel::values(number, model.shape(number))))
        << name;
    numel += values.numel();
  });
  // Padding is nobody's: the norm is that of the true elements.
  EXPECT_NEAR(parameters->global_norm([&](const auto&) { return std::sqrt(squares); }),
              sum * std::sqrt(static_cast<double>(numel)), 1e-9 * sum * static_cast<double>(numel));
  parameters->put_whole("t4", torch::full({13, 3}, 5.0));
  parameters->visit_whole([](const std::string& name, const torch::Tensor& values) {
    if (name != "t4") return;
    EXPECT_TRUE((values == 5.0).all().item<bool>());
  });
}

Spread sharded(const ShardingOptions& options) {
  return [options](const std::vector<ParameterUnit>& units, ProcessMesh& mesh) {
    return shard_parameters(units, mesh, options, only_what_is_kept);
  };
}

TEST(ShardedParameters, ShapesThatDoNotDivideOnAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 3, 5, 7}) {
    run_ranks({.ranks = ranks}, [](RankGroup& group) {
      expect_values_and_gradients(group, sharded({}), torch::kFloat32);
      expect_values_and_gradients(group, sharded({.offload = true}), torch::kFloat32);
      expect_values_and_gradients(group, shard_optimizer, torch::kFloat32);
      expect_values_and_gradients(group, shard_optimizer, torch::kBFloat16);
    });
  }
}

TEST(ShardedParameters, ShardsOfSeveralReplicas) {
  for (const int ranks : {4, 6}) {
    run_ranks({.ranks = ranks, .nodes = 2}, [](RankGroup& group) {
      expect_values_and_gradients(group, sharded({}), torch::kFloat32, MeshKind::kHybrid);
      expect_values_and_gradients(group, sharded({.offload = true}), torch::kFloat32,
                                  MeshKind::kHybrid);
    });
  }
}

TEST(ShardedParameters, EveryTripleOfDtypes) {
  run_ranks({.ranks = 3}, [](RankGroup& group) {
    for (const torch::Dtype kept : {torch::kFloat32, torch::kBFloat16}) {
      for (const torch::Dtype compute : {torch::kFloat32, torch::kBFloat16}) {
        for (const torch::Dtype reduce : {torch::kFloat32, torch::kBFloat16}) {
          expect_values_and_gradients(
              group, sharded({.compute_dtype = compute, .reduce_dtype = reduce}), kept);
          expect_values_and_gradients(
              group, sharded({.compute_dtype = compute, .reduce_dtype = reduce, .offload = true}),
              kept);
        }
      }
    }
  });
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
