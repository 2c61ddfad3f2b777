#include "engine/step_graph.h"

#include <map>
#include <vector>

#include "engine/training_run.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/global_norm.h"
#include "sftbench/ops/loss_denominator.h"
#include "sftbench/plan/step_graph_limits.h"

#if SFTBENCH_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#endif

namespace sftbench {
namespace {

void require_graph_can_repeat(const TrainingJob& job, const TrainingRun& run) {
  const std::vector<std::string> reasons = step_graph_refusals(
      {.distributed = is_distributed(job),
       .optimizer = job.optimizer.kind,
       .autocast = job.precision.autocast,
       .padding = job.data.padding,
       .lora_dropout = row_of(job.tuning).adds_adapters ? job.lora.dropout : 0,
       .offloads = job.optimizer.offload_state || job.parallel.offload || job.activations.offload,
       .fused_loss = job.kernels.fused_loss,
       .traced = run.timeline != nullptr,
       .images = !job.data.image_field.empty(),
       .model = &run.model->config()});
  if (!reasons.empty()) throw RunError(ReasonCode::kUnsupported, join(reasons, "; "));
}

#if SFTBENCH_CUDA

using torch::Tensor;
using Phase = std::function<void(const char*)>;

// Memory that a graph copies from and to while the host goes on.
Tensor pinned(int64_t numel) {
  return torch::empty({numel}, torch::TensorOptions(torch::kFloat64).pinned_memory(true));
}

// As clip_factor() (optim/gradient_scaling.h). NaN where the norm or the loss is not finite.
Tensor clip_factor_on_device(const Tensor& norm, const Tensor& loss, double max_norm) {
  const Tensor nothing = norm * 0 + loss * 0;
  const Tensor factor = max_norm > 0
                            ? torch::full_like(norm, max_norm).div(norm + 1e-6).clamp_max(1)
                            : torch::ones_like(norm);
  return (factor + nothing).to(torch::kFloat32);
}

// The tensors of a batch, which a graph reads at the addresses that it was recorded with.
std::vector<Tensor> tensors_of(const DeviceBatch& batch) {
  return {batch.input_ids, batch.labels, batch.mask, batch.silent};
}

// The graph of steps whose micro-batches have these shapes.
class RecordedStep {
 public:
  RecordedStep(TrainingRun& run, RecordedUpdate& update, const StepBatches& batches,
               at::cuda::MempoolId_t pool, const Phase& at)
      : run_(run), next_(pinned(1)), read_(pinned(2)) {
    const auto scalars = torch::TensorOptions(torch::kFloat64).device(run.device->device());
    denominator_ = torch::empty({}, scalars);
    for (const DeviceBatch& batch : batches.micro_batches) micro_batches_.push_back(copy_of(batch));
    // What the steps before left in the allocator's cache is of no use to a graph, which has a pool
    // of its own.
    run.device->synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
    try {
      record(update, at);
    } catch (...) {
      give_up();
      throw;
    }
    graph_.capture_end();
    tables_ = run.model->kept_tables();
  }

  StepOutcome launch(const StepBatches& batches) {
    next_.data_ptr<double>()[0] = static_cast<double>(loss_positions(batches));
    for (size_t i = 0; i < micro_batches_.size(); ++i) {
      const std::vector<Tensor> from = tensors_of(batches.micro_batches[i]);
      const std::vector<Tensor> to = tensors_of(micro_batches_[i]);
      for (size_t k = 0; k < to.size(); ++k) {
        if (to[k].defined()) to[k].copy_(from[k], /*non_blocking=*/true);
      }
    }
    graph_.replay();
    at::cuda::getCurrentCUDAStream().synchronize();
    const double* read = read_.data_ptr<double>();
    return {read[0], read[1]};
  }

 private:
  static DeviceBatch copy_of(const DeviceBatch& batch) {
    DeviceBatch copy = batch;
    for (Tensor* tensor : {&copy.input_ids, &copy.labels, &copy.mask, &copy.silent}) {
      if (tensor->defined()) *tensor = tensor->clone();
    }
    return copy;
  }

  // As train_steps() has it, without a number that the host would have to know.
  void record(RecordedUpdate& update, const Phase& at) {
    denominator_.copy_(next_[0], /*non_blocking=*/true);
    const ops::LossDenominator denominator(denominator_);
    Tensor loss = torch::zeros({}, run_.device->device());
    for (size_t i = 0; i < micro_batches_.size(); ++i) {
      const DeviceBatch& batch = micro_batches_[i];
      at("forward pass");
      run_.parameters->begin_micro_batch(i == 0, i + 1 == micro_batches_.size());
      const Tensor micro_loss =
          run_.model->loss(run_.batches->rows(batch), batch.labels, denominator, *run_.activations);
      at("backward pass");
      run_.activations->backward(micro_loss);
      loss += micro_loss.detach();
    }
    at("update");
    std::vector<Tensor> gradients;
    for (const OwnedTensor& owned : run_.parameters->owned()) {
      if (owned.tensor.grad().defined()) gradients.push_back(owned.tensor.grad());
    }
    const torch::NoGradGuard no_grad;
    const Tensor wide_loss = loss.to(torch::kFloat64);
    const Tensor norm = ops::global_norm_on_device(gradients);
    update.record(clip_factor_on_device(norm, wide_loss, run_.max_grad_norm));
    run_.parameters->drop_gradients();
    read_.copy_(torch::stack({wide_loss, norm}), /*non_blocking=*/true);
  }

  // Whatever went wrong is told by who threw it.
  void give_up() noexcept {
    try {
      run_.parameters->drop_gradients();
      graph_.capture_end();
    } catch (const std::exception&) {
    }
  }

  TrainingRun& run_;
  std::vector<DeviceBatch> micro_batches_;
  Tensor denominator_;
  std::vector<Tensor> tables_;  // that the model may make anew while the graph still reads these
  Tensor next_, read_;  // pinned: the next launch's denominator; the last one's loss and norm
  at::cuda::CUDAGraph graph_;
};

// Kernels are loaded when they are first launched, which a capture may not survive. Those of a
// recorded step that a launched one does not have, once each.
void load_kernels_of_records(torch::Device device) {
  const torch::NoGradGuard no_grad;
  const Tensor one = torch::ones({}, torch::TensorOptions(torch::kFloat64).device(device));
  const Tensor norm = ops::global_norm_on_device({one.to(torch::kFloat32).view({1})});
  for (const double most : {0.0, 1.0}) clip_factor_on_device(norm, one, most);
  ops::LossDenominator(one).divide(torch::stack({norm, one}));
}

// Sizes of all that a step reads.
using Shapes = std::vector<std::vector<int64_t>>;

Shapes shapes_of(const StepBatches& batches) {
  Shapes shapes;
  for (const DeviceBatch& batch : batches.micro_batches) {
    for (const Tensor& tensor : tensors_of(batch)) {
      shapes.push_back(tensor.defined() ? tensor.sizes().vec() : std::vector<int64_t>{});
    }
  }
  return shapes;
}

class CudaStepGraph : public StepGraph {
 public:
  CudaStepGraph(TrainingRun& run, RecordedUpdate& update)
      : run_(run), update_(update), pool_(at::cuda::graph_pool_handle()) {
    // Weights came by the default stream.
    run.device->synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    stream_.emplace(
        at::cuda::getStreamFromPool(/*isHighPriority=*/false, run.device->device().index()));
    load_kernels_of_records(run.device->device());
  }

  ~CudaStepGraph() override { run_.device->synchronize(); }

  std::optional<StepOutcome> run(const StepBatches& batches, double learning_rate,
                                 const Phase& at) override {
    const Shapes shapes = shapes_of(batches);
    const auto known = steps_.find(shapes);
    if (known == steps_.end()) {
      if (steps_.size() < kShapes) steps_[shapes] = nullptr;
      return std::nullopt;
    }
    std::unique_ptr<RecordedStep>& step = known->second;
    if (step == nullptr) step = std::make_unique<RecordedStep>(run_, update_, batches, pool_, at);
    update_.advance(learning_rate);
    ++launches_;
    return step->launch(batches);
  }

  int64_t launches() const override { return launches_; }

 private:
  TrainingRun& run_;
  RecordedUpdate& update_;
  at::cuda::MempoolId_t pool_;
  int64_t launches_ = 0;
  std::optional<c10::cuda::CUDAStreamGuard> stream_;
  std::map<Shapes, std::unique_ptr<RecordedStep>> steps_;  // null: its shapes were met once
};

#endif

}  // namespace

std::unique_ptr<StepGraph> make_step_graph(const TrainingJob& job, TrainingRun& run) {
  if (!job.kernels.step_graph || !run.device->device().is_cuda()) return nullptr;
  require_graph_can_repeat(job, run);
#if SFTBENCH_CUDA
  RecordedUpdate* const update = run.optimizer->recorded_update();
  check(update != nullptr, "optimizers that update element by element can be recorded");
  return std::make_unique<CudaStepGraph>(run, *update);
#else
  return nullptr;
#endif
}

}  // namespace sftbench
