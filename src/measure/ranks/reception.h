// Who comes to a port where ranks are expected: takes connections, and hands on those that prove to
// be of the job (handshake.h) with what they say they are. All others are dropped without a word:
// by their first wrong byte, at the end of their time, or because too many came.
//
// Of those that have not proved anything there are never more than kMostStrangers, and the oldest
// of the address that most of them came from makes room: a flood from one address costs the others
// nothing. For one thread.
#pragma once

#include <poll.h>

#include <list>
#include <string>
#include <vector>

#include "ranks/handshake.h"
#include "sftbench/base/owned_fd.h"

namespace sftbench {

inline constexpr size_t kMostStrangers = 256;

class Reception {
 public:
  struct Guest {
    std::unique_ptr<Connection> connection;
    Message hello;
  };

  Reception(OwnedFd listener, std::string key, double handshake_s = kHandshakeSeconds);

  int port() const;
  // Adds what to wait for.
  void add_to(std::vector<pollfd>& fds) const;
  // Takes who has come, and returns those that have proved to be of the job.
  std::vector<Guest> receive();
  // Who could not prove it, for an error that says who is missing; empty: nobody.
  std::string turned_away() const;

 private:
  struct Stranger {
    std::unique_ptr<Connection> connection;
    std::string address;
    std::string number;
    double until_s = 0;
    bool answered = false;
  };

  void accept_some();
  void make_room();
  // The message of a proof; `open` is false when the stranger is to be dropped.
  std::optional<Message> hear(Stranger& stranger, bool& open);

  OwnedFd listener_;
  std::string key_;
  double handshake_s_;
  std::list<Stranger> strangers_;  // the oldest first
  size_t unproved_ = 0;            // that spoke as ranks do, with another secret
  std::string last_unproved_;      // its address
};

}  // namespace sftbench
