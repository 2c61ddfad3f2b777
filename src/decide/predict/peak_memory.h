// When this engine holds most, and what: while the loss is computed, or while a layer's
// backward pass runs. `predict --exact` shows the same places (engine/device_memory_watch.h), and
// bench/exact/table.py compares the two.
#pragma once

namespace sftbench {

// Bytes of one rank and micro-batch.
struct PeakInput {
  double waiting = 0;            // what all layers keep for their backward passes
  double layer = 0;              // what the layer that is recomputed keeps; 0 where none is
  double backward = 0;           // gradients inside one layer
  double logits = 0;             // a chunk of them
  double hidden = 0;             // one value of the residual stream for each position
  double gradients = 0;          // of parameters or shards, between backward pass and update
  double gradients_of_loss = 0;  // of these: the output projection's, which come with the loss
  // The others come while the layers' values go: in the last micro-batch of a step.
  bool gradients_come_late = false;
};

struct PeakParts {
  double activations = 0;
  double logits = 0;           // 0: they are gone at the peak
  double freed_gradients = 0;  // that are not there yet at the peak
};

PeakParts peak_parts(const PeakInput& input);

}  // namespace sftbench
