#include "model/nf4_checkpoint.h"

#include <algorithm>

#include "sftbench/base/torch.h"
#include "sftbench/model/stored_dtype.h"

namespace sftbench {
namespace {

constexpr const char* kNf4State = ".quant_state.bitsandbytes__nf4";

bool fits(const Source& source, StoredDtype dtype, const std::vector<int64_t>& shape) {
  return source.tensor->dtype == dtype && source.tensor->shape == shape;
}

// Adds what stands in the place of a linear's weight, or a finding. `used`: names of its tensors.
void match_linear(const NamedLinear& named, const std::filesystem::path& directory, bool transposed,
                  const Sources& sources, bool wanted, std::set<std::string>& used,
                  std::vector<Nf4Assignment>& found, std::vector<Diagnostic>& findings) {
  auto* const linear = dynamic_cast<Nf4Linear*>(named.slot->get());
  const std::string name = named.name + ".weight";
  for (const char* end : {"", ".absmax", ".nested_absmax", ".nested_offset", ".quant_map",
                          ".nested_quant_map", kNf4State})
    used.insert(name + end);
  const auto at = [&](const char* end) -> std::optional<Source> {
    const auto source = sources.find(name + end);
    return source == sources.end() ? std::nullopt : std::optional<Source>(source->second);
  };
  const int64_t in = linear->in_features(), out = linear->out_features();
  const std::vector<int64_t> shape =
      transposed ? std::vector<int64_t>{in, out} : std::vector<int64_t>{out, in};
  const std::optional<Source> weight = at("");
  if (!weight) {
    findings.push_back(finding(directory, name, "missing tensor", "shape " + shape_text(shape)));
    return;
  }
  Nf4Assignment assignment = {linear,        name,  *weight, at(".absmax"), at(".nested_absmax"),
                              at(kNf4State), wanted};
  const ops::Nf4Weight& own = linear->weight();
  const std::optional<torch::Dtype> stored = torch_dtype_of(weight->tensor->dtype);
  assignment.dense = stored && torch::isFloatingType(*stored) && weight->tensor->shape == shape;
  const bool nested = own.is_nested();
  const bool codes =
      assignment.absmax && assignment.state &&
      fits(*weight, StoredDtype::kU8, {own.codes.numel(), 1}) &&
      fits(*assignment.absmax, nested ? StoredDtype::kU8 : StoredDtype::kF32,
           {own.absmax.numel()}) &&
      (!nested || (assignment.nested_absmax && fits(*assignment.nested_absmax, StoredDtype::kF32,
                                                    {own.nested_absmax.numel()})));
  if (assignment.dense || codes) {
    found.push_back(assignment);
  } else {
    findings.push_back(finding(weight->shard->path, name,
                               "is " + std::string(to_string(weight->tensor->dtype)) +
                                   " of shape " + shape_text(weight->tensor->shape),
                               "a dense weight of shape " + shape_text(shape) +
                                   ", or NF4 as bitsandbytes saves it with" +
                                   (nested ? "" : "out") + " double quantization"));
  }
}

// A file of bitsandbytes in which some linears are left as they were is another model.
void require_one_form(const std::vector<Nf4Assignment>& linears,
                      std::vector<Diagnostic>& findings) {
  const auto is_dense = [](const Nf4Assignment& linear) { return linear.dense; };
  const auto dense = std::find_if(linears.begin(), linears.end(), is_dense);
  if (dense == linears.end() || std::all_of(linears.begin(), linears.end(), is_dense)) return;
  findings.push_back(finding(dense->weight.shard->path, dense->name,
                             "is not quantized, and other linears are",
                             "all linears of the layers quantized alike"));
}

torch::Tensor read_whole(const Source& source) {
  const torch::Tensor tensor =
      torch::empty(source.tensor->shape, *torch_dtype_of(source.tensor->dtype));
  source.read(0, tensor.data_ptr(), tensor.nbytes());
  return tensor;
}

// What bitsandbytes says of a linear beside its tensors, of a form that is read here.
Json nf4_state_of(const Nf4Assignment& assignment, bool nested) {
  const Source& source = *assignment.state;
  std::string text(source.tensor->size_bytes, '\0');
  source.read(0, text.data(), text.size());
  const Json state = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool known = state.is_object() && state.value("quant_type", Json()) == "nf4" &&
                     state.value("blocksize", Json()) == ops::kNf4Block &&
                     (!nested || (state.value("nested_blocksize", Json()) == 256 &&
                                  state.value("nested_offset", Json()).is_number()));
  if (!known) {
    throw InputError({finding(source.shard->path, assignment.name + kNf4State,
                              "is no state of NF4 that is read here",
                              nested ? "quant_type nf4, blocksize 64, nested_blocksize 256 and a "
                                       "nested_offset"
                                     : "quant_type nf4 and blocksize 64")});
  }
  return state;
}

void load_linear(const Nf4Assignment& assignment, bool transposed) {
  ops::Nf4Weight& weight = assignment.linear->weight();
  if (assignment.dense) {
    const torch::Tensor dense = read_whole(assignment.weight).to(assignment.linear->dense_dtype());
    ops::nf4_quantize(transposed ? dense.t().contiguous() : dense, weight);
    return;
  }
  weight.codes.copy_(read_whole(assignment.weight).view(-1));
  weight.absmax.copy_(read_whole(*assignment.absmax));
  const Json state = nf4_state_of(assignment, weight.is_nested());
  if (!weight.is_nested()) return;
  weight.nested_absmax.copy_(read_whole(*assignment.nested_absmax));
  weight.nested_offset.fill_(state.at("nested_offset").get<double>());  // the mean of magnitudes
}

}  // namespace

std::vector<Nf4Assignment> match_nf4(CausalLm& model, const std::filesystem::path& directory,
                                     const Sources& sources, const WantedElements& wanted,
                                     std::set<std::string>& used,
                                     std::vector<Diagnostic>& findings) {
  std::vector<Nf4Assignment> found;
  for (const NamedLinear& linear : model.linears()) {
    if (dynamic_cast<Nf4Linear*>(linear.slot->get()) == nullptr) continue;
    std::vector<NamedParameter> parts;
    (*linear.slot)->append_parameters(linear.name, parts);
    // Codes, magnitudes and their mean follow from the same numbers: any of them needs all.
    const bool any = std::any_of(parts.begin(), parts.end(), [&](const NamedParameter& part) {
      return part.packed && !wanted(part.name).empty();
    });
    match_linear(linear, directory, model.config().transposed_linears, sources, any, used, found,
                 findings);
  }
  require_one_form(found, findings);
  return found;
}

void load_nf4(const std::vector<Nf4Assignment>& linears, bool transposed, WorkCount* work) {
  for (const Nf4Assignment& assignment : linears) {
    if (!assignment.wanted) continue;
    load_linear(assignment, transposed);
    std::vector<NamedParameter> parts;
    assignment.linear->append_parameters({}, parts);
    for (const NamedParameter& part : parts)
      if (part.packed) add_work(work, static_cast<int64_t>(part.tensor->nbytes()));
  }
}

}  // namespace sftbench
