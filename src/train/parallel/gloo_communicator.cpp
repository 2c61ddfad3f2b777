#include "parallel/gloo_communicator.h"

#if SFTBENCH_GLOO

#include <cstring>
#include <thread>
#include <vector>

#include "parallel/collective_call.h"
#include "parallel/gloo_connection.h"
#include "parallel/gloo_queue.h"
#include "parallel/rank_order_reduce.h"

namespace sftbench {
namespace {

struct GlooOperation : PendingCollective::Operation {
  GlooOperation(std::shared_ptr<GlooQueue> of, std::shared_ptr<GlooQueue::Entry> one)
      : queue(std::move(of)), entry(std::move(one)) {}
  void wait() override { queue->wait(*entry); }

  std::shared_ptr<GlooQueue> queue;
  std::shared_ptr<GlooQueue::Entry> entry;
};

// Of an all-reduce between two ranks that goes directly (GlooTransfers::all_reduce).
constexpr int64_t kDirectPartBytes = 2 << 20;

char* part_of(const torch::Tensor& whole, int64_t index, int64_t part_bytes) {
  return static_cast<char*>(whole.data_ptr()) + index * part_bytes;
}

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(RankGroup& group, const std::string& name,
                   std::shared_ptr<gloo::Context> context)
      : queue_(std::make_shared<GlooQueue>(group, name, std::move(context))),
        worker_([queue = queue_] { queue->work(); }) {}

  ~GlooCommunicator() override {
    queue_->finish();
    worker_.join();  // each operation that is left has a deadline
  }

  int64_t rank() const override { return queue_->rank(); }
  int64_t world_size() const override { return queue_->size(); }

  PendingCollective all_reduce(const torch::Tensor& tensor, Reduction reduction) override {
    const CollectiveCall call = all_reduce_call(tensor);
    if (call.bytes <= kOneLatencyBytes) {
      return start(call, [=](GlooTransfers& transfers) {
        all_reduce_at_once(transfers, tensor, reduction);
      });
    }
    const bool divides = tensor.numel() % world_size() == 0;
    return start(call, [=, this](GlooTransfers& transfers) {
      if (divides) return all_reduce_in_parts(transfers, tensor, reduction);
      const torch::Tensor padded = padded_copy(tensor);
      all_reduce_in_parts(transfers, padded, reduction);
      std::memcpy(tensor.data_ptr(), padded.data_ptr(), tensor.nbytes());
    });
  }

  PendingCollective all_gather(const torch::Tensor& output, const torch::Tensor& input) override {
    return start(all_gather_call(output, input, world_size()), [=](GlooTransfers& transfers) {
      const auto part_bytes = static_cast<int64_t>(input.nbytes());
      if (!is_part_of(input, output, transfers.rank())) {
        std::memcpy(part_of(output, transfers.rank(), part_bytes), input.data_ptr(),
                    input.nbytes());
      }
      transfers.all_gather(output.data_ptr(), part_bytes);
    });
  }

  PendingCollective reduce_scatter(const torch::Tensor& output,
                                   const torch::Tensor& input) override {
    return start(reduce_scatter_call(output, input, world_size()), [=](GlooTransfers& transfers) {
      reduce_part(transfers, output, input, Reduction::kSum);
    });
  }

  PendingCollective broadcast(const torch::Tensor& tensor, int64_t root) override {
    return start(broadcast_call(tensor, root, world_size()), [=](GlooTransfers& transfers) {
      transfers.broadcast(tensor.data_ptr(), static_cast<int64_t>(tensor.nbytes()),
                          static_cast<int>(root));
    });
  }

  PendingCollective all_to_all(const torch::Tensor& output, const torch::Tensor& input) override {
    const CollectiveCall call = all_to_all_call(output, input, world_size());
    return start(call, [=](GlooTransfers& transfers) {
      transfers.all_to_all(output.data_ptr(), input.data_ptr(), call.bytes / transfers.size());
    });
  }

  PendingCollective all_to_all(const torch::Tensor& output, const torch::Tensor& input,
                               const std::vector<int64_t>& output_parts,
                               const std::vector<int64_t>& input_parts) override {
    const CollectiveCall call =
        all_to_all_call(output, input, output_parts, input_parts, rank(), world_size());
    const auto bytes_of = [&](std::vector<int64_t> parts) {
      for (int64_t& part : parts) part *= static_cast<int64_t>(input.element_size());
      return parts;
    };
    return start(call, [=, to = bytes_of(output_parts),
                        from = bytes_of(input_parts)](GlooTransfers& transfers) {
      transfers.all_to_all(output.data_ptr(), input.data_ptr(), to, from);
    });
  }

  void barrier() override {
    start({.collective = Collective::kBarrier}, [](GlooTransfers& transfers) {
      transfers.barrier();
    }).wait();
  }

  void abort(const std::string& why) override { queue_->abort(why); }
  CommunicationCounters counters() const override { return queue_->counters(); }
  void on_end(std::function<void(const CollectiveSpan&)> listener) override {
    queue_->on_end(std::move(listener));
  }

 private:
  PendingCollective start(const CollectiveCall& call, GlooQueue::Run run) {
    return PendingCollective(
        std::make_unique<GlooOperation>(queue_, queue_->start(call, std::move(run))));
  }

  // Of this rank's part: the ranks' terms, of `from`'s dtype, into their place in `output`.
  static GlooTransfers::ReduceChunk reduce_into(const torch::Tensor& output, torch::ScalarType from,
                                                Reduction reduction) {
    const auto in_size = static_cast<int64_t>(c10::elementSize(from));
    const auto out_size = static_cast<int64_t>(output.element_size());
    return [=](const std::vector<const void*>& parts, int64_t offset, int64_t bytes) {
      char* out = static_cast<char*>(output.data_ptr()) + offset / in_size * out_size;
      reduce_in_rank_order(parts, bytes / in_size, from, out, output.scalar_type(), reduction);
    };
  }

  // output [n] := this rank's part of the reduction of everybody's input [N, n].
  static void reduce_part(GlooTransfers& transfers, const torch::Tensor& output,
                          const torch::Tensor& input, Reduction reduction) {
    transfers.reduce_scatter(input.data_ptr(),
                             static_cast<int64_t>(input.nbytes()) / transfers.size(),
                             reduce_into(output, input.scalar_type(), reduction));
  }

  // tensor [N n]: each rank reduces its part, and all gather the parts.
  static void all_reduce_in_parts(GlooTransfers& transfers, const torch::Tensor& tensor,
                                  Reduction reduction) {
    const torch::Tensor flat = tensor.view(-1);
    const int64_t n = flat.numel() / transfers.size();
    const auto part_bytes = static_cast<int64_t>(tensor.nbytes()) / transfers.size();
    const torch::Tensor own = flat.narrow(0, transfers.rank() * n, n);
    if (transfers.size() == 2 && part_bytes <= kDirectPartBytes) {
      return transfers.all_reduce(tensor.data_ptr(), part_bytes,
                                  reduce_into(own, tensor.scalar_type(), reduction));
    }
    reduce_part(transfers, own, flat, reduction);
    transfers.all_gather(tensor.data_ptr(), part_bytes);
  }

  static void all_reduce_at_once(GlooTransfers& transfers, const torch::Tensor& tensor,
                                 Reduction reduction) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    std::vector<char> all(static_cast<size_t>(bytes * transfers.size()));
    std::vector<const void*> parts;
    for (int r = 0; r < transfers.size(); ++r) parts.push_back(all.data() + r * bytes);
    if (bytes > 0) std::memcpy(all.data() + transfers.rank() * bytes, tensor.data_ptr(), bytes);
    transfers.all_gather(all.data(), bytes);
    reduce_in_rank_order(parts, tensor.numel(), tensor.scalar_type(), tensor.data_ptr(),
                         tensor.scalar_type(), reduction);
  }

  // On the worker's thread, which alone uses the buffer.
  torch::Tensor padded_copy(const torch::Tensor& tensor) {
    const int64_t n = (tensor.numel() + world_size() - 1) / world_size() * world_size();
    const auto bytes = n * static_cast<int64_t>(tensor.element_size());
    if (padded_.size() < static_cast<size_t>(bytes)) padded_.resize(static_cast<size_t>(bytes));
    std::memcpy(padded_.data(), tensor.data_ptr(), tensor.nbytes());
    std::memset(padded_.data() + tensor.nbytes(), 0, static_cast<size_t>(bytes) - tensor.nbytes());
    return torch::from_blob(padded_.data(), {n}, torch::dtype(tensor.scalar_type()));
  }

  std::vector<char> padded_;
  std::shared_ptr<GlooQueue> queue_;
  std::thread worker_;
};

}  // namespace

bool has_gloo() {
  return true;
}

ProcessMesh::MakeCommunicator gloo_communicators(RankGroup& group, const std::string& scope) {
  const std::string address = gloo_address(group);
  const auto device = make_gloo_device();
  return
      [&group, scope, address, device](const std::string& name, const std::vector<int>& members) {
        // Groups of one name have different first members.
        const std::string key = scope + "/" + name + "/" + std::to_string(members.front());
        return std::make_unique<GlooCommunicator>(
            group, name, connect_gloo(group, key, members, address, device));
      };
}

}  // namespace sftbench

#else

#include "sftbench/base/error.h"

namespace sftbench {

bool has_gloo() {
  return false;
}

ProcessMesh::MakeCommunicator gloo_communicators(RankGroup&, const std::string&) {
  throw RunError(ReasonCode::kUnsupported,
                 "this build has no Gloo, so that ranks cannot train on CPUs together; use one "
                 "rank, GPUs, or a build against Debian's libtorch 1.13 with libgloo-dev");
}

}  // namespace sftbench

#endif
