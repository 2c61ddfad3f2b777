// Weights from a checkpoint folder into a model. Names need no table: the models name their
// parameters as Hugging Face does, and a family knows the spellings that there have been. What is
// stored in a model's dtype is copied once, from the page cache to where it stays, by all threads;
// what is not passes a buffer that stays in a core's cache.
#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "model/huge_pages.h"
#include "model/mxfp4.h"
#include "model/nf4_checkpoint.h"
#include "model/parallel_tasks.h"
#include "model/weight_source.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/checkpoint/checkpoint.h"
#include "sftbench/model/causal_lm.h"
#include "sftbench/model/stored_dtype.h"

namespace sftbench {
namespace {

struct Assignment {
  NamedParameter parameter;
  Source source;
  ElementRange wanted;
};

// A parameter [E, in, out] that is stored as MXFP4: codes [E, out, in / 32, 16], scales [E, out,
// in / 32].
struct Mxfp4Assignment {
  NamedParameter parameter;
  Source codes, scales;
  ElementRange wanted;
};

struct Assignments {
  std::vector<Assignment> plain;
  std::vector<Mxfp4Assignment> mxfp4;
  std::vector<Nf4Assignment> nf4;
};

// Under the names that the model has for them.
Sources sources_by_name(const std::vector<CheckpointShard>& shards, const Family& family) {
  const auto canonical_name = family.canonical_name;
  Sources sources;
  for (const CheckpointShard& shard : shards) {
    for (const StoredTensor& tensor : shard.tensors) {
      const std::string& stored = tensor.name;
      const std::string name = canonical_name == nullptr ? stored : canonical_name(stored);
      if (!name.empty()) sources[name] = {&shard, &tensor};
    }
  }
  return sources;
}

// Hugging Face wrote rotary frequencies, numbers of positions and the masks of GPT-2 and GPT-NeoX
// into checkpoints once; they follow from config.json.
bool is_leftover(const std::string& name) {
  return name.ends_with("rotary_emb.inv_freq") || name.ends_with("embeddings.position_ids") ||
         name.ends_with(".attention.bias") || name.ends_with(".attention.masked_bias") ||
         name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

constexpr size_t kBufferBytes = size_t{1} << 20;

bool is_equal(const Source& a, const Source& b) {
  if (a.tensor->dtype != b.tensor->dtype || a.tensor->shape != b.tensor->shape) return false;
  std::vector<char> left(kBufferBytes), right(kBufferBytes);
  for (uint64_t begin = 0; begin < a.tensor->size_bytes; begin += kBufferBytes) {
    const size_t size = std::min<uint64_t>(kBufferBytes, a.tensor->size_bytes - begin);
    a.read(begin, left.data(), size);
    b.read(begin, right.data(), size);
    if (std::memcmp(left.data(), right.data(), size) != 0) return false;
  }
  return true;
}

// A tied model's checkpoint may hold the shared matrix under either name, or under both.
void resolve_tied_output(const CausalLm& model, Sources& sources,
                         std::vector<Diagnostic>& findings) {
  const std::string output_name = std::string(model.names().output) + ".weight";
  const std::string embedding_name = std::string(model.names().embedding) + ".weight";
  const auto output = sources.find(output_name);
  if (!model.config().tie_word_embeddings || output == sources.end()) return;
  const auto [embedding, was_missing] = sources.emplace(embedding_name, output->second);
  const Source a = embedding->second, b = output->second;
  if (!was_missing && !is_equal(a, b)) {
    findings.push_back(finding(b.shard->path, output_name, "differs from " + embedding_name,
                               "equal matrices, or \"tie_word_embeddings\": false in config.json"));
  }
  sources.erase(output);
}

int64_t rows_of(const Source& source) {
  return source.tensor->shape.empty() ? 0 : source.tensor->shape.front();
}

void check_fits(const NamedParameter& parameter, const Source& source,
                std::vector<Diagnostic>& findings) {
  const auto& path = source.shard->path;
  if (parameter.tensor->sizes() != torch::IntArrayRef(source.tensor->shape)) {
    findings.push_back(finding(path, parameter.name,
                               "has shape " + shape_text(source.tensor->shape),
                               shape_text(parameter.tensor->sizes().vec())));
  }
  const bool of_codes = parameter.tensor->scalar_type() == torch::kInt32;
  const std::optional<torch::Dtype> stored = torch_dtype_of(source.tensor->dtype);
  if (!stored || (of_codes ? *stored != torch::kInt32 : !torch::isFloatingType(*stored))) {
    findings.push_back(finding(path, parameter.name,
                               "is stored as " + std::string(to_string(source.tensor->dtype)),
                               of_codes ? "I32" : "F32, BF16, F16 or F64"));
  }
}

// Says what the shapes of a linear's tensors say, where that is not what config.json says: one
// finding for the model, beside those about each shape.
void check_gptq_layout(CausalLm& model, const Sources& sources, std::vector<Diagnostic>& findings) {
  const GptqConfig& config = *model.config().gptq;
  for (const NamedLinear& linear : model.linears()) {
    const int64_t in = (*linear.slot)->in_features();
    const auto codes = sources.find(linear.name + ".qweight");
    const auto scales = sources.find(linear.name + ".scales");
    if (codes == sources.end() || scales == sources.end()) continue;
    const auto file = codes->second.shard->path;
    const auto add = [&](const char* key, const std::string& found, int64_t expected) {
      findings.push_back(finding(file, linear.name, found,
                                 std::string("quantization_config.") + key + " " +
                                     std::to_string(expected) + " of config.json"));
    };
    const int64_t bits = rows_of(codes->second) * kGptqPackedCodes / in;
    const int64_t groups = rows_of(scales->second);
    if (bits != config.bits)
      add("bits", "has codes of " + std::to_string(bits) + " bits", config.bits);
    if (groups != config.groups(in)) {
      add("group_size",
          "has its " + std::to_string(in) + " features in " + std::to_string(groups) +
              " groups, not " + std::to_string(config.groups(in)),
          config.group_size);
    }
    if (bits != config.bits || groups != config.groups(in)) return;
  }
}

// AutoGPTQ once wrote biases for models that have none.
bool is_bias_of_zeros(const std::string& name, const Source& source) {
  if (!name.ends_with("_proj.bias")) return false;
  std::vector<char> values(source.tensor->size_bytes);
  source.read(0, values.data(), values.size());
  return std::all_of(values.begin(), values.end(), [](char byte) { return byte == 0; });
}

// Whether the checkpoint has the parameter in MXFP4, with a finding where the shapes do not fit.
std::optional<Mxfp4Assignment> find_mxfp4(const NamedParameter& parameter, const Sources& sources,
                                          std::vector<Diagnostic>& findings) {
  const auto codes = sources.find(parameter.name + "_blocks");
  const auto scales = sources.find(parameter.name + "_scales");
  if (codes == sources.end() || scales == sources.end()) return {};
  const torch::IntArrayRef sizes = parameter.tensor->sizes();
  const auto require = [&](const Source& source, const char* end, std::vector<int64_t> shape) {
    const bool bytes = source.tensor->dtype == StoredDtype::kU8;
    if (bytes && source.tensor->shape == shape) return;
    findings.push_back(finding(source.shard->path, parameter.name + end,
                               "is " + std::string(to_string(source.tensor->dtype)) + " of shape " +
                                   shape_text(source.tensor->shape),
                               "U8 of shape " + shape_text(shape)));
  };
  const int64_t blocks = sizes[1] / kMxfp4Block;
  if (sizes[1] % kMxfp4Block != 0) {
    findings.push_back(finding(codes->second.shard->path, parameter.name + "_blocks",
                               "is of rows of " + std::to_string(sizes[1]) + " numbers",
                               "rows of whole blocks of 32 numbers (MXFP4)"));
  }
  require(codes->second, "_blocks", {sizes[0], sizes[2], blocks, kMxfp4BlockBytes});
  require(scales->second, "_scales", {sizes[0], sizes[2], blocks});
  return Mxfp4Assignment{parameter, codes->second, scales->second, {}};
}

// Expert by expert: [out, in] as it is stored, turned to [in, out].
void load_mxfp4(const Mxfp4Assignment& assignment) {
  torch::Tensor& parameter = *assignment.parameter.tensor;
  const int64_t in = parameter.size(1), out = parameter.size(2), blocks = out * in / kMxfp4Block;
  std::vector<uint8_t> codes(static_cast<size_t>(blocks * kMxfp4BlockBytes));
  std::vector<uint8_t> scales(static_cast<size_t>(blocks));
  const torch::Tensor numbers = torch::empty({out, in}, torch::kFloat32);
  const torch::Tensor target = parameter.view(-1);
  for (int64_t expert = 0; expert < parameter.size(0); ++expert) {
    const int64_t first = expert * in * out;
    const int64_t begin = std::max(assignment.wanted.begin, first);
    const int64_t end = std::min(assignment.wanted.end, first + in * out);
    if (begin >= end) continue;
    assignment.codes.read(static_cast<uint64_t>(expert) * codes.size(), codes.data(), codes.size());
    assignment.scales.read(static_cast<uint64_t>(expert) * scales.size(), scales.data(),
                           scales.size());
    decode_mxfp4(codes.data(), scales.data(), blocks, numbers.data_ptr<float>());
    target.slice(0, begin, end).copy_(numbers.t().reshape(-1).slice(0, begin - first, end - first));
  }
}

// Pairs parameters with what the checkpoint has for them. InputError listing everything that does
// not pair.
Assignments match(CausalLm& model, const std::filesystem::path& directory,
                  const std::vector<CheckpointShard>& shards, const WantedElements& wanted) {
  std::vector<Diagnostic> findings;
  Sources sources = sources_by_name(shards, family_of(model.config()));
  resolve_tied_output(model, sources, findings);

  Assignments assignments;
  std::set<std::string> used;
  if (model.config().nf4)
    assignments.nf4 = match_nf4(model, directory, sources, wanted, used, findings);
  for (const NamedParameter& parameter : model.parameters()) {
    if (model.config().nf4 && parameter.packed) continue;  // of a linear in NF4
    const ElementRange elements = wanted(parameter.name).within(parameter.tensor->numel());
    if (elements.empty()) {
      used.insert({parameter.name, parameter.name + "_blocks", parameter.name + "_scales"});
      continue;
    }
    if (model.config().mxfp4_experts) {
      if (std::optional<Mxfp4Assignment> found = find_mxfp4(parameter, sources, findings)) {
        found->wanted = elements;
        used.insert({parameter.name + "_blocks", parameter.name + "_scales"});
        assignments.mxfp4.push_back(std::move(*found));
        continue;
      }
    }
    const auto source = sources.find(parameter.name);
    if (source == sources.end()) {
      findings.push_back(finding(directory, parameter.name, "missing tensor",
                                 "shape " + shape_text(parameter.tensor->sizes().vec())));
      continue;
    }
    used.insert(parameter.name);
    check_fits(parameter, source->second, findings);
    assignments.plain.push_back({parameter, source->second, elements});
  }
  if (model.config().gptq) check_gptq_layout(model, sources, findings);
  for (const auto& [name, source] : sources) {
    if (used.count(name) != 0 || is_leftover(name)) continue;
    if (model.config().gptq && is_bias_of_zeros(name, source)) continue;
    findings.push_back(
        finding(source.shard->path, name, "unexpected tensor that the model has no place for"));
  }
  if (!findings.empty()) throw InputError(findings);
  return assignments;
}

// A part of a tensor, for one thread: elements [begin, end) of parameter and source. It lies within
// one huge page of the destination.
struct Piece {
  const Assignment* assignment;
  int64_t begin;
  int64_t end;
  uintptr_t huge_page;
};

bool is_in_host_memory(const torch::Tensor& parameter) {
  return parameter.is_cpu() && parameter.is_contiguous();
}

void append_pieces(const Assignment& assignment, std::vector<Piece>& pieces) {
  const torch::Tensor& parameter = *assignment.parameter.tensor;
  const auto address = reinterpret_cast<uintptr_t>(parameter.data_ptr());
  const auto element_bytes = static_cast<uintptr_t>(parameter.element_size());
  for (int64_t begin = assignment.wanted.begin; begin < assignment.wanted.end;) {
    const uintptr_t place = address + static_cast<uintptr_t>(begin) * element_bytes;
    const uintptr_t to_boundary = kHugePageBytes - place % kHugePageBytes;
    const int64_t end =
        std::min(assignment.wanted.end, begin + static_cast<int64_t>(to_boundary / element_bytes));
    pieces.push_back({&assignment, begin, end, place / kHugePageBytes});
    begin = end;
  }
}

// Sorts the pieces and returns where each huge page's begin, and their end. One thread fills a
// whole page: of two that write to it for the first time at once, both would clear one.
std::vector<size_t> huge_page_starts(std::vector<Piece>& pieces) {
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.huge_page < b.huge_page; });
  std::vector<size_t> starts;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i == 0 || pieces[i].huge_page != pieces[i - 1].huge_page) starts.push_back(i);
  }
  starts.push_back(pieces.size());
  return starts;
}

// As many elements as the buffer holds, read and converted at a time.
void convert_piece(const Piece& piece) {
  const Source& source = piece.assignment->source;
  const auto element_bytes = element_size_bytes(source.tensor->dtype);
  const int64_t most = static_cast<int64_t>(kBufferBytes) / element_bytes;
  const torch::Tensor buffer = torch::empty({most}, *torch_dtype_of(source.tensor->dtype));
  const torch::Tensor target = piece.assignment->parameter.tensor->view(-1);
  for (int64_t begin = piece.begin; begin < piece.end; begin += most) {
    const int64_t end = std::min(begin + most, piece.end);
    source.read(static_cast<uint64_t>(begin * element_bytes), buffer.data_ptr(),
                static_cast<size_t>((end - begin) * element_bytes));
    target.slice(0, begin, end).copy_(buffer.slice(0, 0, end - begin));
  }
}

void copy_piece(const Piece& piece) {
  const Source& source = piece.assignment->source;
  const torch::Tensor& parameter = *piece.assignment->parameter.tensor;
  if (parameter.scalar_type() != torch_dtype_of(source.tensor->dtype)) return convert_piece(piece);
  const auto element_bytes = static_cast<int64_t>(parameter.element_size());
  const int64_t begin_bytes = piece.begin * element_bytes;
  source.read(static_cast<uint64_t>(begin_bytes),
              static_cast<std::byte*>(parameter.data_ptr()) + begin_bytes,
              static_cast<size_t>((piece.end - piece.begin) * element_bytes));
}

int64_t bytes_of(const Assignment& assignment, int64_t begin, int64_t end) {
  return (end - begin) * static_cast<int64_t>(assignment.parameter.tensor->element_size());
}

void copy_to_device(const Assignment& assignment) {
  const StoredDtype dtype = assignment.source.tensor->dtype;
  const auto [begin, end] = assignment.wanted;
  const torch::Tensor on_host = torch::empty({end - begin}, *torch_dtype_of(dtype));
  assignment.source.read(static_cast<uint64_t>(begin * element_size_bytes(dtype)),
                         on_host.data_ptr(), on_host.nbytes());
  assignment.parameter.tensor->view(-1).slice(0, begin, end).copy_(on_host);
}

// What kernels index by without looking.
void check_groups(CausalLm& model, const std::vector<Assignment>& assignments) {
  std::vector<Diagnostic> findings;
  for (const Assignment& assignment : assignments) {
    const std::string& name = assignment.parameter.name;
    if (!name.ends_with(".g_idx")) continue;
    const int64_t count = model.config().gptq->groups(assignment.parameter.tensor->size(0));
    const torch::Tensor groups =
        assignment.parameter.tensor->slice(0, assignment.wanted.begin, assignment.wanted.end);
    const auto least = groups.min().item<int64_t>(), most = groups.max().item<int64_t>();
    if (least >= 0 && most < count) continue;
    findings.push_back(
        finding(assignment.source.shard->path, name,
                "holds groups " + std::to_string(least) + " to " + std::to_string(most),
                "0 to " + std::to_string(count - 1)));
  }
  if (!findings.empty()) throw InputError(findings);
}

}  // namespace

void check_weights(CausalLm& model, const std::string& directory) {
  match(model, directory, open_checkpoint(directory), every_element);
}

void load_weights(CausalLm& model, const std::string& directory, const WantedElements& wanted,
                  WorkCount* work) {
  const torch::NoGradGuard no_grad;
  const std::vector<CheckpointShard> shards = open_checkpoint(directory);
  const Assignments matched = match(model, directory, shards, wanted);
  const std::vector<Assignment>& assignments = matched.plain;
  for (const Assignment& assignment : assignments) advise_huge_pages(*assignment.parameter.tensor);

  std::vector<Piece> pieces;
  for (const Assignment& assignment : assignments) {
    if (is_in_host_memory(*assignment.parameter.tensor)) {
      append_pieces(assignment, pieces);
    } else {
      copy_to_device(assignment);
      add_work(work, bytes_of(assignment, assignment.wanted.begin, assignment.wanted.end));
    }
  }
  const std::vector<size_t> starts = huge_page_starts(pieces);
  run_parallel_tasks(starts.size() - 1, [&](size_t task) {
    for (size_t i = starts[task]; i < starts[task + 1]; ++i) {
      copy_piece(pieces[i]);
      add_work(work, bytes_of(*pieces[i].assignment, pieces[i].begin, pieces[i].end));
    }
  });
  for (const Mxfp4Assignment& assignment : matched.mxfp4) {
    load_mxfp4(assignment);
    const int64_t elements = assignment.wanted.end - assignment.wanted.begin;
    add_work(work, elements * static_cast<int64_t>(assignment.parameter.tensor->element_size()));
  }
  load_nf4(matched.nf4, model.config().transposed_linears, work);
  check_groups(model, assignments);
}

}  // namespace sftbench
