#include "sftbench/optim/gradient_scaling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

class UnitLossScaler : public LossScaler {
 public:
  double scale() const override { return 1.0; }
  bool accept(bool) override { return true; }
  void visit_state(OptimizerStateVisitor&) override {}
};

class DynamicLossScaler : public LossScaler {
 public:
  double scale() const override { return scale_; }

  bool accept(bool gradients_finite) override {
    if (!gradients_finite) {
      back_off();
    } else if (++clean_updates_ == kGrowthInterval) {
      if (std::isfinite(scale_ * 2)) scale_ *= 2;
      clean_updates_ = 0;
    }
    return gradients_finite;
  }

  void visit_state(OptimizerStateVisitor& visitor) override {
    double scale = scale_;
    visitor.number("loss_scale", scale);
    scale_ = static_cast<float>(scale);
    if (scale_ < std::numeric_limits<float>::min() || !std::isfinite(scale_)) {
      throw InputError("loss_scale is " + std::to_string(scale) + ", which scales nothing");
    }
    visitor.number("clean_updates", clean_updates_);
  }

 private:
  void back_off() {
    scale_ /= 2;
    clean_updates_ = 0;
    if (scale_ >= std::numeric_limits<float>::min()) return;
    throw RunError(ReasonCode::kInternal,
                   "loss scaling: the gradients are not finite under any scale from 65536 down to "
                   "the smallest, so no update was made for that many steps");
  }

  static constexpr int64_t kGrowthInterval = 2000;
  float scale_ = 65536.0F;  // as torch keeps it
  int64_t clean_updates_ = 0;
};

}  // namespace

double clip_factor(double norm, double max_norm) {
  if (max_norm <= 0) return 1.0;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

std::unique_ptr<LossScaler> make_unit_loss_scaler() {
  return std::make_unique<UnitLossScaler>();
}

std::unique_ptr<LossScaler> make_dynamic_loss_scaler() {
  return std::make_unique<DynamicLossScaler>();
}

}  // namespace sftbench
