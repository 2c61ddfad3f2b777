// A descriptor that is closed with its owner; never one of the three standard ones, which a child
// of this process gets over it.
#pragma once

#include <utility>

namespace sftbench {

class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd);  // takes it over; -1: none
  ~OwnedFd();
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept;

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void close();
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

}  // namespace sftbench
