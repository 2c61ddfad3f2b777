// A communicator for tests of what is built on communicators: passes every operation on to another
// one and writes into a log, shared by all communicators of a mesh, what was started and waited for
// in which order. Tests add their own marks ("layer 3 forward") to the same log.
//
// Between start and wait an operation owns its tensors. Here it really does: the operation works on
// copies, meanwhile the caller's output holds NaN (integers: 0x7f bytes), and the result comes with
// wait(). Whoever reads too early, or writes to an input that is under way and expects it to count,
// gets wrong numbers every time instead of sometimes. A reduce-scatter's input stays clobbered.
#pragma once

#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/base/torch.h"
#include "sftbench/parallel/communicator.h"

namespace sftbench {

struct CommunicationEvent {
  enum class What { kStart, kWait, kMark };
  What what = What::kMark;
  std::string name;   // "shards all_gather", or a mark's text
  int64_t id = -1;    // of the operation, counted over the whole log; a wait has its start's
  int64_t bytes = 0;  // of the whole array: for gathers the output, for scatters the input
  const void* output = nullptr;
  const void* input = nullptr;
};

class CommunicationLog {
 public:
  int64_t start(CommunicationEvent event) {
    const std::lock_guard lock(mutex_);
    event.what = CommunicationEvent::What::kStart;
    event.id = started_++;
    events_.push_back(event);
    return event.id;
  }

  void waited(CommunicationEvent event) {
    const std::lock_guard lock(mutex_);
    event.what = CommunicationEvent::What::kWait;
    events_.push_back(std::move(event));
  }

  void mark(const std::string& text) {
    const std::lock_guard lock(mutex_);
    events_.push_back({.name = text});
  }

  std::vector<CommunicationEvent> events() const {
    const std::lock_guard lock(mutex_);
    return events_;
  }

  // "start shards all_gather", "layer 0 forward", "wait shards all_gather", ...
  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    for (const CommunicationEvent& event : events()) {
      using What = CommunicationEvent::What;
      const std::string verb = event.what == What::kStart  ? "start "
                               : event.what == What::kWait ? "wait "
                                                           : "";
      lines.push_back(verb + event.name);
    }
    return lines;
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    events_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<CommunicationEvent> events_;
  int64_t started_ = 0;
};

class RecordingCommunicator : public Communicator {
 public:
  // name is the group's: "world", "shards", "replicas".
  RecordingCommunicator(std::string name, std::unique_ptr<Communicator> inner,
                        std::shared_ptr<CommunicationLog> log)
      : name_(std::move(name)), inner_(std::move(inner)), log_(std::move(log)) {}

  int64_t rank() const override { return inner_->rank(); }
  int64_t world_size() const override { return inner_->world_size(); }

  PendingCollective all_reduce(const torch::Tensor& tensor, Reduction reduction) override {
    auto operation = begin(Collective::kAllReduce, tensor, tensor, tensor);
    operation->pending = inner_->all_reduce(operation->result, reduction);
    return started(std::move(operation));
  }
  PendingCollective all_gather(const torch::Tensor& output, const torch::Tensor& input) override {
    auto operation = begin(Collective::kAllGather, output, input, output);
    operation->pending = inner_->all_gather(operation->result, operation->operand);
    return started(std::move(operation));
  }
  PendingCollective reduce_scatter(const torch::Tensor& output,
                                   const torch::Tensor& input) override {
    auto operation = begin(Collective::kReduceScatter, output, input, input);
    poison(input);
    operation->pending = inner_->reduce_scatter(operation->result, operation->operand);
    return started(std::move(operation));
  }
  PendingCollective broadcast(const torch::Tensor& tensor, int64_t root) override {
    auto operation = begin(Collective::kBroadcast, tensor, tensor, tensor);
    operation->pending = inner_->broadcast(operation->result, root);
    return started(std::move(operation));
  }
  PendingCollective all_to_all(const torch::Tensor& output, const torch::Tensor& input) override {
    auto operation = begin(Collective::kAllToAll, output, input, output);
    operation->pending = inner_->all_to_all(operation->result, operation->operand);
    return started(std::move(operation));
  }
  PendingCollective all_to_all(const torch::Tensor& output, const torch::Tensor& input,
                               const std::vector<int64_t>& output_parts,
                               const std::vector<int64_t>& input_parts) override {
    auto operation = begin(Collective::kAllToAll, output, input, output);
    operation->pending =
        inner_->all_to_all(operation->result, operation->operand, output_parts, input_parts);
    return started(std::move(operation));
  }
  void barrier() override {
    log_->start({.name = name_ + " barrier"});
    inner_->barrier();
  }
  void abort(const std::string& why) override { inner_->abort(why); }
  CommunicationCounters counters() const override { return inner_->counters(); }

 private:
  struct Operation : PendingCollective::Operation {
    void wait() override {
      log->waited(event);
      pending.wait();
      output.copy_(result);
    }
    PendingCollective pending;
    torch::Tensor output;   // the caller's
    torch::Tensor result;   // what the real operation writes
    torch::Tensor operand;  // what it reads
    CommunicationEvent event;
    std::shared_ptr<CommunicationLog> log;
  };

  std::unique_ptr<Operation> begin(Collective collective, const torch::Tensor& output,
                                   const torch::Tensor& input, const torch::Tensor& whole) {
    auto operation = std::make_unique<Operation>();
    operation->output = output;
    operation->result = output.clone();
    operation->operand = input.clone();
    operation->log = log_;
    operation->event = {.name = name_ + " " + to_string(collective),
                        .bytes = static_cast<int64_t>(whole.nbytes()),
                        .output = output.data_ptr(),
                        .input = input.data_ptr()};
    operation->event.id = log_->start(operation->event);
    poison(output);
    return operation;
  }

  static PendingCollective started(std::unique_ptr<Operation> operation) {
    return PendingCollective(std::move(operation));
  }

  static void poison(const torch::Tensor& tensor) {
    torch::NoGradGuard no_grad;
    if (tensor.is_floating_point()) {
      tensor.fill_(std::numeric_limits<double>::quiet_NaN());
    } else {
      tensor.fill_(0x7f);
    }
  }

  std::string name_;
  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<CommunicationLog> log_;
};

}  // namespace sftbench
