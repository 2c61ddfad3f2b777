// Which one measurement is worth most to a recommendation: what may be saved by choosing again after
// it, on average over what may come out (the knowledge gradient for correlated beliefs, Frazier,
// Powell and Dayanik 2009). A measurement of one option tells of others on the same GPU, too.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "sftbench/advise/recommend.h"

namespace sftbench {

// `chosen` is the least of `left` by `value`, which grows with an option's hours. `doubtful` are
// options that were ruled out for memory alone. Nothing where less than a thousandth would be saved.
std::optional<NextMeasurement> most_telling(const Option& chosen, const std::vector<Option>& left,
                                            const std::vector<Option>& doubtful,
                                            const std::function<double(const Option&)>& value,
                                            const Uncertainty& uncertainty);

}  // namespace sftbench
