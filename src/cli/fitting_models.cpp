#include "cli/fitting_models.h"

#include "cli/quantized_method.h"
#include "sftbench/advise/recommend.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

const GpuFacts& gpu_named(const std::string& name) {
  const GpuCatalog& catalog = Catalog::shipped().gpus;
  const GpuFacts* gpu = catalog.find(name);
  if (gpu != nullptr) return *gpu;
  throw InputError({{{},
                     0,
                     "--fits",
                     "unknown GPU '" + name + "'",
                     "a name of `sftbench gpus`",
                     nearest_spelling(name, catalog.names())}});
}

}  // namespace

std::map<std::string, Fitting> fitting_models(const FittingOptions& options) {
  Question question;
  question.experiment = &experiment_of_method(options.method);
  question.gpus = {gpu_named(options.gpu).name};
  question.most_gpus = 1;
  question.owned = true;
  question.by_this_program = false;
  question.given = {
      {"offload_optimizer", false}, {"offload_activations", false}, {"offload_params", false}};
  question.workload.entries = question.batch;
  question.workload.model_max_length = options.length;

  const QuantizedMethod* quantized = find_quantized_method(options.method);
  MachineOverrides machine;
  machine.stack = quantized != nullptr ? quantized->stack : kPeoplesStack;
  Oracle oracle({}, {}, machine, Catalog::shipped());
  const Uncertainty uncertainty(ResidualTable::shipped());
  std::map<std::string, Fitting> fitting;
  for (const ModelFacts& model : Catalog::shipped().models.models()) {
    question.model = model.name;
    try {
      const Option best = *recommend(question, {}, oracle, uncertainty).fastest;
      fitting[model.name] = {best.needed_bytes, question.workload.tokens() / best.step_s};
    } catch (const RunError&) {    // does not fit
    } catch (const InputError&) {  // has no published architecture
    }
  }
  return fitting;
}

}  // namespace sftbench
