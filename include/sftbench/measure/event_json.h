// Events as JSON, for ranks that tell them to another process. Every field both ways: what is read
// equals what was written, also numbers that are not finite (as "nan", "inf", "-inf").
#pragma once

#include "sftbench/base/json.h"
#include "sftbench/measure/events.h"

namespace sftbench {

Json to_json(const LoadEvent& load);
Json to_json(const TrainBegin& begin);
Json to_json(const StepEvent& event);
Json to_json(const EvaluationEvent& event);
Json to_json(const TrainEnd& end);
Json to_json(const RankReport& report);

// InputError when a field is missing or of the wrong type.
LoadEvent load_event_from_json(const Json& json);
TrainBegin train_begin_from_json(const Json& json);
StepEvent step_event_from_json(const Json& json);
EvaluationEvent evaluation_event_from_json(const Json& json);
TrainEnd train_end_from_json(const Json& json);
RankReport rank_report_from_json(const Json& json);

}  // namespace sftbench
