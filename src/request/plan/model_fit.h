// What a model's config.json says of an entity: whether it can be trained so, and which of its
// linears adapters go to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/request_reader.h"
#include "sftbench/base/error.h"

namespace sftbench {

// config.json can say more than the catalog knows. RunError(kUnsupported): a family that is not
// trained, layers of another class than FSDP is to wrap, no experts for fast_moe, rows beyond
// learned positions, linears that bitsandbytes skips. RunError(kRule7).
void require_model_fits(const RequestReader& request, const ModelSource& model);

// The catalog's targets; empty for a model of one's own, since a folder may be called like a model
// that it does not hold.
std::vector<std::string> listed_targets(const RequestReader& request);

struct AdaptedLinears {
  std::vector<std::string> targets;
  std::vector<std::string> notes;
};

// What the user names stands. Else the catalog's; and of a model that it does not know what peft
// takes for the family. REQUIRES: the experiment has adapters. RunError(kUnsupported): a target
// that names no linear, a rank that is none of a linear's.
AdaptedLinears adapted_linears(const RequestReader& request, const ModelSource& model);

struct ModelVerdict {
  std::optional<ReasonCode> refused;  // with `text`, why
  std::string text;
  std::vector<std::string> notes;
};

// Both of them without weights: of the catalog's architecture, or of a folder that has config.json.
// Nothing is said of a model of which neither is at hand.
ModelVerdict judge_model(const MeasurementRequest& request, const ActuatorSettings& settings,
                         const ResolveOptions& options, const Catalog& catalog);

}  // namespace sftbench
