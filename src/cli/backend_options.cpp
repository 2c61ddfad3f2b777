#include "cli/backend_options.h"

#include <iostream>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/simulate/backend.h"
#include "sftbench/simulate/settings.h"

namespace sftbench {

void add_backend_options(CLI::App& command, BackendOptions& options) {
  command
      .add_option("--backend", options.backend,
                  "libtorch trains; simulate only pretends to, for trying things out")
      ->type_name("libtorch|simulate");
  command
      .add_option("--simulate", options.simulate,
                  "what the simulated machine is like, and what goes wrong on it; "
                  "--simulate help lists the keys")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

void check_backend(const BackendOptions& options) {
  if (options.simulate == std::vector<std::string>{"help"}) {
    std::cout << simulation_help();
    throw CLI::Success();
  }
  const std::vector<std::string> known = {kBackendLibtorch, kBackendSimulate};
  if (options.name() != known[0] && options.name() != known[1]) {
    throw InputError({{{},
                       0,
                       "--backend",
                       "unknown value '" + options.backend + "'",
                       join(known, " or "),
                       nearest_spelling(options.backend, known)}});
  }
  if (!options.simulate.empty() && options.name() != kBackendSimulate) {
    throw InputError(
        {{{}, 0, "--simulate", "nothing is simulated", "--backend simulate with it", {}}});
  }
  parse_simulation(options.simulate);
}

std::unique_ptr<Backend> choose_backend(const TrainingJob& job, const SimulatedRun& simulated,
                                        std::optional<RankedSpec> ranked) {
  if (job.backend == kBackendSimulate) {
    return make_simulated_backend(job, simulated.assignments, simulated.sample, simulated.attempt);
  }
  if (job.device.ranks > 1 && ranked) return make_ranked_backend(job, std::move(*ranked));
  return make_local_backend(job);
}

}  // namespace sftbench
