
#include "plan/model_fit.h"
#include "plan/support_properties.h"
#include "sftbench/base/json_text.h"
#include "sftbench/plan/support.h"

namespace sftbench {
namespace {

constexpr size_t kMostParts = 100'000;

// All that judge_model() looks at.
std::string question_of(const Json& inputs) {
  std::string question;
  for (const char* property :
       {"model_name", "model_max_length", "dataset_id", "training_data_path", "data_mixture",
        "target_modules", "r", "modules_to_save", "rank_pattern", "alpha_pattern", "use_dora",
        "alora_invocation_string", "fast_moe", "number_gpus", "offload_params",
        "distributed_backend", "accelerate_config_fsdp_transformer_layer_cls_to_wrap"}) {
    const auto found = inputs.find(property);
    question += found == inputs.end() ? std::string("-") : json_text(*found);
    question += '\n';
  }
  return question;
}

}  // namespace

struct SupportOfSpace::Known {
  std::unordered_map<int64_t, Support> of_part;
  std::unordered_map<std::string, ModelVerdict> of_model;
  int64_t last_block =
      -1;  // of entities that follow each other, and differ in nothing that matters
  const Support* last = nullptr;
};

SupportOfSpace::SupportOfSpace(const Space& space, const ActuatorSettings& settings,
                               const ResolveOptions& options, const Catalog& catalog)
    : space_(space),
      settings_(settings),
      options_(options),
      catalog_(catalog),
      known_(space.experiments.size()) {
  int64_t stride = 1;
  for (size_t i = space.dimensions.size(); i-- > 0;) {
    const std::string& property = space.dimensions[i].property().identifier;
    const int64_t size = space.dimensions[i].size();
    // Rule 1 has divided the batch among GPUs.
    const bool of_cpu_ranks = property != "batch_size" || options.cpu_ranks > 1;
    if (support_depends_on(property) && of_cpu_ranks) {
      digits_.push_back({stride, size});
    } else if (digits_.empty()) {
      block_size_ *= size;
    }
    stride *= size;
  }
}

SupportOfSpace::~SupportOfSpace() = default;

int64_t SupportOfSpace::part_of(int64_t entity) const {
  int64_t part = 0;
  for (const Digit& digit : digits_) part = part * digit.size + entity / digit.stride % digit.size;
  return part;
}

Support SupportOfSpace::support_of_request(const MeasurementRequest& request,
                                           const Experiment& experiment, Known& known) const {
  Support support = support_of(experiment, request.inputs, settings_, options_, catalog_);
  if (!support.refusals.empty() || options_.backend == kBackendSimulate) return support;
  if (known.of_model.size() >= kMostParts) known.of_model.clear();
  const auto [found, is_new] = known.of_model.try_emplace(question_of(request.inputs));
  if (is_new) found->second = judge_model(request, settings_, options_, catalog_);
  const ModelVerdict& verdict = found->second;
  if (verdict.refused) {
    support.code = *verdict.refused;
    support.refusals.push_back(verdict.text);
  }
  support.notes.insert(support.notes.end(), verdict.notes.begin(), verdict.notes.end());
  return support;
}

const Support& SupportOfSpace::of(int64_t entity, size_t experiment) {
  Known& known = known_[experiment];
  const int64_t block = entity / block_size_;
  if (block == known.last_block) return *known.last;
  if (known.of_part.size() >= kMostParts) known.of_part.clear();
  const auto [found, is_new] = known.of_part.try_emplace(part_of(entity));
  if (is_new) {
    const ExperimentReference& reference = space_.experiments[experiment];
    const MeasurementRequest request = make_request(space_.entity(entity), reference);
    found->second = support_of_request(request, *reference.experiment, known);
  }
  known.last_block = block;
  known.last = &found->second;
  return found->second;
}

}  // namespace sftbench
