// Weights from a checkpoint folder into a model. Names need no table: the models name their
// parameters as Hugging Face does. What is stored in a model's dtype is copied once, from the page
// cache to where it stays, by all threads.
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "model/huge_pages.h"
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

// Bytes that go as they are from the file to a parameter in memory.
struct Piece {
  std::byte* to;
  const std::byte* from;
  size_t size_bytes;
};

bool copies_as_is(const Assignment& assignment) {
  const torch::Tensor& parameter = *assignment.parameter.tensor;
  return parameter.is_cpu() && parameter.is_contiguous() &&
         parameter.scalar_type() == torch_dtype(assignment.source.tensor->dtype);
}

// Pieces end at huge pages of the destination, so that no two threads fault the same one in.
void append_pieces(const Assignment& assignment, std::vector<Piece>& pieces) {
  auto* to = static_cast<std::byte*>(assignment.parameter.tensor->data_ptr());
  const std::byte* from = assignment.source.bytes();
  size_t rest = assignment.source.tensor->size_bytes;
  while (rest > 0) {
    const size_t to_boundary = kHugePageBytes - reinterpret_cast<uintptr_t>(to) % kHugePageBytes;
    const size_t size = std::min(rest, to_boundary);
    pieces.push_back({to, from, size});
    to += size;
    from += size;
    rest -= size;
  }
}

void copy_pieces(const std::vector<Piece>& pieces) {
  std::atomic<size_t> next{0};
  at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t, int64_t) {
    for (size_t i = next++; i < pieces.size(); i = next++) {
      std::memcpy(pieces[i].to, pieces[i].from, pieces[i].size_bytes);
    }
  });
}

// Through libtorch's own (parallel) copy, which converts and moves between devices.
void convert(const Assignment& assignment) {
  const StoredTensor& stored = *assignment.source.tensor;
  if (stored.size_bytes == 0) return;
  const torch::Dtype dtype = *torch_dtype(stored.dtype);
  auto* bytes = const_cast<std::byte*>(assignment.source.bytes());
  torch::Tensor aligned;
  // The format allows any offset; vectorised conversion wants whole elements.
  if (reinterpret_cast<uintptr_t>(bytes) %
          static_cast<uintptr_t>(element_size_bytes(stored.dtype)) !=
      0) {
    aligned = torch::empty({static_cast<int64_t>(stored.size_bytes)}, torch::kUInt8);
    std::memcpy(aligned.data_ptr(), bytes, stored.size_bytes);
    bytes = static_cast<std::byte*>(aligned.data_ptr());
  }
  assignment.parameter.tensor->copy_(torch::from_blob(bytes, stored.shape, dtype));
}

}  // namespace

void load_weights(CausalLm& model, const std::string& directory) {
  const torch::NoGradGuard no_grad;
  const std::vector<CheckpointShard> shards = open_checkpoint(directory);
  const std::vector<Assignment> assignments = match(model, directory, shards);
  for (const Assignment& assignment : assignments) advise_huge_pages(*assignment.parameter.tensor);

  std::vector<Piece> pieces;
  for (const Assignment& assignment : assignments) {
    if (copies_as_is(assignment)) {
      append_pieces(assignment, pieces);
    } else {
      convert(assignment);
    }
  }
  copy_pieces(pieces);
}

}  // namespace sftbench
