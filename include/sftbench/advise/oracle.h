// What a configuration would take, asked again and again: the cost model (plan/cost_model.h) behind
// a memory of models and machines, so that a hundred thousand configurations take seconds.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/advise/probed_machine.h"
#include "sftbench/advise/residuals.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/plan/resolve.h"
#include "sftbench/predict/cost_model.h"

namespace sftbench {

class Uncertainty;

// What replaces config/machines.yaml's figures, in its units.
struct MachineOverrides {
  std::optional<double> flops_per_s, attention_flops_per_s, element_gb_per_s;
  std::optional<double> memory_gb_per_s, memory_gib;
  std::optional<double> free_gib;  // of that, what others leave at most
  std::optional<double> inside_gb_per_s, inside_latency_us, between_gb_per_s, between_latency_us;
  bool no_overlap = false;
  // A GPU whose shares of peak and bandwidth replace those of the one that is asked about: what is
  // predicted where constants are assumed.
  std::string shares_of;
  std::string stack = "sftbench";
  bool says_stack = false;  // somebody asked for it
};

// Of a device's memory: what the driver and the allocator's blocks leave to tensors; from where on
// the allocator frees and allocates all the time; what it leaves without trouble.
inline constexpr double kUsableMemory = 0.985, kThrashingMemory = 0.97, kComfortableMemory = 0.93;

// kTight: it fits by less than what fragmentation of the allocator can take, so that a run may die
// or free and allocate all the time. kUnknown: the device's memory is not known.
enum class Fit { kFits, kTight, kDies, kUnknown };
const char* name_of(Fit fit);

// By arithmetic: of tensors, and what the process takes beside them.
double needed_bytes(const StepCost& cost, const TrainingJob& job, const MachineModel& machine);

struct Prediction {
  TrainingJob job;
  MachineModel machine;
  StepCost cost;  // by arithmetic
  // What is expected: the same, moved by own measurements.
  double step_s = 0;
  double needed_bytes = 0;
  Fit fit = Fit::kUnknown;         // of them
  std::vector<std::string> notes;  // settings that have no effect
  PredictedCase at;
  bool fitted = false;  // the machine's constants come from this model

  double positions_per_second() const { return static_cast<double>(cost.positions) / step_s; }
};

class Oracle {
 public:
  // All of them outlive it.
  Oracle(const ActuatorSettings& settings, const ResolveOptions& options,
         const MachineOverrides& overrides, const Catalog& catalog);

  // From here on own measurements move what is expected. `own` outlives it.
  void rest_on(const Uncertainty& own) { own_ = &own; }

  // RunError for what cannot be measured or predicted, with the reason; InputError for a GPU of
  // which too little is known. REQUIRES: the inputs are canonical and complete.
  Prediction predict(const MeasurementRequest& request);
  Prediction predict(const MeasurementRequest& request, const std::string& stack);
  // Of a job that was resolved before; for another stack by predict().
  Prediction predict(const TrainingJob& job, const std::string& stack = "sftbench");

  // Of what is predicted from now on.
  void set_padding(Padding padding) { options_.padding = padding; }

  // The two halves of a prediction: its job and notes, then all that follows from the job, which
  // may have been changed between. Errors as above.
  Prediction resolved(const MeasurementRequest& request);
  void complete(Prediction& prediction);

 private:
  Prediction resolved(const MeasurementRequest& request, const StackModel& stack);
  void complete(Prediction& prediction, const StackModel& stack);
  void put_expected(Prediction& prediction) const;
  const StackModel& stack_named(const std::string& stack);
  bool has_own_constants() const;
  // Whether the command line says what is needed of a GPU that the catalog does not have.
  bool is_described(const std::string& gpu) const;
  void assume_shares(const std::string& gpu, MachineModel& machine) const;
  std::optional<MachineModel> probed_cpu(const TrainingJob& job);
  MachineModel machine_for(const TrainingJob& job, const StackModel& stack);
  const MachineModel& listed_machine(const std::string& gpu, const std::string& dtype);

  ActuatorSettings settings_;
  ResolveOptions options_;
  const MachineOverrides& overrides_;
  const Catalog& catalog_;
  const Uncertainty* own_ = nullptr;
  std::map<std::pair<std::string, std::string>, MachineModel> machines_;
  std::map<std::string, StackModel> stacks_;
  bool looked_for_probe_ = false;
  std::optional<ProbedMachine> probe_;
  std::string probe_problem_;
};

// A configuration from its properties alone: inputs complete, canonical. InputError for a property
// or a value that the experiment does not have.
MeasurementRequest request_of(const Experiment& experiment, const Json& inputs);

}  // namespace sftbench
