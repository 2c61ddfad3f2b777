// The network interfaces of this machine, by which ranks on several nodes reach each other.
#pragma once

#include <string>
#include <vector>

namespace sftbench {

// Those that have an address.
std::vector<std::string> network_interfaces();

// The address of the interface `name`, IPv4 where it has one. RunError(kUnsupported) naming the
// environment variable that it comes from, and the interfaces that exist, when there is none.
std::string address_of_interface(const std::string& variable, const std::string& name);

}  // namespace sftbench
