// A result beside its prediction, term by term, and what is off in one sentence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sftbench/advise/odds.h"
#include "sftbench/advise/oracle.h"
#include "sftbench/advise/own_evidence.h"
#include "sftbench/advise/uncertainty.h"

namespace sftbench {

struct Term {
  std::string name;
  std::optional<double> predicted, measured;  // in `unit`; nothing: not known of this run
  const char* unit = "s";
  std::string note;  // what else is known: rates of a collective
};

struct Explanation {
  std::vector<Term> terms;  // of a mean step; the first is the whole step
  Range step;               // seconds, nine of ten
  bool within = true;       // the median of the measured steps is in that interval
  std::string sentence;     // what is off
};

// `extra` is the result's member of that name. `own` was read from the same file.
Explanation explain(const OwnMeasurement& own, const Json& extra, const Prediction& prediction,
                    const Uncertainty& uncertainty);

}  // namespace sftbench
