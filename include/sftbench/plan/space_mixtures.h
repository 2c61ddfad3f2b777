// Mixtures of data that a space asks for.
#pragma once

#include "sftbench/space/space.h"

namespace sftbench {

// InputError: a value of data_mixture, of a dimension or of an experiment's parameterization, that
// is no mixture: shares that do not add up to 1 or that only some sets have, properties that a set
// does not have.
void check_mixtures(const Space& space);

}  // namespace sftbench
