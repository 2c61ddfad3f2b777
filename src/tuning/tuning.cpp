#include "sftbench/tuning/tuning.h"

#include <map>

#include "sftbench/base/error.h"
#include "tuning/full.h"

namespace sftbench {

std::unique_ptr<Tuning> make_tuning(const std::string& name) {
  static const std::map<std::string, std::unique_ptr<Tuning> (*)()> kMethods = {
      {"full", make_full_tuning},
  };
  const auto found = kMethods.find(name);
  if (found != kMethods.end()) return found->second();

  std::vector<std::string> known;
  for (const auto& row : kMethods) known.push_back(row.first);
  throw unsupported_choice("tuning method", name, known);
}

}  // namespace sftbench
