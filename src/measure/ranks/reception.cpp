#include "ranks/reception.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "ranks/tcp_socket.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/quantity_text.h"

namespace sftbench {
namespace {

constexpr int kAcceptedAtATime = 64;  // so that a flood does not keep this thread from the others

}  // namespace

Reception::Reception(OwnedFd listener, std::string key, double handshake_s)
    : listener_(std::move(listener)), key_(std::move(key)), handshake_s_(handshake_s) {}

int Reception::port() const {
  return port_of(listener_.get());
}

void Reception::add_to(std::vector<pollfd>& fds) const {
  fds.push_back({listener_.get(), POLLIN, 0});
  for (const Stranger& stranger : strangers_) fds.push_back({stranger.connection->fd(), POLLIN, 0});
}

std::vector<Reception::Guest> Reception::receive() {
  accept_some();
  std::vector<Guest> guests;
  const double now_s = steady_seconds();
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    bool open = true;
    if (std::optional<Message> hello = hear(*stranger, open)) {
      guests.push_back({std::move(stranger->connection), std::move(*hello)});
      open = false;
    }
    stranger = open && now_s < stranger->until_s ? std::next(stranger) : strangers_.erase(stranger);
  }
  return guests;
}

void Reception::accept_some() {
  for (int i = 0; i < kAcceptedAtATime; ++i) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && errno == EINTR) continue;
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && !strangers_.empty()) {
      make_room();
      continue;
    }
    if (fd < 0) return;
    if (strangers_.size() >= kMostStrangers) make_room();
    const std::string number = new_number();
    auto connection = std::make_unique<Connection>(OwnedFd(fd), kMostStrangerBytes);
    connection->send(challenge_with(number));
    if (!connection->flush()) continue;
    strangers_.push_back({std::move(connection), address_of_peer(fd), number,
                          steady_seconds() + handshake_s_, false});
  }
}

void Reception::make_room() {
  std::map<std::string, size_t> counts;
  for (const Stranger& stranger : strangers_) ++counts[stranger.address];
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  strangers_.erase(std::find_if(strangers_.begin(), strangers_.end(),
                                [&](const Stranger& one) { return one.address == most->first; }));
}

std::optional<Message> Reception::hear(Stranger& stranger, bool& open) {
  try {
    std::optional<Message> message = stranger.connection->receive_next(open);
    if (!message || stranger.answered) return message;
    take_answer(*message, key_, stranger.number, *stranger.connection);
    stranger.answered = true;
    return stranger.connection->receive_next(open);
  } catch (const RunError&) {  // whatever it is, it speaks another language, or has another key
    open = false;
    if (stranger.answered) {
      ++unproved_;
      last_unproved_ = stranger.address;
    }
    return std::nullopt;
  }
}

std::string Reception::turned_away() const {
  if (unproved_ == 0) return {};
  return counted(unproved_, "connection") + " without this job's secret, the last from " +
         last_unproved_;
}

}  // namespace sftbench
