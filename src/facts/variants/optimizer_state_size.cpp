#include "sftbench/variants/optimizer_state_size.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace sftbench {
namespace {

constexpr int64_t kFloatBytes = 4;

int64_t blocks_of(int64_t elements) {
  return (elements + kQuantBlockElements - 1) / kQuantBlockElements;
}

int64_t code_bytes(const StateRule& rule, int64_t elements) {
  return rule.states * ((elements * rule.bits + 7) / 8);
}

int64_t scale_bytes(const StateRule& rule, int64_t elements) {
  return rule.states * blocks_of(elements) * kFloatBytes;
}

// One number for each row and each column of a matrix, else one for each element.
int64_t factored_bytes(const TrainedShape& tensor) {
  const std::vector<int64_t>& sizes = tensor.sizes;
  if (sizes.size() < 2) return tensor.elements() * kFloatBytes;
  const int64_t rows = tensor.elements() / sizes.back();
  const int64_t columns = tensor.elements() / sizes[sizes.size() - 2];
  return (rows + columns) * kFloatBytes;
}

int64_t wide_bytes(const StateRule& rule, const TrainedShape& tensor, int64_t element_bytes) {
  return rule.states * tensor.elements() * (rule.float32 ? kFloatBytes : element_bytes);
}

int64_t inner_bytes(const StateRule& rule, const TrainedShape& tensor, int64_t element_bytes) {
  if (rule.factored) return factored_bytes(tensor);
  if (rule.bits == 0 || !has_quantized_states(rule, tensor)) {
    return wide_bytes(rule, tensor, element_bytes);
  }
  return code_bytes(rule, tensor.elements()) + scale_bytes(rule, tensor.elements());
}

// The basis spans the side that is not longer; the states are those of the projected gradient. A
// factored rule widens the gradient first.
int64_t projected_bytes(const StateRule& rule, const TrainedShape& tensor, int64_t element_bytes) {
  const int64_t longer = std::max(tensor.sizes[0], tensor.sizes[1]);
  const int64_t shorter = std::min(tensor.sizes[0], tensor.sizes[1]);
  const int64_t rank = std::min(kGaloreRank, shorter);
  const TrainedShape low_rank = {tensor.name, {longer, rank}};
  const int64_t width = rule.factored ? kFloatBytes : element_bytes;
  return rank * shorter * width + inner_bytes(rule, low_rank, element_bytes);
}

bool contains(const std::string& text, const char* word) {
  return text.find(word) != std::string::npos;
}

}  // namespace

int64_t TrainedShape::elements() const {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

bool is_embedding(const std::string& name) {
  const std::string module = name.substr(0, name.rfind(".weight"));
  const std::string last = module.substr(module.rfind('.') + 1);
  if (last == "wte" || last == "wpe") return true;
  // Norms behind an embedding, and a vision tower's convolution and class token, are none.
  return contains(last, "embed") && !contains(last, "norm") && last != "patch_embedding" &&
         last != "class_embedding";
}

bool is_galore_target(const TrainedShape& tensor) {
  if (is_embedding(tensor.name) || tensor.sizes.size() != 2) return false;
  return contains(tensor.name, "attn") || contains(tensor.name, "mlp");
}

bool has_quantized_states(const StateRule& rule, const TrainedShape& tensor) {
  const int64_t elements = tensor.elements();
  if (elements < kLeastQuantizedElements) return false;
  if (rule.whole_blocks_only && elements % kQuantBlockElements != 0) return false;
  return !rule.embeddings_stay_wide || !is_embedding(tensor.name);
}

StateBytes state_bytes(OptimizerKind kind, const TrainedShape& tensor, int64_t element_bytes,
                       bool on_gpu) {
  const StateRule& rule = row_of(kind).state;
  if (rule.projected && is_galore_target(tensor)) {
    return {.device = projected_bytes(rule, tensor, element_bytes)};
  }
  const int64_t bytes = inner_bytes(rule, tensor, element_bytes);
  if (!on_gpu) return {.device = bytes};
  if (rule.on_host) return {.host = bytes};
  if (!rule.paged || tensor.elements() < kLeastPagedElements) return {.device = bytes};
  // Scales are small and stay.
  const bool quantized = rule.bits > 0 && has_quantized_states(rule, tensor);
  const int64_t kept = quantized ? scale_bytes(rule, tensor.elements()) : 0;
  return {.device = kept, .host = bytes - kept};
}

}  // namespace sftbench
