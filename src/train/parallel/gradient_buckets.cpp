#include "parallel/gradient_buckets.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

constexpr int64_t kFirstBucketBytes = int64_t{1} << 20;
constexpr int64_t kBucketBytes = int64_t{25} << 20;

// A trained parameter, when its gradient is complete, and from where on it is read.
struct Trained {
  UnitTensor parameter;
  int64_t after;
  int64_t used_from;
};

// In the order in which the backward pass completes them. An embedding is complete last (a tied one
// has its first part from the output projection).
std::vector<Trained> in_backward_order(const std::vector<ParameterUnit>& units) {
  const auto layers = static_cast<int64_t>(units.size()) - 1;
  std::vector<Trained> order;
  const std::vector<UnitTensor>& root = units.front().tensors;
  for (size_t i = root.size(); i-- > 0;) {
    if (root[i].behind_layers) order.push_back({root[i], layers - 1, layers});
  }
  for (int64_t layer = layers; layer-- > 0;) {
    const std::vector<UnitTensor>& tensors = units[static_cast<size_t>(layer) + 1].tensors;
    for (size_t i = tensors.size(); i-- > 0;) order.push_back({tensors[i], layer - 1, layer});
  }
  for (size_t i = root.size(); i-- > 0;) {
    if (!root[i].behind_layers) order.push_back({root[i], kAtEnd, kAtBegin});
  }
  std::erase_if(order, [](const Trained& t) { return !t.parameter.tensor->requires_grad(); });
  return order;
}

GradientBucket make_bucket(const std::vector<Trained>& members, int64_t shards) {
  const torch::TensorOptions options =
      members.front().parameter.tensor->options().requires_grad(false);
  GradientBucket bucket{FlatLayout(static_cast<int64_t>(options.dtype().itemsize()), shards)};
  for (const Trained& member : members) {
    bucket.layout.add(member.parameter.name, member.parameter.tensor->sizes().vec());
    bucket.tensors.push_back(member.parameter.tensor);
  }
  // Members are in the order of the backward pass.
  bucket.after = members.back().after;
  bucket.used_from = members.back().used_from;
  bucket.gradients = torch::zeros({bucket.layout.elements()}, options);
  for (const FlatTensor& flat : bucket.layout.tensors()) {
    bucket.places.push_back(bucket.gradients.slice(0, flat.begin, flat.end).view(flat.shape));
  }
  return bucket;
}

}  // namespace

void GradientBucket::clear() {
  gradients.zero_();
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i]->mutable_grad() = places[i];
}

void GradientBucket::drop() {
  for (torch::Tensor* tensor : tensors) tensor->mutable_grad().reset();
}

void GradientBucket::take_strays() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < tensors.size(); ++i) {
    torch::Tensor& gradient = tensors[i]->mutable_grad();
    if (gradient.data_ptr() == places[i].data_ptr()) continue;
    places[i].copy_(gradient);
    gradient = places[i];
  }
}

std::vector<GradientBucket> make_gradient_buckets(const std::vector<ParameterUnit>& units,
                                                  Buckets kind, int64_t shards) {
  std::vector<GradientBucket> buckets;
  std::vector<Trained> members;
  int64_t bytes = 0;
  const auto close = [&] {
    if (!members.empty()) buckets.push_back(make_bucket(members, shards));
    members.clear();
    bytes = 0;
  };
  for (const Trained& trained : in_backward_order(units)) {
    const bool other_dtype = !members.empty() && members.back().parameter.tensor->dtype() !=
                                                     trained.parameter.tensor->dtype();
    const bool other_unit = !members.empty() && members.back().after != trained.after;
    if (other_dtype || (kind == Buckets::kByUnit && other_unit)) close();
    members.push_back(trained);
    bytes += static_cast<int64_t>(trained.parameter.tensor->nbytes());
    const int64_t most = buckets.empty() ? kFirstBucketBytes : kBucketBytes;
    if (kind == Buckets::kBySize && bytes >= most) close();
  }
  close();
  return buckets;
}

}  // namespace sftbench
