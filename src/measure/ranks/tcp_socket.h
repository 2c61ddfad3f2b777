// TCP sockets between ranks. None of them blocks.
#pragma once

#include <sys/socket.h>

#include <string>

#include "sftbench/base/owned_fd.h"
#include "sftbench/ranks/rank_place.h"

namespace sftbench {

inline constexpr const char* kLoopback = "127.0.0.1";

// RunError(kNccl) when the port is taken; port 0: any that is free.
OwnedFd listen_on(int port);  // all interfaces
OwnedFd listen_at(const std::string& numeric_address, int port);
OwnedFd listen_on_loopback();

// Rank 0's: what it inherited, else loopback when all ranks are on this node, else the interface
// that was chosen, else all.
OwnedFd listen_for(const RankPlace& place);

// Connects within `timeout_s`; none when that failed, for the reason in `why`.
OwnedFd connect_to(const std::string& address, int port, double timeout_s, std::string& why);

int port_of(int listening_fd);
std::string numeric_address(const sockaddr* address);
// Of who is at the other end; "an unknown address" when it has gone.
std::string address_of_peer(int fd);

}  // namespace sftbench
