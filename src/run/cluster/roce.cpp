#include "sftbench/cluster/roce.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// Ports of a node that have a RoCE v2 GID at `index`.
std::vector<std::string> ports_with(const RoceNode& node, int index, bool ipv4) {
  std::vector<std::string> names;
  for (const RdmaPort& port : node.ports) {
    if (port.link_layer != "Ethernet" || port.state != "ACTIVE") continue;
    const bool has = std::any_of(port.gids.begin(), port.gids.end(), [&](const RdmaGid& gid) {
      return gid.index == index && gid.is_roce_v2() && (!ipv4 || !gid.ipv4.empty());
    });
    if (has) names.push_back(port.name());
  }
  return names;
}

std::set<int> indices_of(const RoceNode& node) {
  std::set<int> indices;
  for (const RdmaPort& port : node.ports) {
    for (const RdmaGid& gid : port.gids) indices.insert(gid.index);
  }
  return indices;
}

// Best over all nodes; no devices when no index will do.
RoceChoice best_choice(const std::vector<RoceNode>& nodes, bool ipv4) {
  RoceChoice best;
  size_t best_ports = 0;
  for (const int index : indices_of(nodes.front())) {
    RoceChoice choice;
    choice.gid_index = index;
    size_t fewest = SIZE_MAX;
    for (const RoceNode& node : nodes) {
      choice.devices.push_back(ports_with(node, index, ipv4));
      fewest = std::min(fewest, choice.devices.back().size());
    }
    if (fewest > best_ports) {
      best_ports = fewest;
      best = std::move(choice);
    }
  }
  return best;
}

std::string describe(const RoceNode& node) {
  std::vector<std::string> ports;
  for (const RdmaPort& port : node.ports) {
    std::vector<std::string> v2;
    for (const RdmaGid& gid : port.gids) {
      if (gid.is_roce_v2()) v2.push_back(std::to_string(gid.index));
    }
    ports.push_back(port.name() + " (" + port.link_layer + ", " + port.state + ", RoCE v2 at " +
                    (v2.empty() ? "no index" : join(v2)) + ")");
  }
  return node.host + ": " + (ports.empty() ? "no RDMA device" : join(ports));
}

Json to_json(const RoceNode& node) {
  Json ports = Json::array();
  for (const RdmaPort& port : node.ports) {
    Json gids = Json::array();
    for (const RdmaGid& gid : port.gids) gids.push_back({gid.index, gid.type, gid.ipv4});
    ports.push_back({{"device", port.device},
                     {"port", port.port},
                     {"link_layer", port.link_layer},
                     {"state", port.state},
                     {"gids", gids}});
  }
  return {{"host", node.host}, {"ports", ports}};
}

RoceNode roce_node_from_json(const Json& json) {
  RoceNode node;
  node.host = json.at("host");
  for (const Json& item : json.at("ports")) {
    RdmaPort port;
    port.device = item.at("device");
    port.port = item.at("port");
    port.link_layer = item.at("link_layer");
    port.state = item.at("state");
    for (const Json& gid : item.at("gids")) {
      port.gids.push_back({gid.at(0), gid.at(1), {}, gid.at(2), {}});
    }
    node.ports.push_back(std::move(port));
  }
  return node;
}

void set_unless_given(NcclSettings& settings, const std::string& name, const std::string& value,
                      const Environment& environment) {
  const auto given = environment.find(name);
  if (given == environment.end()) {
    settings.variables[name] = value;
  } else if (given->second != value) {
    settings.warnings.push_back(name + "=\"" + given->second + "\" is set and stays: \"" + value +
                                "\" would have been");
  }
}

}  // namespace

RoceChoice choose_roce(const std::vector<RoceNode>& nodes) {
  check(!nodes.empty(), "a job has nodes");
  RoceChoice choice = best_choice(nodes, true);
  if (choice.devices.empty()) choice = best_choice(nodes, false);
  if (!choice.devices.empty()) return choice;
  std::vector<std::string> found;
  for (const RoceNode& node : nodes) found.push_back(describe(node));
  throw RunError(ReasonCode::kUnsupported,
                 "enable_roce: no index at which every node has a RoCE v2 GID on an active port; "
                 "enable_roce 0 works",
                 join(found, "; "));
}

NcclSettings roce_on(const RoceChoice& choice, int node, const Environment& environment) {
  NcclSettings settings;
  set_unless_given(settings, "NCCL_IB_DISABLE", "0", environment);
  set_unless_given(settings, "NCCL_IB_HCA",
                   "=" + join(choice.devices.at(static_cast<size_t>(node)), ","), environment);
  set_unless_given(settings, "NCCL_IB_GID_INDEX", std::to_string(choice.gid_index), environment);
  if (const std::string problem = memory_lock_problem(); !problem.empty())
    settings.warnings.push_back(problem);
  return settings;
}

NcclSettings roce_off(const Environment& environment) {
  NcclSettings settings;
  set_unless_given(settings, "NCCL_IB_DISABLE", "1", environment);
  return settings;
}

NcclSettings set_up_roce(RankGroup& group, bool enable_roce, const Environment& environment,
                         const std::vector<RdmaPort>& ports) {
  NcclSettings settings;
  if (enable_roce) {
    const RankPlace& place = group.place();
    const RankInfo& self = group.ranks().at(static_cast<size_t>(place.rank));
    // The first rank of a node speaks for it.
    std::map<int, RoceNode> by_node;
    const std::vector<std::string> told = group.all_gather(
        place.local_rank == 0 ? json_text(to_json(RoceNode{self.host, ports})) : "");
    for (size_t rank = 0; rank < told.size(); ++rank) {
      if (!told[rank].empty())
        by_node[group.ranks()[rank].node] = roce_node_from_json(Json::parse(told[rank]));
    }
    std::vector<RoceNode> nodes;
    for (auto& [number, node] : by_node) nodes.push_back(std::move(node));
    settings = roce_on(choose_roce(nodes), place.node, environment);
  } else {
    settings = roce_off(environment);
  }
  for (const auto& [name, value] : settings.variables) ::setenv(name.c_str(), value.c_str(), 1);
  return settings;
}

}  // namespace sftbench
