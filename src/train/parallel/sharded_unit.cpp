#include "parallel/sharded_unit.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

int64_t bytes_of(int64_t elements, torch::Dtype dtype) {
  return elements * static_cast<int64_t>(c10::elementSize(dtype));
}

// Points `tensor` to other memory; the object, its place in autograd and its gradient stay.
void point_to(torch::Tensor& tensor, const torch::Tensor& memory) {
  tensor.set_data(memory);
}

double timed_wait(PendingCollective& pending) {
  const double begin_s = steady_seconds();
  pending.wait();
  return steady_seconds() - begin_s;
}

}  // namespace

torch::Tensor placeholder(torch::IntArrayRef shape, torch::TensorOptions options) {
  return torch::empty({}, options).expand(shape);
}

ShardedUnit::ShardedUnit(const ParameterUnit& unit, const ShardingOptions& options, int64_t rank,
                         int64_t shards, const FillUnit& fill, ops::CopyStream* copies)
    : name_(unit.name), rank_(rank), device_(torch::kCPU), copies_(copies) {
  if (!unit.tensors.empty()) device_ = unit.tensors.front().tensor->device();
  add_segments(unit, options, shards);
  fill(unit, kept(unit));
  take_shards();
}

void ShardedUnit::add_segments(const ParameterUnit& unit, const ShardingOptions& options,
                               int64_t shards) {
  for (const UnitTensor& named : unit.tensors) {
    const torch::Tensor& tensor = *named.tensor;
    const torch::Dtype dtype = tensor.scalar_type();
    const bool casts = tensor.is_floating_point() && !named.keeps_dtype;
    const torch::Dtype compute = casts ? options.compute_dtype.value_or(dtype) : dtype;
    const bool trains = tensor.requires_grad();
    auto segment = std::ranges::find_if(segments_, [&](const Segment& other) {
      return other.dtype == dtype && other.compute_dtype == compute && other.trains == trains;
    });
    if (segment == segments_.end()) {
      // Offsets are the same in the shard, the gathered array and the gradients, so they are
      // aligned for the narrowest of their dtypes.
      const auto element_bytes =
          static_cast<int64_t>(std::min(c10::elementSize(dtype), c10::elementSize(compute)));
      segments_.push_back({.layout = FlatLayout(element_bytes, shards),
                           .dtype = dtype,
                           .compute_dtype = compute,
                           .reduce_dtype = options.reduce_dtype.value_or(compute),
                           .trains = trains});
      segment = std::prev(segments_.end());
    }
    segment->layout.add(named.name, tensor.sizes().vec());
    segment->tensors.push_back(named.tensor);
  }
  int64_t parameters = 0, gradients = 0;
  for (Segment& segment : segments_) {
    segment.parameter_begin = parameters;
    parameters += bytes_of(segment.layout.elements(), segment.compute_dtype);
    segment.gradient_begin = gradients;
    if (segment.trains) gradients += bytes_of(segment.layout.elements(), segment.compute_dtype);
  }
}

std::vector<ElementRange> ShardedUnit::kept(const ParameterUnit& unit) const {
  std::map<const torch::Tensor*, ElementRange> of_tensor;
  for (const Segment& segment : segments_) {
    for (const FlatSlice& slice : segment.layout.slices(rank_)) {
      const int64_t begin = segment.layout.tensors()[slice.tensor].begin;
      of_tensor[segment.tensors[slice.tensor]] = {slice.begin - begin, slice.end - begin};
    }
  }
  std::vector<ElementRange> kept;
  for (const UnitTensor& named : unit.tensors) kept.push_back(of_tensor[named.tensor]);
  return kept;
}

void ShardedUnit::take_shards() {
  const torch::NoGradGuard no_grad;
  for (Segment& segment : segments_) {
    const int64_t elements = segment.layout.shard_elements();
    const int64_t shard_begin = rank_ * elements;
    const auto options = segment.tensors.front()->options().requires_grad(false);
    segment.shard = copies_ == nullptr
                        ? torch::zeros({elements}, options)
                        : ops::empty_on_host({elements}, segment.dtype, device_).zero_();
    for (const FlatSlice& slice : segment.layout.slices(rank_)) {
      const FlatTensor& flat = segment.layout.tensors()[slice.tensor];
      torch::Tensor part =
          segment.shard.slice(0, slice.begin - shard_begin, slice.end - shard_begin);
      part.copy_(segment.tensors[slice.tensor]->detach().reshape(-1).slice(
          0, slice.begin - flat.begin, slice.end - flat.begin));
      if (segment.trains)
        segment.owned.push_back({flat.name, part.detach().set_requires_grad(true), flat.shape,
                                 slice.begin - flat.begin});
    }
    for (size_t i = 0; i < segment.tensors.size(); ++i) {
      torch::Tensor& tensor = *segment.tensors[i];
      tensor = placeholder(tensor.sizes(), options.dtype(segment.compute_dtype))
                   .set_requires_grad(segment.trains);
    }
  }
}

torch::Tensor ShardedUnit::view(const torch::Tensor& buffer, int64_t begin_bytes, int64_t elements,
                                torch::Dtype dtype) {
  return buffer.narrow(0, begin_bytes, bytes_of(elements, dtype)).view(dtype);
}

int64_t ShardedUnit::gathered_bytes() const {
  int64_t bytes = 0;
  for (const Segment& s : segments_) bytes += bytes_of(s.layout.elements(), s.compute_dtype);
  return bytes;
}

int64_t ShardedUnit::gradient_bytes() const {
  int64_t bytes = 0;
  for (const Segment& s : segments_)
    if (s.trains) bytes += bytes_of(s.layout.elements(), s.compute_dtype);
  return bytes;
}

int64_t ShardedUnit::shard_bytes() const {
  int64_t bytes = 0;
  for (const Segment& s : segments_) bytes += bytes_of(s.layout.shard_elements(), s.dtype);
  return bytes;
}

int64_t ShardedUnit::shard_gradient_bytes() const {
  int64_t bytes = 0;
  for (const Segment& s : segments_)
    if (s.trains) bytes += bytes_of(s.layout.shard_elements(), s.dtype);
  return bytes;
}

bool ShardedUnit::trains() const {
  return gradient_bytes() > 0;
}

// --- parameters ----------------------------------------------------------------------------------

void ShardedUnit::start_gather(const torch::Tensor& buffer, Communicator& shards) {
  check(!gathering(), "a unit is gathered once at a time");
  const torch::NoGradGuard no_grad;
  buffer_ = buffer;
  for (Segment& segment : segments_) {
    const torch::Tensor all =
        view(buffer_, segment.parameter_begin, segment.layout.elements(), segment.compute_dtype);
    if (copies_ == nullptr && segment.dtype == segment.compute_dtype) {
      segment.pending_gather = shards.all_gather(all, segment.shard);
      continue;
    }
    const int64_t elements = segment.layout.shard_elements();
    const torch::Tensor own = all.narrow(0, rank_ * elements, elements);
    const auto copy_and_gather = [&] {
      own.copy_(segment.shard, /*non_blocking=*/true);
      segment.pending_gather = shards.all_gather(all, own);
    };
    // The gather starts behind what its caller's stream holds: there, the copy alone.
    if (copies_ != nullptr) {
      copies_->start(copy_and_gather);
    } else {
      copy_and_gather();
    }
  }
}

double ShardedUnit::finish_gather() {
  check(gathering(), "a gather that is finished was started");
  if (bound_) return 0;
  double waited_s = 0;
  const torch::NoGradGuard no_grad;
  for (Segment& segment : segments_) {
    waited_s += timed_wait(segment.pending_gather);
    const torch::Tensor all =
        view(buffer_, segment.parameter_begin, segment.layout.elements(), segment.compute_dtype);
    for (size_t i = 0; i < segment.tensors.size(); ++i) {
      const FlatTensor& flat = segment.layout.tensors()[i];
      point_to(*segment.tensors[i], all.slice(0, flat.begin, flat.end).view(flat.shape));
    }
  }
  bound_ = true;
  return waited_s;
}

torch::Tensor ShardedUnit::release() {
  check(bound_, "only a gathered unit can be released");
  for (Segment& segment : segments_) {
    for (torch::Tensor* tensor : segment.tensors) {
      point_to(*tensor, placeholder(tensor->sizes(), tensor->options().requires_grad(false)));
    }
  }
  bound_ = false;
  return std::exchange(buffer_, torch::Tensor());
}

// --- gradients -----------------------------------------------------------------------------------

void ShardedUnit::bind_gradients(const torch::Tensor& buffer) {
  check(!collects_gradients(), "gradients have one buffer at a time");
  gradient_buffer_ = buffer;
  for (Segment& segment : segments_) {
    if (!segment.trains) continue;
    // Padding is zeros, too: it goes through the reduction, and must not be anything.
    const torch::Tensor all = view(gradient_buffer_, segment.gradient_begin,
                                   segment.layout.elements(), segment.compute_dtype);
    all.zero_();
    for (size_t i = 0; i < segment.tensors.size(); ++i) {
      const FlatTensor& flat = segment.layout.tensors()[i];
      segment.tensors[i]->mutable_grad() = all.slice(0, flat.begin, flat.end).view(flat.shape);
    }
  }
}

void ShardedUnit::start_reduction(Communicator& shards) {
  check(collects_gradients(), "gradients are collected before they are reduced");
  const torch::NoGradGuard no_grad;
  for (Segment& segment : segments_) {
    if (!segment.trains) continue;
    const torch::Tensor all = view(gradient_buffer_, segment.gradient_begin,
                                   segment.layout.elements(), segment.compute_dtype);
    for (size_t i = 0; i < segment.tensors.size(); ++i) {
      const FlatTensor& flat = segment.layout.tensors()[i];
      torch::Tensor& gradient = segment.tensors[i]->mutable_grad();
      const torch::Tensor place = all.slice(0, flat.begin, flat.end).view(flat.shape);
      // Who made a gradient of its own instead of adding to the one that was there.
      if (gradient.defined() && gradient.data_ptr() != place.data_ptr()) place.copy_(gradient);
      gradient.reset();
    }
    segment.staged =
        segment.reduce_dtype == segment.compute_dtype ? all : all.to(segment.reduce_dtype);
    segment.incoming =
        torch::empty({segment.layout.shard_elements()}, all.options().dtype(segment.reduce_dtype));
    segment.pending_reduction = shards.reduce_scatter(segment.incoming, segment.staged);
  }
}

torch::Tensor ShardedUnit::finish_reduction(double& waited_s) {
  const torch::NoGradGuard no_grad;
  for (Segment& segment : segments_) {
    if (!segment.trains) continue;
    waited_s += timed_wait(segment.pending_reduction);
    segment.staged.reset();
    const torch::Tensor sum = std::exchange(segment.incoming, torch::Tensor());
    segment.reduced = segment.reduced.defined() ? segment.reduced.add_(sum) : sum;
  }
  return std::exchange(gradient_buffer_, torch::Tensor());
}

void ShardedUnit::start_replica_sums(Communicator& replicas,
                                     std::vector<PendingCollective>& pending) {
  for (const Segment& segment : segments_) {
    if (segment.trains) pending.push_back(replicas.all_reduce(segment.reduced, Reduction::kSum));
  }
}

void ShardedUnit::start_departure() {
  const torch::NoGradGuard no_grad;
  for (Segment& segment : segments_) {
    if (!segment.reduced.defined() || segment.gradient.defined()) continue;
    segment.gradient =
        ops::empty_on_host({segment.layout.shard_elements()}, segment.dtype, device_);
    segment.departure = copies_->start(
        [&segment] { segment.gradient.copy_(segment.reduced, /*non_blocking=*/true); });
  }
}

// What is computed next may take the device's memory.
void ShardedUnit::finish_departure() {
  for (Segment& segment : segments_) {
    if (!segment.reduced.defined() || !segment.gradient.defined()) continue;
    copies_->wait(std::exchange(segment.departure, {}));
    segment.reduced.reset();
  }
}

void ShardedUnit::finish_gradients() {
  const torch::NoGradGuard no_grad;
  for (Segment& segment : segments_) {
    if (copies_ == nullptr && segment.reduced.defined()) {
      segment.gradient = segment.reduced.to(segment.dtype);  // itself where the dtype is the same
      segment.reduced.reset();
    }
    if (!segment.gradient.defined()) continue;  // frozen, or without a backward pass in this step
    const int64_t shard_begin = rank_ * segment.layout.shard_elements();
    const std::vector<FlatSlice> slices = segment.layout.slices(rank_);
    for (size_t i = 0; i < slices.size(); ++i) {
      segment.owned[i].tensor.mutable_grad() =
          segment.gradient.slice(0, slices[i].begin - shard_begin, slices[i].end - shard_begin);
    }
  }
}

void ShardedUnit::drop_gradients() {
  for (Segment& segment : segments_) {
    segment.gradient.reset();
    for (OwnedTensor& owned : segment.owned) owned.tensor.mutable_grad().reset();
  }
}

void ShardedUnit::visit_whole(Communicator& shards, const ParallelParameters::Visit& visit,
                              ParallelParameters::Visited visited) const {
  const torch::NoGradGuard no_grad;
  for (const Segment& segment : segments_) {
    if (visited == ParallelParameters::Visited::kTrained && !segment.trains) continue;
    const torch::Tensor all =
        torch::empty({segment.layout.elements()}, torch::dtype(segment.dtype).device(device_));
    const int64_t elements = segment.layout.shard_elements();
    const torch::Tensor own = all.narrow(0, rank_ * elements, elements);
    own.copy_(segment.shard);
    shards.all_gather(all, own).wait();
    for (const FlatTensor& flat : segment.layout.tensors()) {
      visit(flat.name, all.slice(0, flat.begin, flat.end).view(flat.shape));
    }
  }
}

bool ShardedUnit::put_whole(const std::string& name, const torch::Tensor& values) {
  const torch::NoGradGuard no_grad;
  bool found = false;
  for (Segment& segment : segments_) {
    for (const FlatTensor& flat : segment.layout.tensors()) found = found || flat.name == name;
    const int64_t shard_begin = rank_ * segment.layout.shard_elements();
    for (const FlatSlice& slice : segment.layout.slices(rank_)) {
      const FlatTensor& flat = segment.layout.tensors()[slice.tensor];
      if (flat.name != name) continue;
      segment.shard.slice(0, slice.begin - shard_begin, slice.end - shard_begin)
          .copy_(values.reshape(-1).slice(0, slice.begin - flat.begin, slice.end - flat.begin));
    }
  }
  return found;
}

void ShardedUnit::append_owned(std::vector<OwnedTensor>& owned) const {
  for (const Segment& segment : segments_) {
    owned.insert(owned.end(), segment.owned.begin(), segment.owned.end());
  }
}

void ShardedUnit::append_inventory(std::vector<ParameterInfo>& inventory) const {
  for (const Segment& segment : segments_) {
    for (const FlatTensor& flat : segment.layout.tensors()) {
      inventory.push_back({flat.name, flat.shape, segment.dtype, segment.trains});
    }
  }
}

void ShardedUnit::append_flat_arrays(std::vector<FlatArray>& arrays) const {
  for (size_t i = 0; i < segments_.size(); ++i) {
    const Segment& segment = segments_[i];
    if (!segment.trains) continue;
    FlatArray& array =
        arrays.emplace_back(FlatArray{name_ + "." + std::to_string(i), segment.shard, {}});
    for (const FlatSlice& slice : segment.layout.slices(rank_)) {
      array.parts.push_back({0, slice.begin - rank_ * segment.layout.shard_elements()});
    }
  }
}

}  // namespace sftbench
