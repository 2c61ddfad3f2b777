// How many bytes an optimizer keeps of a trained tensor, by arithmetic. tests/optim holds it
// against the optimizers themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/variants/optimizer.h"

namespace sftbench {

// A tensor that is trained, under its Hugging Face name. A rank's part of it is a vector.
struct TrainedShape {
  std::string name;
  std::vector<int64_t> sizes;

  int64_t elements() const;
};

inline constexpr int64_t kQuantBlockElements = 256;       // that share a scale
inline constexpr int64_t kLeastQuantizedElements = 4096;  // of a tensor
inline constexpr int64_t kLeastPagedElements = 100'000;
// Of a paged tensor: the states of so many are on the device for their update, and of as many more
// on their way. A whole number of blocks.
inline constexpr int64_t kPagedElementsAtOnce = int64_t{1} << 23;
// Of a chunk whose states visit the GPU together, unless one tensor has more (optim/offloaded.h).
inline constexpr int64_t kOffloadedChunkElements = int64_t{1} << 22;
inline constexpr int64_t kGaloreRank = 128;

// The weight of a torch.nn.Embedding, by the names of all families. An output projection that is
// tied to one is one.
bool is_embedding(const std::string& name);
// Linear weights of attention and MLP, whose gradients GaLore projects.
bool is_galore_target(const TrainedShape& tensor);
// Whether its states are codes. REQUIRES: the rule has bits.
bool has_quantized_states(const StateRule& rule, const TrainedShape& tensor);

struct StateBytes {
  int64_t device = 0;
  int64_t host = 0;  // of those that a GPU's states leave to the host; 0 on CPUs

  int64_t total() const { return device + host; }
};

// `element_bytes`: of the parameter.
StateBytes state_bytes(OptimizerKind kind, const TrainedShape& tensor, int64_t element_bytes,
                       bool on_gpu);

}  // namespace sftbench
