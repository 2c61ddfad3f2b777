// The one factor that gradients are read with: clipping by their global norm, and loss scaling.
#pragma once

#include <cstdint>
#include <memory>

#include "sftbench/optim/optimizer_state.h"

namespace sftbench {

// min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; 1 when max_norm <= 0 (no
// clipping).
double clip_factor(double norm, double max_norm);

// Keeps small float16 gradients from vanishing: the loss is multiplied by scale(), gradients are
// read divided by it.
class LossScaler {
 public:
  virtual ~LossScaler() = default;
  virtual double scale() const = 0;
  // Told after each backward whether the gradients were finite. False: this step's update must be
  // skipped.
  virtual bool accept(bool gradients_finite) = 0;
  // What the next scale depends on.
  virtual void visit_state(OptimizerStateVisitor& visitor) = 0;
};

// Scale 1, every update accepted: all precisions but float16 autocast.
std::unique_ptr<LossScaler> make_unit_loss_scaler();

// torch.amp.GradScaler with its defaults: 65536, halved when a gradient overflows (and the update
// skipped), doubled after 2000 updates in a row without overflow. An update that is skipped moves
// neither optimizer nor schedule, as in accelerate and Trainer (which overlook the skipping that
// adamw_torch_fused does itself, and move the schedule on for it; here it waits for all). Where
// torch goes on at a scale of 0, accept() throws RunError(kInternal).
std::unique_ptr<LossScaler> make_dynamic_loss_scaler();

}  // namespace sftbench
