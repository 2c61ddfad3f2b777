#include "optim/quantized.h"

#include <algorithm>
#include <utility>

#include "optim/state_pager.h"
#include "optim/state_tensors.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/update.h"

namespace sftbench {
namespace {

using torch::Tensor;

// A parameter with its states, which are quantized or wide.
struct Member {
  std::string name;
  Tensor parameter;
  std::vector<ops::QuantizedTensor> quantized;
  std::vector<Tensor> wide;
  bool paged = false;

  // What is paged: codes or wide states. Scales are small and stay.
  std::vector<Tensor> pages() const {
    std::vector<Tensor> result = wide;
    for (const ops::QuantizedTensor& state : quantized) result.push_back(state.codes);
    return result;
  }
};

// Elements of a paged member, which are updated at a time.
struct Piece {
  const Member* member;
  int64_t begin;
  int64_t numel;
};

std::vector<Piece> pieces_of(const Member& member, int64_t at_once) {
  std::vector<Piece> pieces;
  const int64_t numel = member.parameter.numel();
  for (int64_t begin = 0; begin < numel; begin += at_once) {
    pieces.push_back({&member, begin, std::min(at_once, numel - begin)});
  }
  return pieces;
}

// The piece alone, as views of the same memory. Codes of paged states are bytes: none has 4 bits.
Member member_of(const Piece& piece) {
  const auto part = [](const Tensor& tensor, int64_t begin, int64_t numel) {
    return tensor.view({-1}).narrow(0, begin, numel);
  };
  const Member& whole = *piece.member;
  Member member{whole.name, part(whole.parameter, piece.begin, piece.numel), {}, {}};
  for (const Tensor& state : whole.wide) {
    member.wide.push_back(part(state, piece.begin, piece.numel));
  }
  const int64_t blocks = (piece.numel + ops::kQuantBlockNumel - 1) / ops::kQuantBlockNumel;
  for (const ops::QuantizedTensor& state : whole.quantized) {
    member.quantized.push_back({state.map, part(state.codes, piece.begin, piece.numel),
                                part(state.scales, piece.begin / ops::kQuantBlockNumel, blocks)});
  }
  return member;
}

class Quantized : public Optimizer {
 public:
  Quantized(std::vector<ParameterGroup> groups, QuantizedKind kind) : kind_(std::move(kind)) {
    const torch::NoGradGuard no_grad;
    for (const ParameterGroup& group : groups) {
      groups_.push_back({group.weight_decay, {}});
      for (const TrainableTensor& trainable : group.parameters) {
        require_quantizable(name_of(kind_.kind), trainable);
        groups_.back().members.push_back(make_member(trainable));
      }
    }
  }

  void step(double learning_rate, double gradient_scale) override {
    const torch::NoGradGuard no_grad;
    ++step_;
    for (const Group& group : groups_) {
      ops::RuleFactors<double> factors = kind_.factors({step_, learning_rate, group.weight_decay});
      factors.gradient_scale = gradient_scale;
      Work resident;
      std::vector<const Member*> paged;
      for (const Member& member : group.members) {
        if (!member.parameter.grad().defined()) continue;
        if (member.paged) {
          paged.push_back(&member);
        } else {
          resident.add(member, member.parameter.grad(), member.pages());
        }
      }
      resident.run(kind_.rule, factors);
      visit(paged, factors);
    }
  }

  int64_t state_bytes() const override {
    int64_t bytes = 0;
    for (const Group& group : groups_) {
      for (const Member& member : group.members) {
        bytes += bytes_of(member.pages());
        for (const ops::QuantizedTensor& state : member.quantized) bytes += bytes_of(state.scales);
      }
    }
    return bytes;
  }

  void visit_state(OptimizerStateVisitor& visitor) override {
    visitor.number("step", step_);
    const std::vector<const char*>& names = state_names(kind_.rule);
    for (const Group& group : groups_) {
      for (const Member& member : group.members) {
        visitor.parameter(member.name);
        for (size_t k = 0; k < member.wide.size(); ++k) visitor.values(names[k], member.wide[k]);
        for (size_t k = 0; k < member.quantized.size(); ++k) {
          visitor.quantized(names[k], member.quantized[k]);
        }
      }
    }
  }

 private:
  struct Group {
    double weight_decay;
    std::vector<Member> members;
  };

  // Tensors that are updated by one call.
  struct Work {
    std::vector<ops::BlockwiseTensor> quantized;
    std::vector<ops::UpdatedTensor> wide;

    void add(const Member& member, const Tensor& gradient, const std::vector<Tensor>& pages) {
      if (member.quantized.empty()) {
        wide.push_back({member.parameter, gradient, pages});
        return;
      }
      ops::BlockwiseTensor tensor{member.parameter, gradient, member.quantized};
      for (size_t k = 0; k < pages.size(); ++k) tensor.states[k].codes = pages[k];
      quantized.push_back(std::move(tensor));
    }
    void run(ops::UpdateRule rule, const ops::RuleFactors<double>& factors) const {
      if (!quantized.empty()) ops::blockwise_update(rule, quantized, factors);
      if (!wide.empty()) ops::update(rule, wide, factors);
    }
  };

  const StateRule& rule_of_states() const { return row_of(kind_.kind).state; }

  // On CPUs there is nothing to page to.
  bool is_paged(const Tensor& parameter) const {
    return rule_of_states().paged && parameter.is_cuda() &&
           parameter.numel() >= kLeastPagedElements;
  }

  bool is_quantized(const TrainableTensor& trainable) const {
    return rule_of_states().bits > 0 &&
           has_quantized_states(rule_of_states(), trained_shape(trainable));
  }

  Member make_member(const TrainableTensor& trainable) {
    const Tensor& parameter = trainable.tensor;
    Member member{trainable.name, parameter, {}, {}};
    if (is_quantized(trainable)) {
      member.quantized = ops::zero_states(
          kind_.rule, rule_of_states().bits == 8 ? ops::StateBits::k8 : ops::StateBits::k4,
          parameter);
    } else {
      const bool float32 = rule_of_states().float32;
      const auto dtype = float32 ? torch::kFloat32 : parameter.scalar_type();
      for (int k = 0; k < ops::state_count(kind_.rule); ++k) {
        member.wide.push_back(state_like(parameter, dtype));
      }
    }
    if (is_paged(parameter)) page_out(member);
    return member;
  }

  void page_out(Member& member) {
    if (!pager_) pager_ = std::make_unique<StatePager>(member.parameter.device());
    member.paged = true;
    for (Tensor& state : member.wide) state = pager_->to_host(state);
    for (ops::QuantizedTensor& state : member.quantized) state.codes = pager_->to_host(state.codes);
  }

  // Quantized and wide ones are of different dtypes: each has its own tour, piece by piece.
  void visit(const std::vector<const Member*>& paged, const ops::RuleFactors<double>& factors) {
    for (const bool quantized : {true, false}) {
      std::vector<Member> members;
      std::vector<Tensor> gradients;
      std::vector<StatePager::Visitor> pages;
      for (const Member* member : paged) {
        if (member->quantized.empty() == quantized) continue;
        const Tensor gradient = member->parameter.grad().reshape({-1});
        for (const Piece& piece : pieces_of(*member, kind_.paged_at_once)) {
          members.push_back(member_of(piece));
          gradients.push_back(gradient.narrow(0, piece.begin, piece.numel));
          pages.push_back({members.back().pages()});
        }
      }
      if (members.empty()) continue;
      pager_->visit(pages, [&](size_t i, const std::vector<Tensor>& on_device) {
        Work work;
        work.add(members[i], gradients[i], on_device);
        work.run(kind_.rule, factors);
      });
    }
  }

  QuantizedKind kind_;
  std::vector<Group> groups_;
  std::unique_ptr<StatePager> pager_;
  int64_t step_ = 0;
};

}  // namespace

void require_quantizable(const char* optim, const TrainableTensor& trainable) {
  const auto dtype = trainable.tensor.scalar_type();
  if (dtype == torch::kFloat32 || dtype == torch::kBFloat16 || dtype == torch::kFloat16) return;
  throw RunError(ReasonCode::kUnsupported,
                 std::string("optim ") + optim + ": " + trainable.name + " is " +
                     c10::toString(dtype) +
                     ", and its states are defined for float32, bfloat16 and float16 parameters; "
                     "torch_dtype bfloat16 works");
}

std::unique_ptr<Optimizer> make_quantized(std::vector<ParameterGroup> groups, QuantizedKind kind) {
  return std::make_unique<Quantized>(std::move(groups), std::move(kind));
}

}  // namespace sftbench
