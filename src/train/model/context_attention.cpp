// Shapes: B batch, S this rank's positions, L those of a chunk, H query heads, K key/value heads,
// D head, N ranks.
#include "model/context_attention.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "sftbench/base/torch.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kHalves = ContextLayout::kHalves;

struct Settings : torch::CustomClassHolder {
  ContextPart part;
  ops::PartAttention attention;

  Settings(ContextPart of_row, ops::PartAttention how)
      : part(std::move(of_row)), attention(std::move(how)) {}

  int64_t ranks() const { return part.layout.ranks(); }
  int64_t rank() const { return part.group->rank(); }
  int64_t rank_at(int64_t distance) const { return (rank() + distance + ranks()) % ranks(); }
  // In the ring early chunks go to the next rank, late ones to the one before: where one goes, and
  // whose is here after so many hops.
  static int64_t direction(int64_t half) { return half == 0 ? 1 : -1; }
  int64_t source(int64_t hop, int64_t half) const { return rank_at(-direction(half) * hop); }
  // How far a chunk goes; also how far its gradients come.
  int64_t hops(int64_t owner, int64_t half) const {
    return part.layout.hops(owner, half, attention.window);
  }
  // Whether any chunk of the row makes this hop.
  bool anything_makes(int64_t hop) const {
    for (int64_t owner = 0; owner < ranks(); ++owner) {
      for (int64_t half = 0; half < ContextLayout::kHalves; ++half) {
        if (hops(owner, half) >= hop) return true;
      }
    }
    return false;
  }
  std::vector<AttentionBlock> blocks(int64_t owner, int64_t half) const {
    return part.layout.blocks(rank(), owner, half, attention.window);
  }
};
using SettingsHandle = c10::intrusive_ptr<Settings>;

// Keys and values of the two chunks of a rank: [halves, 2, B, L, K, D].
Tensor block_of(const Tensor& k, const Tensor& v) {
  const Tensor both = torch::stack({k, v});  // [2, B, S, K, D]
  return both.unflatten(2, std::vector<int64_t>{kHalves, -1})
      .permute({2, 0, 1, 3, 4, 5})
      .contiguous();
}

// The other way: {k, v} [B, S, K, D] each.
std::pair<Tensor, Tensor> whole_of(const Tensor& block) {
  const Tensor both = block.permute({1, 2, 0, 3, 4, 5}).flatten(2, 3);
  return {both[0], both[1]};
}

// Tensors that go to other ranks and come from them at once. Of what goes to one rank, or comes
// from it, the order is that of the calls.
class Exchange {
 public:
  void send(int64_t rank, const Tensor& tensor) { sent_.push_back({rank, tensor}); }
  // `into` becomes a tensor of these sizes, which is there when wait() has returned.
  void receive(int64_t rank, const std::vector<int64_t>& sizes, Tensor& into) {
    received_.push_back({rank, sizes, &into});
  }

  // Collective.
  void start(ContextGroup& group, const torch::TensorOptions& options) {
    const auto by_rank = [](const auto& a, const auto& b) { return a.rank < b.rank; };
    std::stable_sort(sent_.begin(), sent_.end(), by_rank);
    std::stable_sort(received_.begin(), received_.end(), by_rank);
    std::vector<int64_t> out(static_cast<size_t>(group.size()), 0), in = out;
    std::vector<Tensor> flat;
    for (const Sent& one : sent_) {
      out[static_cast<size_t>(one.rank)] += one.tensor.numel();
      flat.push_back(one.tensor.flatten());
    }
    int64_t count = 0;
    for (const Received& one : received_) {
      in[static_cast<size_t>(one.rank)] += c10::multiply_integers(one.sizes);
      count += c10::multiply_integers(one.sizes);
    }
    // One alone stays where it lies.
    from_ =
        flat.size() == 1 ? flat[0] : (flat.empty() ? torch::empty({0}, options) : torch::cat(flat));
    const Tensor to = torch::empty({count}, options);
    int64_t at = 0;
    for (const Received& one : received_) {
      const int64_t numel = c10::multiply_integers(one.sizes);
      *one.into = to.narrow(0, at, numel).view(one.sizes);
      at += numel;
    }
    wait_ = group.exchange(from_, out, to, in);
    sent_.clear();
    received_.clear();
  }

  void wait() {
    if (!wait_) return;
    std::exchange(wait_, {})();
    from_ = Tensor();
  }

 private:
  struct Sent {
    int64_t rank;
    Tensor tensor;
  };
  struct Received {
    int64_t rank;
    std::vector<int64_t> sizes;
    Tensor* into;
  };

  std::vector<Sent> sent_;
  std::vector<Received> received_;
  Tensor from_;
  ContextGroup::Wait wait_;
};

using ByHalf = std::array<Tensor, kHalves>;

// The chunks at hand, an early and a late one, while the next are under way.
class TravelingChunks {
 public:
  TravelingChunks(const Settings& settings, const Tensor& own)
      : settings_(settings), options_(own.options()), sizes_(own[0].sizes().vec()) {
    for (int64_t half = 0; half < kHalves; ++half) here_[static_cast<size_t>(half)] = own[half];
  }

  // Sends what is here on its next hop. Nothing if no rank hands anything on.
  void send_on() {
    const int64_t hop = hop_ + 1;
    if (hop >= settings_.ranks() || !settings_.anything_makes(hop)) return;
    for (int64_t half = 0; half < kHalves; ++half) {
      const auto at = static_cast<size_t>(half);
      const int64_t direction = Settings::direction(half);
      if (settings_.hops(settings_.source(hop_, half), half) >= hop)
        exchange_.send(settings_.rank_at(direction), here_[at]);
      if (settings_.hops(settings_.source(hop, half), half) >= hop)
        exchange_.receive(settings_.rank_at(-direction), sizes_, next_[at]);
    }
    exchange_.start(*settings_.part.group, options_);
  }

  // What was sent for it is here from now on.
  void arrive() {
    ++hop_;
    exchange_.wait();
    here_ = std::exchange(next_, {});
  }

  bool has(int64_t half) const { return here_[static_cast<size_t>(half)].defined(); }
  Tensor keys(int64_t half) const { return here_[static_cast<size_t>(half)][0]; }
  Tensor values(int64_t half) const { return here_[static_cast<size_t>(half)][1]; }

 private:
  const Settings& settings_;
  torch::TensorOptions options_;
  std::vector<int64_t> sizes_;
  ByHalf here_, next_;
  Exchange exchange_;
  int64_t hop_ = 0;
};

// visit(hop, owner, half, keys, values) for each chunk that comes by, this rank's own first.
template <class Visit, class Between>
void for_each_chunk_in_ring(const Settings& settings, const Tensor& k, const Tensor& v,
                            const Visit& visit, const Between& between) {
  TravelingChunks chunks(settings, block_of(k, v));
  for (int64_t hop = 0; hop < settings.ranks(); ++hop) {
    if (hop > 0) chunks.arrive();
    chunks.send_on();
    for (int64_t half = 0; half < kHalves; ++half) {
      if (chunks.has(half))
        visit(hop, settings.source(hop, half), half, chunks.keys(half), chunks.values(half));
    }
    between(hop);
  }
}

// Gradients of the keys and values that travel, in float32 (float64).
class TravelingGradients {
 public:
  TravelingGradients(const Settings& settings, const Tensor& k, torch::Dtype dtype)
      : settings_(settings),
        sizes_{2, k.size(0), k.size(1) / kHalves, k.size(2), k.size(3)},
        options_(k.options().dtype(dtype).requires_grad(false)),
        own_(torch::zeros({kHalves, sizes_[0], sizes_[1], sizes_[2], sizes_[3], sizes_[4]},
                          options_)) {}

  // What the queries of this rank give to a chunk: {dk, dv}, added to.
  std::pair<Tensor, Tensor> of(int64_t hop, int64_t half) {
    if (hop == 0) return {own_[half][0], own_[half][1]};
    Tensor& gradient = here_[static_cast<size_t>(half)];
    gradient = torch::zeros(sizes_, options_);
    return {gradient[0], gradient[1]};
  }

  // All chunks of this hop have what this rank gives them: takes what the ranks before it gave, and
  // sends the sum to the next rank, or home.
  void send_on(int64_t hop) {
    arrive();
    if (hop == 0 || !settings_.anything_makes(hop)) return;
    for (int64_t half = 0; half < kHalves; ++half) {
      const auto at = static_cast<size_t>(half);
      const int64_t owner = settings_.source(hop, half), last = settings_.hops(owner, half);
      const int64_t direction = Settings::direction(half);
      if (last >= hop)
        exchange_.send(last == hop ? owner : settings_.rank_at(direction), here_[at]);
      if (hop + 1 < settings_.ranks() &&
          settings_.hops(settings_.source(hop + 1, half), half) > hop)
        exchange_.receive(settings_.rank_at(-direction), sizes_, coming_[at]);
      if (settings_.hops(settings_.rank(), half) == hop)
        exchange_.receive(settings_.rank_at(direction * hop), sizes_, home_[at]);
    }
    exchange_.start(*settings_.part.group, options_);
  }

  // {dk, dv} [B, S, K, D]
  std::pair<Tensor, Tensor> finish() {
    arrive();
    return whole_of(own_);
  }

 private:
  // Adds what was under way to what it belongs to.
  void arrive() {
    exchange_.wait();
    for (int64_t half = 0; half < kHalves; ++half) {
      const auto at = static_cast<size_t>(half);
      if (coming_[at].defined()) here_[at] += std::exchange(coming_[at], {});
      if (home_[at].defined()) own_[half] += std::exchange(home_[at], {});
    }
  }

  const Settings& settings_;
  std::vector<int64_t> sizes_;
  torch::TensorOptions options_;
  Tensor own_;
  ByHalf here_, coming_, home_;
  Exchange exchange_;
};

ops::AttentionSums sums_over(const Settings& settings, const Tensor& q, const Tensor& k,
                             const Tensor& v) {
  ops::AttentionSums sums = ops::no_keys(q);
  for_each_chunk_in_ring(
      settings, k, v,
      [&](int64_t, int64_t owner, int64_t half, const Tensor& keys, const Tensor& values) {
        ops::meet_keys(sums, q, keys, values, settings.blocks(owner, half), settings.attention);
      },
      [](int64_t) {});
  return sums;
}

struct Saved {
  Tensor q, k, v, output, lse;
};

// {dq, dk, dv}, wide.
std::array<Tensor, 3> gradients_in_ring(const Settings& settings, const Tensor& upstream,
                                        const Saved& saved) {
  const auto wide = saved.lse.scalar_type();
  const Tensor dq = torch::zeros(saved.q.sizes(), saved.lse.options());
  TravelingGradients traveling(settings, saved.k, wide);
  for_each_chunk_in_ring(
      settings, saved.k, saved.v,
      [&](int64_t hop, int64_t owner, int64_t half, const Tensor& keys, const Tensor& values) {
        const auto [dk, dv] = traveling.of(hop, half);
        ops::AttentionGradients gradients{dq, dk, dv};
        ops::add_gradients(gradients, upstream, saved.q, keys, values, saved.output, saved.lse,
                           settings.blocks(owner, half), settings.attention);
      },
      [&](int64_t hop) { traveling.send_on(hop); });
  const auto [dk, dv] = traveling.finish();
  return {dq, dk, dv};
}

class ContextAttention : public torch::autograd::Function<ContextAttention> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const ops::OptionalTensor& sinks, const SettingsHandle& settings) {
    ops::AttentionSums sums = sums_over(*settings, q, k, v);
    if (sinks) ops::meet_sinks(sums, sinks->to(sums.lse.scalar_type()));
    const Tensor output = sums.output.to(q.scalar_type());
    ctx->save_for_backward({q, k, v, output, sums.lse, sinks ? *sinks : Tensor()});
    ctx->saved_data["settings"] = c10::IValue::make_capsule(settings);
    return output;
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const auto settings =
        c10::static_intrusive_pointer_cast<Settings>(ctx->saved_data["settings"].toCapsule());
    const variable_list kept = ctx->get_saved_variables();
    const Saved saved{kept[0], kept[1], kept[2], kept[3], kept[4]};
    const Tensor upstream = gradients[0].contiguous();
    const auto [dq, dk, dv] = gradients_in_ring(*settings, upstream, saved);
    const auto dtype = saved.q.scalar_type();
    Tensor of_sinks;
    if (const Tensor& sinks = kept[5]; sinks.defined() && sinks.requires_grad()) {
      of_sinks = ops::gradient_of_sinks(sinks.to(saved.lse.scalar_type()), upstream, saved.output,
                                        saved.lse)
                     .to(sinks.scalar_type());
    }
    return {dq.to(dtype), dk.to(dtype), dv.to(dtype), of_sinks, Tensor()};
  }
};

}  // namespace

Tensor context_attention(const ContextPart& part, const Tensor& q, const Tensor& k, const Tensor& v,
                         double scale, int64_t window, const ops::Dropout& dropout,
                         const ops::ScoreTerms& terms) {
  const Tensor qc = q.contiguous(), kc = k.contiguous(), vc = v.contiguous();
  const auto settings =
      c10::make_intrusive<Settings>(part, ops::PartAttention{scale, window, dropout, terms.slopes,
                                                             part.layout.row_length(), terms.cap});
  ops::OptionalTensor sinks;
  if (terms.sinks.defined()) sinks = terms.sinks;
  return ContextAttention::apply(qc, kc, vc, sinks, settings);
}

}  // namespace sftbench
