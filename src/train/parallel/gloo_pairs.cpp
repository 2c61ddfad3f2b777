#if SFTBENCH_GLOO

#include "parallel/gloo_pairs.h"

#include <fcntl.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/loop.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;
namespace tcp = gloo::transport::tcp;

constexpr int kConnectMs = 100;
constexpr int kAttempts = 100;

using SocketName = sockaddr_storage;

SocketName name_by(int (*ask)(int, sockaddr*, socklen_t*), int fd) {
  SocketName name{};
  socklen_t bytes = sizeof name;
  if (ask(fd, reinterpret_cast<sockaddr*>(&name), &bytes) != 0) name.ss_family = AF_UNSPEC;
  return name;
}

bool same(const SocketName& a, const SocketName& b) {
  return a.ss_family == AF_INET && std::memcmp(&a, &b, sizeof(sockaddr_in)) == 0;
}

// A connection of this process with itself; none when somebody else fills the port's queue.
OwnedFd connected_to(const SocketName& port) {
  OwnedFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return socket;
  const int began =
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&port), sizeof(sockaddr_in));
  if (began != 0 && errno != EINPROGRESS) return OwnedFd();
  pollfd entry = {socket.get(), POLLOUT, 0};
  if (::poll(&entry, 1, kConnectMs) != 1) return OwnedFd();
  return same(name_by(::getpeername, socket.get()), port) ? std::move(socket) : OwnedFd();
}

// The descriptor of this process at the other end of `socket`.
std::optional<int> other_end_of(int socket) {
  const SocketName own = name_by(::getsockname, socket);
  const SocketName peer = name_by(::getpeername, socket);
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    if (same(name_by(::getpeername, fd), own) && same(name_by(::getsockname, fd), peer)) return fd;
  }
  return std::nullopt;
}

// Runs something once on the device's thread.
class OnDeviceThread : public tcp::Handler {
 public:
  OnDeviceThread(tcp::Device& device, std::function<void()> run)
      : run_(std::move(run)), wake_(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)) {
    device.registerDescriptor(wake_.get(), EPOLLIN, this);
    done_.get_future().wait();
    device.unregisterDescriptor(wake_.get(), this);  // returns when handleEvents has
    if (error_) std::rethrow_exception(error_);
  }

  void handleEvents(int /*events*/) override {
    eventfd_t count = 0;
    if (::eventfd_read(wake_.get(), &count) != 0) return;
    try {
      run_();
    } catch (...) {
      error_ = std::current_exception();
    }
    done_.set_value();
  }

 private:
  std::function<void()> run_;
  OwnedFd wake_;
  std::promise<void> done_;
  std::exception_ptr error_;
};

// A pair opens a port of loopback as it is made, and takes the first connection that comes when its
// handler is called. This process connects to it itself, has it take that connection, and puts
// `socket` in its place. All of it on the device's thread, which therefore cannot look at the port
// or read from a connection meanwhile: what somebody else connects to in that moment is never read.
// False when somebody else was first.
bool adopt(gloo::transport::Pair& pair, const OwnedFd& socket, tcp::Device& device) {
  auto* handler = dynamic_cast<tcp::Handler*>(&pair);
  check(handler != nullptr, "Gloo's pairs handle their events");
  const OwnedFd own = connected_to(static_cast<const tcp::Address&>(pair.address()).getSockaddr());
  if (!own) return false;
  handler->handleEvents(EPOLLIN);
  const std::optional<int> taken = other_end_of(own.get());
  if (!taken) return false;
  // The connection that is replaced is closed with that, and forgotten by the device.
  check(::dup3(socket.get(), *taken, O_CLOEXEC) == *taken, "a descriptor can be replaced");
  device.registerDescriptor(*taken, EPOLLIN, handler);
  return true;
}

void make_pair_over(const OwnedFd& socket, int rank, gloo::transport::Context& pairs,
                    tcp::Device& device) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (adopt(*pairs.createPair(rank), socket, device)) return;
    pairs.getPair(rank).reset();
  }
  throw RunError(ReasonCode::kNccl,
                 "Gloo cannot make connections: another process takes all of "
                 "its ports on loopback as they are opened");
}

class Group : public gloo::Context {
 public:
  Group(int own, int members, std::shared_ptr<gloo::transport::Device> device,
        std::shared_ptr<gloo::transport::Context> pairs)
      : gloo::Context(own, members) {
    device_ = std::move(device);
    transportContext_ = std::move(pairs);
  }
};

}  // namespace

std::shared_ptr<tcp::Device> make_gloo_device() {
  tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  return std::make_shared<tcp::Device>(tcp::CreateDeviceAttr(attributes));
}

std::shared_ptr<gloo::Context> gloo_context_over(const std::vector<OwnedFd>& sockets, int own,
                                                 std::chrono::milliseconds timeout,
                                                 const std::shared_ptr<tcp::Device>& device) {
  const auto size = static_cast<int>(sockets.size());
  const std::shared_ptr<gloo::transport::Context> pairs = device->createContext(own, size);
  pairs->setTimeout(timeout);
  OnDeviceThread(*device, [&] {
    for (int rank = 0; rank < size; ++rank) {
      if (rank != own) {
        make_pair_over(sockets[static_cast<size_t>(rank)], rank, *pairs, *device);
      }
    }
  });
  auto group = std::make_shared<Group>(own, size, device, pairs);
  group->setTimeout(timeout);
  return group;
}

}  // namespace sftbench

#endif
