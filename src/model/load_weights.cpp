// Weights from a checkpoint folder into a model. Names need no table: the models name their
// parameters as Hugging Face does. What is stored in a model's dtype is copied once, from the page
// cache to where it stays, by all threads.
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "model/huge_pages.h"
#include "model/parallel_tasks.h"
#include "sftbench/base/error.h"
#include "sftbench/checkpoint/checkpoint.h"
#include "sftbench/model/causal_lm.h"

namespace sftbench {
namespace {

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kOutput = "lm_head.weight";

struct Source {
  const CheckpointShard* shard;
  const StoredTensor* tensor;

  const std::byte* bytes() const { return shard->bytes(*tensor); }
};

struct Assignment {
  NamedParameter parameter;
  Source source;
};

using Sources = std::map<std::string, Source>;

std::optional<torch::Dtype> torch_dtype(StoredDtype dtype) {
  switch (dtype) {
    case StoredDtype::kF64:
      return torch::kFloat64;
    case StoredDtype::kF32:
      return torch::kFloat32;
    case StoredDtype::kF16:
      return torch::kFloat16;
    case StoredDtype::kBF16:
      return torch::kBFloat16;
    default:
      return std::nullopt;
  }
}

Diagnostic finding(const std::filesystem::path& file, const std::string& tensor,
                   std::string message, std::string expected = {}) {
  return {.file = file.string(),
          .line = 0,
          .key = tensor,
          .message = std::move(message),
          .expected = std::move(expected),
          .nearest = {}};
}

Sources sources_by_name(const std::vector<CheckpointShard>& shards) {
  Sources sources;
  for (const CheckpointShard& shard : shards) {
    for (const StoredTensor& tensor : shard.tensors) sources[tensor.name] = {&shard, &tensor};
  }
  return sources;
}

// Hugging Face wrote the rotary frequencies into checkpoints once; they follow from config.json.
bool is_leftover(const std::string& name) {
  return name.ends_with("rotary_emb.inv_freq");
}

// A tied model's checkpoint may hold the shared matrix under either name, or under both.
void resolve_tied_output(const ModelConfig& config, Sources& sources,
                         std::vector<Diagnostic>& findings) {
  const auto output = sources.find(kOutput);
  if (!config.tie_word_embeddings || output == sources.end()) return;
  const auto [embedding, was_missing] = sources.emplace(kEmbedding, output->second);
  const Source a = embedding->second, b = output->second;
  const bool equal =
      was_missing || (a.tensor->dtype == b.tensor->dtype && a.tensor->shape == b.tensor->shape &&
                      std::memcmp(a.bytes(), b.bytes(), a.tensor->size_bytes) == 0);
  if (!equal) {
    findings.push_back(finding(b.shard->path, kOutput, std::string("differs from ") + kEmbedding,
                               "equal matrices, or \"tie_word_embeddings\": false in config.json"));
  }
  sources.erase(output);
}

void check_fits(const NamedParameter& parameter, const Source& source,
                std::vector<Diagnostic>& findings) {
  const auto& path = source.shard->path;
  if (parameter.tensor->sizes() != torch::IntArrayRef(source.tensor->shape)) {
    findings.push_back(finding(path, parameter.name,
                               "has shape " + shape_text(source.tensor->shape),
                               shape_text(parameter.tensor->sizes().vec())));
  }
  if (!torch_dtype(source.tensor->dtype)) {
    findings.push_back(finding(path, parameter.name,
                               "is stored as " + std::string(to_string(source.tensor->dtype)),
                               "F32, BF16, F16 or F64"));
  }
}

// Pairs parameters with what the checkpoint has for them. InputError listing everything that does
// not pair.
std::vector<Assignment> match(CausalLm& model, const std::filesystem::path& directory,
                              const std::vector<CheckpointShard>& shards) {
  std::vector<Diagnostic> findings;
  Sources sources = sources_by_name(shards);
  resolve_tied_output(model.config(), sources, findings);

  std::vector<Assignment> assignments;
  std::set<std::string> used;
  for (const NamedParameter& parameter : model.parameters()) {
    const auto source = sources.find(parameter.name);
    if (source == sources.end()) {
      findings.push_back(finding(directory, parameter.name, "missing tensor",
                                 "shape " + shape_text(parameter.tensor->sizes().vec())));
      continue;
    }
    used.insert(parameter.name);
    check_fits(parameter, source->second, findings);
    assignments.push_back({parameter, source->second});
  }
  for (const auto& [name, source] : sources) {
    if (used.count(name) != 0 || is_leftover(name)) continue;
    findings.push_back(
        finding(source.shard->path, name, "unexpected tensor that the model has no place for"));
  }
  if (!findings.empty()) throw InputError(findings);
  return assignments;
}

// A part of a tensor, for one thread: elements [begin, end) of parameter and source.
struct Piece {
  const Assignment* assignment;
  int64_t begin;
  int64_t end;
};

bool is_in_host_memory(const torch::Tensor& parameter) {
  return parameter.is_cpu() && parameter.is_contiguous();
}

// Pieces end at huge pages of the destination, so that no two threads fault the same one in.
void append_pieces(const Assignment& assignment, std::vector<Piece>& pieces) {
  const torch::Tensor& parameter = *assignment.parameter.tensor;
  const auto address = reinterpret_cast<uintptr_t>(parameter.data_ptr());
  const auto element_bytes = static_cast<uintptr_t>(parameter.element_size());
  for (int64_t begin = 0; begin < parameter.numel();) {
    const uintptr_t place = address + static_cast<uintptr_t>(begin) * element_bytes;
    const uintptr_t to_boundary = kHugePageBytes - place % kHugePageBytes;
    const int64_t end =
        std::min(parameter.numel(), begin + static_cast<int64_t>(to_boundary / element_bytes));
    pieces.push_back({&assignment, begin, end});
    begin = end;
  }
}

// The stored elements as a tensor. The format allows any offset, vectorised conversion wants whole
// elements: misaligned ones are copied first.
torch::Tensor stored_elements(const Source& source, int64_t begin, int64_t end) {
  const auto element_bytes = element_size_bytes(source.tensor->dtype);
  const torch::Dtype dtype = *torch_dtype(source.tensor->dtype);
  auto* bytes = const_cast<std::byte*>(source.bytes() + begin * element_bytes);
  if (reinterpret_cast<uintptr_t>(bytes) % static_cast<uintptr_t>(element_bytes) == 0) {
    return torch::from_blob(bytes, {end - begin}, dtype);
  }
  torch::Tensor aligned = torch::empty({end - begin}, dtype);
  std::memcpy(aligned.data_ptr(), bytes, static_cast<size_t>((end - begin) * element_bytes));
  return aligned;
}

void copy_piece(const Piece& piece) {
  const Source& source = piece.assignment->source;
  const torch::Tensor& parameter = *piece.assignment->parameter.tensor;
  if (parameter.scalar_type() != torch_dtype(source.tensor->dtype)) {
    parameter.view(-1)
        .slice(0, piece.begin, piece.end)
        .copy_(stored_elements(source, piece.begin, piece.end));
    return;
  }
  const auto element_bytes = static_cast<int64_t>(parameter.element_size());
  std::memcpy(static_cast<std::byte*>(parameter.data_ptr()) + piece.begin * element_bytes,
              source.bytes() + piece.begin * element_bytes,
              static_cast<size_t>((piece.end - piece.begin) * element_bytes));
}

void copy_to_device(const Assignment& assignment) {
  const StoredTensor& stored = *assignment.source.tensor;
  const torch::Tensor elements = stored_elements(assignment.source, 0, stored.numel());
  assignment.parameter.tensor->copy_(elements.view(stored.shape));
}

}  // namespace

void load_weights(CausalLm& model, const std::string& directory) {
  const torch::NoGradGuard no_grad;
  const std::vector<CheckpointShard> shards = open_checkpoint(directory);
  const std::vector<Assignment> assignments = match(model, directory, shards);
  for (const Assignment& assignment : assignments) advise_huge_pages(*assignment.parameter.tensor);

  std::vector<Piece> pieces;
  for (const Assignment& assignment : assignments) {
    if (is_in_host_memory(*assignment.parameter.tensor)) {
      append_pieces(assignment, pieces);
    } else {
      copy_to_device(assignment);
    }
  }
  run_parallel_tasks(pieces.size(), [&](size_t i) { copy_piece(pieces[i]); });
}

}  // namespace sftbench
