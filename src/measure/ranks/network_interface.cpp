#include "sftbench/ranks/network_interface.h"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <functional>
#include <set>

#include "ranks/tcp_socket.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

void for_each_address(const std::function<void(const std::string&, const sockaddr*)>& tell) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return;
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family == AF_INET || family == AF_INET6) tell(one->ifa_name, one->ifa_addr);
  }
  ::freeifaddrs(list);
}

bool is_link_local(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

}  // namespace

std::vector<std::string> network_interfaces() {
  std::set<std::string> names;
  for_each_address([&](const std::string& name, const sockaddr*) { names.insert(name); });
  return {names.begin(), names.end()};
}

std::string address_of_interface(const std::string& variable, const std::string& name) {
  std::string found4, found6;
  for_each_address([&](const std::string& interface, const sockaddr* address) {
    if (interface != name || is_link_local(address)) return;
    std::string& found = address->sa_family == AF_INET ? found4 : found6;
    if (found.empty()) found = numeric_address(address);
  });
  if (!found4.empty()) return found4;
  if (!found6.empty()) return found6;
  throw RunError(ReasonCode::kUnsupported, variable + " is '" + name +
                                               "', but this machine has no such network "
                                               "interface with an address; it has " +
                                               join(network_interfaces()));
}

}  // namespace sftbench
