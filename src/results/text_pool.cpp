#include "results/text_pool.h"

#include <algorithm>

namespace sftbench {

std::string_view TextPool::store(std::string_view text) {
  char* copy = characters_.take(text.size());
  std::copy(text.begin(), text.end(), copy);
  return {copy, text.size()};
}

std::string_view TextPool::share(std::string_view text) {
  const auto found = texts_.find(text);
  return found != texts_.end() ? *found : *texts_.insert(store(text)).first;
}

const Record::Names* TextPool::share(const Record::Names& names) {
  return &*names_.insert(names).first;
}

const Scalar* TextPool::store(const std::vector<Scalar>& values) {
  Scalar* copy = values_.take(values.size());
  std::copy(values.begin(), values.end(), copy);
  return copy;
}

}  // namespace sftbench
