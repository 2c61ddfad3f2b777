#include "parallel/nccl_communicators.h"

#if SFTBENCH_NCCL

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "parallel/nccl_communicator.h"
#include "parallel/nccl_library.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/ranks/gpu_sharing.h"

namespace sftbench {
namespace {

[[noreturn]] void fail(const std::string& message, const std::string& evidence) {
  throw RunError(ReasonCode::kNccl, message + ": " + evidence, evidence);
}

class CudaEvent : public NcclBackend::Event {
 public:
  explicit CudaEvent(const c10::cuda::CUDAStream& stream) : event(cudaEventDefault) {
    event.record(stream);
  }
  bool reached() override { return event.query(); }

  at::cuda::CUDAEvent event;
};

ncclDataType_t nccl_type(torch::ScalarType dtype) {
  switch (dtype) {
    case torch::kFloat32:
      return ncclFloat32;
    case torch::kFloat64:
      return ncclFloat64;
    case torch::kBFloat16:
      return ncclBfloat16;
    case torch::kFloat16:
      return ncclFloat16;
    case torch::kInt64:
      return ncclInt64;
    case torch::kInt32:
      return ncclInt32;
    case torch::kInt8:
      return ncclInt8;
    case torch::kUInt8:
      return ncclUint8;
    default:
      break;
  }
  check(false, "a reduction's dtype was checked when it was started");
  return ncclFloat32;
}

// What only moves, moves as bytes, of any dtype.
size_t bytes_of(const torch::Tensor& tensor) {
  return tensor.nbytes();
}

// A communicator that does not block the host: each call returns at once, and says later, by its
// asynchronous state, that NCCL has taken it.
class CudaNccl : public NcclBackend {
 public:
  CudaNccl(const ncclUniqueId& id, int rank, int size, torch::Device device, double timeout_s)
      : rank_(rank),
        size_(size),
        device_(device),
        timeout_s_(timeout_s),
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device.index())),
        start_(stream_) {
    const c10::cuda::CUDAGuard guard(device_);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    try {
      settle(nccl_.comm_init_rank_config(&comm_, size, id, rank, &config),
             "ncclCommInitRankConfig");
    } catch (const std::exception&) {
      if (comm_ != nullptr) nccl_.comm_abort(comm_);  // ends the thread that waits for the others
      throw;
    }
    barrier_ = torch::zeros({1}, torch::dtype(torch::kInt32).device(device_));
    at::cuda::getCurrentCUDAStream(device_.index()).synchronize();
    start_.event.synchronize();
    start_s_ = steady_seconds();
  }

  ~CudaNccl() override {
    if (aborted_) return;
    try {
      const c10::cuda::CUDAGuard guard(device_);
      settle(nccl_.comm_finalize(comm_), "ncclCommFinalize");
      nccl_.comm_destroy(comm_);
    } catch (const std::exception&) {
      nccl_.comm_abort(comm_);  // peers are gone: nothing can be finished
    }
  }

  int64_t rank() const override { return rank_; }
  int64_t world_size() const override { return size_; }

  void wait_for_caller() override {
    at::cuda::CUDAEvent here;
    here.record(at::cuda::getCurrentCUDAStream(device_.index()));
    here.block(stream_);
  }
  void make_caller_wait(Event& event) override {
    cuda_event(event).block(at::cuda::getCurrentCUDAStream(device_.index()));
  }
  std::unique_ptr<Event> record() override { return std::make_unique<CudaEvent>(stream_); }
  std::unique_ptr<Event> record_of_caller() override {
    return std::make_unique<CudaEvent>(at::cuda::getCurrentCUDAStream(device_.index()));
  }
  double seconds(Event& begin, Event& end) override {
    return cuda_event(begin).elapsed_time(cuda_event(end)) / 1e3;
  }
  // Both clocks are read once at the start. The device's differences are float32 milliseconds.
  double time_of(Event& event) override {
    return start_s_ + start_.event.elapsed_time(cuda_event(event)) / 1e3;
  }
  void on_stream(const std::function<void()>& run) override {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    run();
  }

  void all_reduce(const torch::Tensor& tensor, Reduction reduction) override {
    put("ncclAllReduce", [&] {
      return nccl_.all_reduce(tensor.data_ptr(), tensor.data_ptr(), count_of(tensor),
                              nccl_type(tensor.scalar_type()),
                              reduction == Reduction::kSum ? ncclSum : ncclMax, comm_, stream_);
    });
  }
  void all_gather(const torch::Tensor& output, const torch::Tensor& input) override {
    put("ncclAllGather", [&] {
      return nccl_.all_gather(input.data_ptr(), output.data_ptr(), bytes_of(input), ncclInt8, comm_,
                              stream_);
    });
  }
  void reduce_scatter(const torch::Tensor& output, const torch::Tensor& input) override {
    put("ncclReduceScatter", [&] {
      return nccl_.reduce_scatter(input.data_ptr(), output.data_ptr(), count_of(output),
                                  nccl_type(input.scalar_type()), ncclSum, comm_, stream_);
    });
  }
  void broadcast(const torch::Tensor& tensor, int64_t root) override {
    put("ncclBroadcast", [&] {
      return nccl_.broadcast(tensor.data_ptr(), tensor.data_ptr(), bytes_of(tensor), ncclInt8,
                             static_cast<int>(root), comm_, stream_);
    });
  }
  void all_to_all(const torch::Tensor& output, const torch::Tensor& input) override {
    const std::vector<int64_t> parts(static_cast<size_t>(size_), input.numel() / size_);
    all_to_all(output, input, parts, parts);
  }
  void all_to_all(const torch::Tensor& output, const torch::Tensor& input,
                  const std::vector<int64_t>& output_parts,
                  const std::vector<int64_t>& input_parts) override {
    put("ncclSend and ncclRecv", [&] {
      const auto element = static_cast<size_t>(input.element_size());
      const auto* from = static_cast<const char*>(input.data_ptr());
      auto* to = static_cast<char*>(output.data_ptr());
      ncclResult_t result = nccl_.group_start();
      for (int r = 0; r < size_ && !is_error(result); ++r) {
        const size_t sent = static_cast<size_t>(input_parts[static_cast<size_t>(r)]) * element;
        const size_t received = static_cast<size_t>(output_parts[static_cast<size_t>(r)]) * element;
        if (sent > 0) result = nccl_.send(from, sent, ncclInt8, r, comm_, stream_);
        if (!is_error(result) && received > 0) {
          result = nccl_.recv(to, received, ncclInt8, r, comm_, stream_);
        }
        from += sent;
        to += received;
      }
      const ncclResult_t ended = nccl_.group_end();
      return is_error(result) ? result : ended;
    });
  }
  void barrier() override { all_reduce(barrier_, Reduction::kSum); }

  std::string error() override {
    if (aborted_) return {};  // ncclCommAbort has freed the communicator
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = nccl_.comm_get_async_error(comm_, &state);
    if (is_error(asked)) return nccl_.explain(asked, comm_);
    return is_error(state) ? nccl_.explain(state, comm_) : std::string();
  }

  void abort() override {
    if (aborted_) return;
    const c10::cuda::CUDAGuard guard(device_);
    aborted_ = true;
    nccl_.comm_abort(comm_);
  }

 private:
  static bool is_error(ncclResult_t result) {
    return result != ncclSuccess && result != ncclInProgress;
  }
  static size_t count_of(const torch::Tensor& tensor) {
    return static_cast<size_t>(tensor.numel());
  }
  static at::cuda::CUDAEvent& cuda_event(Event& event) {
    return static_cast<CudaEvent&>(event).event;
  }

  template <typename Call>
  void put(const char* name, const Call& call) {
    const c10::cuda::CUDAGuard guard(device_);
    settle(call(), name);
  }

  // Until NCCL has taken the call. What is put on the stream next comes behind it only then.
  void settle(ncclResult_t result, const char* name) {
    const double end_s = steady_seconds() + timeout_s_;
    while (result == ncclInProgress) {
      const ncclResult_t asked = nccl_.comm_get_async_error(comm_, &result);
      if (is_error(asked)) result = asked;
      if (result != ncclInProgress) break;
      if (give_up_()) fail(name, "given up");
      if (steady_seconds() > end_s) fail(name, "not all ranks have come before the deadline");
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    if (is_error(result)) fail(name, nccl_.explain(result, comm_));
  }

  const NcclLibrary& nccl_ = nccl_library();
  const int rank_;
  const int size_;
  const torch::Device device_;
  const double timeout_s_;
  c10::cuda::CUDAStream stream_;
  CudaEvent start_;
  double start_s_ = 0;  // of start_
  ncclComm_t comm_ = nullptr;
  bool aborted_ = false;
  torch::Tensor barrier_;
};

// What ranks tell each other is UTF-8, so bytes go as hexadecimal digits.
template <size_t N>
std::string hex_of(const char (&bytes)[N]) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

// NCCL would say so, too, without a rank's number.
void require_gpus_fit(RankGroup& group, torch::Device device) {
  std::vector<RankGpu> gpus;
  for (const std::string& uuid :
       group.all_gather(hex_of(at::cuda::getDeviceProperties(device.index())->uuid.bytes))) {
    gpus.push_back({group.ranks()[gpus.size()].host, uuid});
  }
  int version = 0;
  nccl_library().get_version(&version);
  const std::string obstacle = gpu_sharing_obstacle(gpus, ranks_may_share_gpus(), version);
  if (!obstacle.empty()) throw RunError(ReasonCode::kUnsupported, obstacle);
}

// From the group's first member to the others.
ncclUniqueId agree_on_id(RankGroup& group, const std::string& key, bool first) {
  ncclUniqueId id{};
  if (first) {
    const ncclResult_t result = nccl_library().get_unique_id(&id);
    if (result != ncclSuccess) fail("ncclGetUniqueId", nccl_library().explain(result, nullptr));
    group.set(key, hex_of(id.internal));
    return id;
  }
  const std::string text = group.get(key);
  check(text.size() == 2 * sizeof id.internal, "an NCCL id has 128 bytes");
  for (size_t i = 0; i < sizeof id.internal; ++i) {
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

}  // namespace

ProcessMesh::MakeCommunicator nccl_communicators(RankGroup& group, const std::string& scope,
                                                 torch::Device device) {
  nccl_library();
  require_gpus_fit(group, device);
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  return [&group, scope, device](const std::string& name, const std::vector<int>& members) {
    const std::string key = scope + "/" + name + "/" + std::to_string(members.front());
    const auto own = std::find(members.begin(), members.end(), group.rank());
    check(own != members.end(), "a rank connects to groups that it is a member of");
    const ncclUniqueId id = agree_on_id(group, key, own == members.begin());
    try {
      return std::make_unique<NcclCommunicator>(
          group, name,
          std::make_shared<CudaNccl>(id, static_cast<int>(own - members.begin()),
                                     static_cast<int>(members.size()), device,
                                     group.place().communication_timeout_s));
    } catch (const RunError& error) {
      if (const auto failure = group.failure()) throw error_of(*failure, group.ranks());
      throw RunError(ReasonCode::kNccl,
                     "NCCL could not connect rank " + std::to_string(group.rank()) +
                         " with the other ranks of group " + name + ": " + error.what(),
                     error.evidence());
    }
  };
}

}  // namespace sftbench

#else

#include "sftbench/base/error.h"

namespace sftbench {

ProcessMesh::MakeCommunicator nccl_communicators(RankGroup&, const std::string&, torch::Device) {
  throw RunError(ReasonCode::kUnsupported,
                 "this build has no NCCL, so that GPUs cannot train together: build with "
                 "-DSFTBENCH_CUDA=ON and nccl.h (Debian: libnccl-dev)");
}

}  // namespace sftbench

#endif
