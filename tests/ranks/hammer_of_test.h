// A stranger for tests: connects to every port of loopback that one of the given processes listens
// on, over and over, and says what strangers say: nothing, half of something, another protocol.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "sftbench/base/owned_fd.h"

namespace sftbench {

// Ports of TCP sockets that wait for connections and that one of the processes has open.
inline std::set<int> listening_ports(const std::vector<pid_t>& processes) {
  namespace fs = std::filesystem;
  std::set<std::string> sockets;  // "socket:[12345]"
  for (const pid_t process : processes) {
    std::error_code gone;
    for (const auto& entry :
         fs::directory_iterator("/proc/" + std::to_string(process) + "/fd", gone)) {
      const std::string target = fs::read_symlink(entry.path(), gone).string();
      if (target.starts_with("socket:[")) sockets.insert(target);
    }
  }
  std::set<int> ports;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    std::string line;
    std::getline(lines, line);  // the heads of the columns
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retransmits, uid, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> retransmits >> uid >>
          timeout >> inode;
      if (state != "0A" || sockets.count("socket:[" + inode + "]") == 0) continue;
      ports.insert(std::stoi(local.substr(local.rfind(':') + 1), nullptr, 16));
    }
  }
  return ports;
}

class Hammer {
 public:
  // `processes` says whose ports; asked again each time. At most so many connections stay open.
  explicit Hammer(std::function<std::vector<pid_t>()> processes, size_t most_open = 100)
      : processes_(std::move(processes)), most_open_(most_open), thread_([this] { run(); }) {}
  ~Hammer() { stop(); }

  int stop() {
    ended_ = true;
    if (thread_.joinable()) thread_.join();
    return connections_;
  }
  int connections() const { return connections_; }

 private:
  void run() {
    while (!ended_) {
      for (const int port : listening_ports(processes_())) {
        for (int i = 0; i < 4 && !ended_; ++i) connect(port);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void connect(int port) {
    OwnedFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!socket) return;
    const auto* target = reinterpret_cast<const sockaddr*>(&address);
    // Over loopback a connection that is in progress stands, unless the port's queue is full.
    if (::connect(socket.get(), target, sizeof address) != 0 && errno != EINPROGRESS) return;
    const std::string& words = said_[static_cast<size_t>(connections_++) % said_.size()];
    ::send(socket.get(), words.data(), words.size(), MSG_NOSIGNAL);
    open_.push_back(std::move(socket));
    if (open_.size() > most_open_) open_.pop_front();
  }

  const std::vector<std::string> said_ = {"",
                                          "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                          std::string("\xff\xff\xff\xff\x01", 5),
                                          std::string("\x00\x00\x00\x00\x00\x00\x00", 7),
                                          std::string("\x10", 1),
                                          std::string(70000, 'x')};
  std::function<std::vector<pid_t>()> processes_;
  size_t most_open_;
  std::deque<OwnedFd> open_;
  std::atomic<int> connections_ = 0;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace sftbench
