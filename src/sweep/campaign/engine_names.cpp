#include "sftbench/campaign/engines.h"

namespace sftbench {

const std::vector<std::string>& campaign_engine_names() {
  static const std::vector<std::string> names = {"slurm", "ray", "kubernetes", "local"};
  return names;
}

}  // namespace sftbench
