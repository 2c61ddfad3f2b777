#include <algorithm>

#include "sftbench/advise/recommend.h"

namespace sftbench {

int64_t Workload::longest() const {
  if (lengths.empty()) return model_max_length;
  // Texts may all be empty: a row is padded to a position.
  return std::clamp<int64_t>(*std::max_element(lengths.begin(), lengths.end()), 1,
                             model_max_length);
}

double Workload::tokens() const {
  double once = static_cast<double>(entries * model_max_length);
  if (!lengths.empty()) {
    once = 0;
    for (const int64_t length : lengths)
      once += static_cast<double>(std::min(length, model_max_length));
  }
  return once * epochs;
}

double Workload::padded_length(int64_t batch) const {
  if (lengths.empty()) return static_cast<double>(model_max_length);
  double positions = 0;
  const auto step = static_cast<size_t>(batch);
  for (size_t begin = 0; begin < lengths.size(); begin += step) {
    const size_t end = std::min(begin + step, lengths.size());
    const int64_t longest = *std::max_element(lengths.begin() + static_cast<ptrdiff_t>(begin),
                                              lengths.begin() + static_cast<ptrdiff_t>(end));
    positions +=
        static_cast<double>(std::min(longest, model_max_length)) * static_cast<double>(end - begin);
  }
  return positions / static_cast<double>(lengths.size());
}

}  // namespace sftbench
