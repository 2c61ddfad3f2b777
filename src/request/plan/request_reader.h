// What a request asks for, property by property, and what follows from it for ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/plan/resolve.h"

namespace sftbench {

// Rows that are padded to model_max_length make all batches equally large.
bool reorders(const ResolveOptions& options);

class RequestReader {
 public:
  // All references outlive it.
  RequestReader(const MeasurementRequest& request, const ActuatorSettings& settings,
                const ResolveOptions& options, const Catalog& catalog);

  std::string text(const char* property) const;  // empty: None
  int64_t integer(const char* property) const { return inputs_.at(property).get<int64_t>(); }
  bool flag(const char* property) const { return inputs_.at(property).get<bool>(); }

  bool has_argument(const char* name) const { return experiment_.find(name) != nullptr; }
  // An input only where it differs from what the experiment fixes.
  const Json& argument(const char* name) const;
  std::string argument_text(const char* name) const;
  double number(const char* name) const { return argument(name).get<double>(); }

  // In the form that the experiment trains, quantized where it quantizes: find_model().
  ModelSource model(const std::string& weights, bool with_tokenizer = true) const;
  std::string weights_format() const;

  // Experiments of several runs fix it.
  int64_t max_steps() const;
  const std::optional<std::string>& hf_home() const { return options_.hf_home; }
  bool simulated() const { return options_.backend == kBackendSimulate; }
  int64_t rank_count() const;
  bool offloads_params() const;
  bool distributes() const;
  bool shards() const;
  // One of the vision datasets, or data of the user's own with a column of pictures.
  bool has_images() const;

  // Notes "<property> <value> has <effect>" of each that the experiment has and that differs from
  // its default.
  void note_unless_default(const std::vector<std::string>& properties, const std::string& effect,
                           std::vector<std::string>& notes) const;

 protected:
  const MeasurementRequest& request_;
  const Json& inputs_;
  const ActuatorSettings& settings_;
  const ResolveOptions& options_;
  const Catalog& catalog_;
  const Experiment& experiment_;
};

}  // namespace sftbench
