#include "cli/fitting_batch.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>

#include "sftbench/advise/oracle.h"
#include "sftbench/base/error.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/translate/argument_options.h"

namespace sftbench {
namespace {

constexpr const char* kBatch = "batch_size";
constexpr int64_t kMostOfDevice = 64;  // the page's largest
constexpr int64_t kMost = 4096;        // of batch_size

bool fits(Oracle& oracle, const MeasurementRequest& request) {
  try {
    return oracle.predict(request).fit == Fit::kFits;  // of full rows
  } catch (const RunError& error) {
    spdlog::info("no batch is predicted: {}", error.what());
  } catch (const InputError& error) {
    spdlog::info("no batch is predicted: {}", error.what());
  }
  return false;
}

}  // namespace

void fit_batch(const LoadedSpace& loaded, const Selection& selection,
               std::vector<GivenValue>& given) {
  const auto batch = std::find_if(given.begin(), given.end(),
                                  [](const GivenValue& value) { return value.property == kBatch; });
  const Space& space = loaded.space;
  if (batch == given.end() || space.entity_count() != 1 || space.experiments.size() != 1) return;
  MeasurementRequest request = choose_request(space, selection);
  const auto devices = request.inputs.at(kBatch).get<int64_t>();
  ResolveOptions options = resolve_options(loaded, selection);
  options.weights = "random";  // shapes are enough
  const MachineOverrides overrides;
  Oracle oracle(loaded.settings, options, overrides, Catalog::shipped());
  int64_t fitting = 1;
  for (int64_t next = 2; next <= kMostOfDevice && next * devices <= kMost; next *= 2) {
    request.inputs[kBatch] = next * devices;
    if (!fits(oracle, request)) break;
    fitting = next;
  }
  batch->value = scalar_node(std::to_string(fitting * devices));
  spdlog::info("no train_batch_size_per_device: {} for each device, which is predicted to fit",
               fitting);
}

}  // namespace sftbench
