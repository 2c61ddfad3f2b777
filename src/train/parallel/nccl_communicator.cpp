#include "parallel/nccl_communicator.h"

#include <chrono>
#include <thread>

#include "parallel/collective_call.h"
#include "sftbench/base/torch.h"

namespace sftbench {

NcclCommunicator::Shared::Shared(RankGroup& group, const std::string& group_name,
                                 std::shared_ptr<NcclBackend> of)
    : name(group_name),
      backend(std::move(of)),
      watch(group, group_name, backend->world_size(),
            {.error =
                 [this] {
                   // Who is putting an operation there learns of errors itself.
                   const std::unique_lock lock(calling, std::try_to_lock);
                   return lock ? backend->error() : std::string();
                 },
             .seconds = [this](NcclBackend::Event& begin,
                               NcclBackend::Event& end) { return backend->seconds(begin, end); },
             .time_of = [this](NcclBackend::Event& event) { return backend->time_of(event); },
             .abort =
                 [this] {
                   const std::lock_guard lock(calling);
                   backend->abort();
                 }}) {
  backend->give_up_when([this] { return watch.failed(); });
}

// NCCL's own end would wait for operations under way without a deadline.
NcclCommunicator::Shared::~Shared() {
  try {
    watch.finish();
  } catch (const std::exception& error) {  // the device is broken
    watch.fail(RunError(ReasonCode::kNccl, error.what()));
  }
  backend->give_up_when([] { return false; });
}

struct NcclCommunicator::Operation : PendingCollective::Operation {
  void wait() override {
    shared->watch.throw_if_failed();
    std::unique_ptr<NcclBackend::Event> arrived = shared->backend->record_of_caller();
    shared->backend->make_caller_wait(*end);
    shared->watch.waited_for(std::move(arrived), end);
  }

  std::shared_ptr<Shared> shared;
  std::shared_ptr<NcclBackend::Event> end;
  std::vector<torch::Tensor> tensors;
};

NcclCommunicator::NcclCommunicator(RankGroup& group, const std::string& name,
                                   std::shared_ptr<NcclBackend> backend)
    : shared_(std::make_shared<Shared>(group, name, std::move(backend))) {}

PendingCollective NcclCommunicator::start(const CollectiveCall& unnumbered, int64_t from_root,
                                          std::vector<torch::Tensor> tensors,
                                          const std::function<void(NcclBackend&)>& put) {
  NcclBackend& backend = *shared_->backend;
  const CollectiveCall call = shared_->watch.number(unnumbered);
  if (call.bytes == 0 && call.sent_bytes < 0 && call.collective != Collective::kBarrier) {
    shared_->watch.nothing_to_do(call);
    return {};
  }
  auto operation = std::make_unique<Operation>();
  operation->shared = shared_;
  operation->tensors = std::move(tensors);
  try {
    const std::lock_guard lock(shared_->calling);
    shared_->watch.throw_if_failed();  // nothing is put after an abort
    backend.wait_for_caller();
    std::shared_ptr<NcclBackend::Event> begin = backend.record();
    put(backend);
    operation->end = backend.record();
    shared_->watch.started(call, sent_bytes_by_formula(call, from_root, world_size()),
                           std::move(begin), operation->end);
  } catch (const std::exception& error) {
    shared_->watch.fail(shared_->watch.error_about(call, "could not be started", error.what()));
    shared_->watch.throw_if_failed();
  }
  return PendingCollective(std::move(operation));
}

PendingCollective NcclCommunicator::all_reduce(const torch::Tensor& tensor, Reduction reduction) {
  return start(all_reduce_call(tensor), rank(), {tensor},
               [&](NcclBackend& backend) { backend.all_reduce(tensor, reduction); });
}

PendingCollective NcclCommunicator::all_gather(const torch::Tensor& output,
                                               const torch::Tensor& input) {
  return start(all_gather_call(output, input, world_size()), rank(), {output, input},
               [&](NcclBackend& backend) { backend.all_gather(output, input); });
}

PendingCollective NcclCommunicator::reduce_scatter(const torch::Tensor& output,
                                                   const torch::Tensor& input) {
  CollectiveCall call = reduce_scatter_call(output, input, world_size());
  if (output.dtype() == input.dtype()) {
    return start(call, rank(), {output, input},
                 [&](NcclBackend& backend) { backend.reduce_scatter(output, input); });
  }
  call.bytes = input.numel() * static_cast<int64_t>(output.element_size());  // that travel
  return start(call, rank(), {output, input}, [&](NcclBackend& backend) {
    backend.on_stream([&] {
      torch::NoGradGuard no_grad;
      // Allocated and used on the communication stream alone, where operations follow each other.
      if (!in_float32_.defined() || in_float32_.numel() < input.numel()) {
        in_float32_ = torch::Tensor();
        in_float32_ = torch::empty({input.numel()}, output.options());
      }
      in_float32_.narrow(0, 0, input.numel()).copy_(input.view(-1));
    });
    backend.reduce_scatter(output, in_float32_.narrow(0, 0, input.numel()));
  });
}

PendingCollective NcclCommunicator::broadcast(const torch::Tensor& tensor, int64_t root) {
  const CollectiveCall call = broadcast_call(tensor, root, world_size());
  return start(call, (rank() + world_size() - root) % world_size(), {tensor},
               [&](NcclBackend& backend) { backend.broadcast(tensor, root); });
}

PendingCollective NcclCommunicator::all_to_all(const torch::Tensor& output,
                                               const torch::Tensor& input) {
  return start(all_to_all_call(output, input, world_size()), rank(), {output, input},
               [&](NcclBackend& backend) { backend.all_to_all(output, input); });
}

PendingCollective NcclCommunicator::all_to_all(const torch::Tensor& output,
                                               const torch::Tensor& input,
                                               const std::vector<int64_t>& output_parts,
                                               const std::vector<int64_t>& input_parts) {
  return start(all_to_all_call(output, input, output_parts, input_parts, rank(), world_size()),
               rank(), {output, input}, [&](NcclBackend& backend) {
                 backend.all_to_all(output, input, output_parts, input_parts);
               });
}

void NcclCommunicator::barrier() {
  std::shared_ptr<NcclBackend::Event> end;
  PendingCollective pending =
      start({.collective = Collective::kBarrier}, rank(), {}, [&](NcclBackend& backend) {
        backend.barrier();
        end = backend.record();
      });
  while (!end->reached()) {
    shared_->watch.throw_if_failed();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  pending.wait();
}

void NcclCommunicator::abort(const std::string& why) {
  shared_->watch.fail(RunError(ReasonCode::kNccl,
                               "communication in group " + shared_->name + " was ended: " + why));
}

}  // namespace sftbench
