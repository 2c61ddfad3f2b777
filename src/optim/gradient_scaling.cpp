#include "sftbench/optim/gradient_scaling.h"

#include <algorithm>

namespace sftbench {
namespace {

class UnitLossScaler : public LossScaler {
 public:
  double scale() const override { return 1.0; }
  bool accept(bool) override { return true; }
};

class DynamicLossScaler : public LossScaler {
 public:
  double scale() const override { return scale_; }

  bool accept(bool gradients_finite) override {
    if (!gradients_finite) {
      scale_ *= 0.5;
      clean_updates_ = 0;
    } else if (++clean_updates_ == kGrowthInterval) {
      scale_ *= 2.0;
      clean_updates_ = 0;
    }
    return gradients_finite;
  }

 private:
  static constexpr int64_t kGrowthInterval = 2000;
  double scale_ = 65536.0;
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
