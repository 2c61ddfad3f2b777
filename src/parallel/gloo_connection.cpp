#if SFTBENCH_GLOO

#include "parallel/gloo_connection.h"

#include <arpa/inet.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <set>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// Addresses are bytes and the group's values are texts.
std::string hex_of(const std::vector<char>& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::vector<char> bytes_of(const std::string& hex) {
  std::vector<char> bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

class GroupStore : public gloo::rendezvous::Store {
 public:
  GroupStore(RankGroup& group, std::string scope) : group_(group), scope_(std::move(scope)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    group_.set(scope_ + "/" + key, hex_of(data));
  }
  std::vector<char> get(const std::string& key) override {
    return bytes_of(group_.get(scope_ + "/" + key));
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) group_.get(scope_ + "/" + key);
  }

 private:
  RankGroup& group_;
  std::string scope_;
};

std::vector<std::string> interfaces() {
  std::set<std::string> names;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) == 0) {
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr != nullptr &&
          (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6)) {
        names.insert(one->ifa_name);
      }
    }
    ::freeifaddrs(list);
  }
  return {names.begin(), names.end()};
}

std::string numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST] = {};
  ::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

// The local end of a datagram socket that is connected there (nothing is sent); empty without one.
std::string local_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return {};
  std::string local;
  for (const addrinfo* one = found; one != nullptr && local.empty(); one = one->ai_next) {
    const int fd = ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
    if (fd < 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    if (::connect(fd, one->ai_addr, one->ai_addrlen) == 0 &&
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0) {
      local = numeric(reinterpret_cast<const sockaddr*>(&own), length);
    }
    ::close(fd);
  }
  ::freeaddrinfo(found);
  return local;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

GlooAddress named_interface(const std::string& name) {
  const std::vector<std::string> present = interfaces();
  if (std::find(present.begin(), present.end(), name) == present.end()) {
    throw RunError(ReasonCode::kUnsupported, "GLOO_SOCKET_IFNAME is '" + name +
                                                 "', but this machine has no such network "
                                                 "interface with an address; it has " +
                                                 join(present));
  }
  return {name, {}};
}

}  // namespace

GlooAddress gloo_address(const RankGroup& group) {
  if (const char* name = std::getenv("GLOO_SOCKET_IFNAME"); name != nullptr && *name != '\0') {
    return named_interface(name);
  }
  const RankPlace& place = group.place();
  const bool one_host =
      std::all_of(group.ranks().begin(), group.ranks().end(),
                  [&](const RankInfo& rank) { return rank.host == group.ranks()[0].host; });
  if (place.nodes == 1 && one_host) return {{}, "127.0.0.1"};
  const std::string address = local_address_towards(place.address);
  if (address.empty() || (is_loopback(address) && !one_host)) {
    throw RunError(ReasonCode::kUnsupported,
                   "Gloo cannot tell by which address the other hosts reach this one (rank " +
                       std::to_string(group.rank()) + "): rank 0 is at " + place.address + ", " +
                       (address.empty() ? "to which there is no route"
                                        : "which is " + address + " from here") +
                       "; set GLOO_SOCKET_IFNAME to the network interface that connects the hosts "
                       "(there are " +
                       join(interfaces()) + ")");
  }
  return {{}, address};
}

std::shared_ptr<gloo::transport::Device> make_gloo_device(const GlooAddress& address) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = address.interface;
  attributes.hostname = address.host;
  try {
    return gloo::transport::tcp::CreateDevice(attributes);
  } catch (const gloo::Exception& error) {
    throw RunError(ReasonCode::kNccl, "Gloo cannot listen at " + address.interface + address.host,
                   error.what());
  }
}

std::shared_ptr<gloo::Context> connect_gloo(RankGroup& group, const std::string& scope,
                                            const std::vector<int>& members,
                                            std::shared_ptr<gloo::transport::Device> device) {
  const auto own = std::find(members.begin(), members.end(), group.rank());
  check(own != members.end(), "a rank connects to groups that it is a member of");
  const double timeout_s = group.place().communication_timeout_s;
  const auto context = std::make_shared<gloo::rendezvous::Context>(
      static_cast<int>(own - members.begin()), static_cast<int>(members.size()));
  context->setTimeout(std::chrono::milliseconds(static_cast<int64_t>(timeout_s * 1e3)));
  GroupStore store(group, scope);
  try {
    context->connectFullMesh(store, device);
  } catch (const gloo::Exception& error) {
    if (const auto failure = group.failure()) throw error_of(*failure, group.ranks());
    throw RunError(ReasonCode::kNccl,
                   "Gloo could not connect rank " + std::to_string(group.rank()) +
                       " with the other ranks of " + scope + " at " + device->str(),
                   error.what());
  }
  return context;
}

}  // namespace sftbench

#endif
