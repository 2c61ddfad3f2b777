#include "engine/device_memory_watch.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#if SFTBENCH_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

#if SFTBENCH_CUDA
constexpr int64_t kSmallestBlock = 512;  // c10/cuda/CUDACachingAllocator.cpp, kMinBlockSize

// The allocator calls it under its own lock, from whichever thread allocates.
class HeldMemory {
 public:
  explicit HeldMemory(int64_t bytes_before) : held_{bytes_before}, total_(bytes_before) {}

  void at(const std::string& place) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::find(places_.begin(), places_.end(), place);
    current_ = static_cast<size_t>(found - places_.begin());
    if (found != places_.end()) return;
    places_.push_back(place);
    held_.push_back(0);
  }

  void allocated(size_t address, size_t bytes) {
    const std::scoped_lock lock(mutex_);
    const int64_t block = rounded(bytes);
    blocks_[address] = {block, current_};
    held_[current_] += block;
    total_ += block;
    if (total_ <= peak_total_) return;
    peak_total_ = total_;
    peak_place_ = current_;
    peak_allocation_ = block;
    peak_held_ = held_;
  }

  void freed(size_t address, size_t bytes) {
    const std::scoped_lock lock(mutex_);
    Block block = {rounded(bytes), 0};  // of before the watch
    if (const auto found = blocks_.find(address); found != blocks_.end()) {
      block = found->second;
      blocks_.erase(found);
    }
    held_[block.place] -= block.bytes;
    total_ -= block.bytes;
  }

  MemoryPeak peak() const {
    const std::scoped_lock lock(mutex_);
    MemoryPeak peak{places_[peak_place_], peak_allocation_, {}};
    for (size_t place = 0; place < peak_held_.size(); ++place) {
      if (peak_held_[place] > 0) peak.held.emplace_back(places_[place], peak_held_[place]);
    }
    return peak;
  }

 private:
  struct Block {
    int64_t bytes = 0;
    size_t place = 0;
  };

  static int64_t rounded(size_t bytes) {
    const auto asked = static_cast<int64_t>(bytes);
    return (asked + kSmallestBlock - 1) / kSmallestBlock * kSmallestBlock;
  }

  mutable std::mutex mutex_;
  std::vector<std::string> places_ = {"before training"};
  std::vector<int64_t> held_;  // by place
  std::vector<int64_t> peak_held_;
  std::unordered_map<size_t, Block> blocks_;  // by address
  size_t current_ = 0, peak_place_ = 0;
  int64_t total_ = 0, peak_total_ = 0, peak_allocation_ = 0;
};

// The allocator keeps its trackers for good, so what they write to outlives the watch.
class CudaMemoryWatch : public DeviceMemoryWatch {
 public:
  CudaMemoryWatch(c10::DeviceIndex device, int64_t bytes_before)
      : held_(std::make_shared<HeldMemory>(bytes_before)) {
    using Entry = c10::cuda::CUDACachingAllocator::TraceEntry;
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(
        [held = held_, device](const Entry& entry) {
          if (entry.device_ != device) return;
          if (entry.action_ == Entry::ALLOC) held->allocated(entry.addr_, entry.size_);
          if (entry.action_ == Entry::FREE_REQUESTED) held->freed(entry.addr_, entry.size_);
        });
  }

  void at(const std::string& place) override { held_->at(place); }
  MemoryPeak peak() const override { return held_->peak(); }

 private:
  std::shared_ptr<HeldMemory> held_;
};
#endif

class LayerWatch : public ActivationPolicy {
 public:
  LayerWatch(std::unique_ptr<ActivationPolicy> activations, DeviceMemoryWatch& watch)
      : activations_(std::move(activations)), watch_(watch) {}

  torch::Tensor run(int64_t layer_index, const Layer& layer, const torch::Tensor& hidden) override {
    const Layer watched = [this, layer_index, layer](const torch::Tensor& x) {
      return run_watched(layer_index, layer, x);
    };
    return activations_->run(layer_index, watched, hidden);
  }

  void backward(const torch::Tensor& loss) override {
    backward_ = true;
    watch_.at("backward pass, loss");
    activations_->backward(loss);
    backward_ = false;
  }

 private:
  torch::Tensor run_watched(int64_t layer_index, const Layer& layer, const torch::Tensor& x) {
    const std::string number = std::to_string(layer_index);
    watch_.at((backward_ ? "recomputation, layer " : "forward pass, layer ") + number);
    torch::Tensor output = layer(x);
    if (output.requires_grad()) {
      output.register_hook([this, number](const torch::Tensor& gradient) {
        watch_.at("backward pass, layer " + number);
        return gradient;
      });
    }
    watch_.at(backward_ ? "backward pass, layer " + number : "forward pass, loss");
    return output;
  }

  std::unique_ptr<ActivationPolicy> activations_;
  DeviceMemoryWatch& watch_;
  bool backward_ = false;
};

}  // namespace

std::unique_ptr<DeviceMemoryWatch> watch_memory([[maybe_unused]] const TrainingDevice& device) {
#if SFTBENCH_CUDA
  const torch::Device place = device.device();
  if (place.is_cuda())
    return std::make_unique<CudaMemoryWatch>(place.index(), device.allocated_bytes());
#endif
  return nullptr;
}

std::unique_ptr<ActivationPolicy> watch_layers(std::unique_ptr<ActivationPolicy> activations,
                                               DeviceMemoryWatch& watch) {
  return std::make_unique<LayerWatch>(std::move(activations), watch);
}

}  // namespace sftbench
