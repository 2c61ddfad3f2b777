// A small HTTP/1.1 server on 127.0.0.1 whose answers a test composes, faults included: bodies that
// break off, trickle or ignore ranges. One thread per connection; keeps a record of the requests.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sftbench {

struct ServedRequest {
  std::string target;                          // path and query
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // as long as Content-Length says

  std::string path() const { return target.substr(0, target.find('?')); }
  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

struct ServedReply {
  int status = 200;
  std::map<std::string, std::string> headers;
  std::string body;
  bool ranges = true;  // answers "Range: bytes=N-" with 206
  bool length = true;  // false: the end of the connection is the end of the body
  size_t cut_after_bytes = std::numeric_limits<size_t>::max();    // then the connection is lost
  size_t sleep_after_bytes = std::numeric_limits<size_t>::max();  // then nothing comes for a while
  double sleep_s = 0;
  size_t piece_bytes = 1 << 16;
  double piece_sleep_s = 0;  // after each piece
};

class LoopbackServer {
 public:
  using Handler = std::function<ServedReply(const ServedRequest&)>;

  explicit LoopbackServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw std::runtime_error("no port on 127.0.0.1");
    }
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }

  ~LoopbackServer() {
    closing_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int client : clients_) ::shutdown(client, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    ::close(listener_);
  }
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  std::vector<ServedRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // How often a path that ends in `ending` was asked for.
  int count(const std::string& ending) const {
    int found = 0;
    for (const ServedRequest& request : requests()) {
      const std::string path = request.path();
      found += path.size() >= ending.size() &&
               path.compare(path.size() - ending.size(), ending.size(), ending) == 0;
    }
    return found;
  }

 private:
  void accept_all() {
    for (;;) {
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      // A body follows its head at once. Else the kernel keeps it until the client has acknowledged
      // the head, which clients do after 40 ms.
      const int at_once = 1;
      ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
      const std::lock_guard lock(mutex_);
      clients_.push_back(client);
      threads_.emplace_back([this, client] { serve(client); });
    }
  }

  void serve(int client) {
    std::string buffer;
    for (;;) {
      size_t end;
      while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
        char piece[4096];
        const ssize_t got = ::recv(client, piece, sizeof piece, 0);
        if (got <= 0) return close_client(client);
        buffer.append(piece, static_cast<size_t>(got));
      }
      ServedRequest request = parse(buffer.substr(0, end));
      buffer.erase(0, end + 4);
      const std::string length = request.header("content-length");
      const size_t body_bytes = length.empty() ? 0 : std::stoul(length);
      while (buffer.size() < body_bytes) {
        char piece[4096];
        const ssize_t got = ::recv(client, piece, sizeof piece, 0);
        if (got <= 0) return close_client(client);
        buffer.append(piece, static_cast<size_t>(got));
      }
      request.body = buffer.substr(0, body_bytes);
      buffer.erase(0, body_bytes);
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      if (!send_reply(client, request, handler_(request))) return close_client(client);
    }
  }

  void close_client(int client) {
    const std::lock_guard lock(mutex_);
    clients_.erase(std::remove(clients_.begin(), clients_.end(), client), clients_.end());
    ::close(client);
  }

  static ServedRequest parse(const std::string& head) {
    ServedRequest request;
    const size_t target = head.find(' ') + 1;
    request.target = head.substr(target, head.find(' ', target) - target);
    for (size_t line = head.find("\r\n"); line != std::string::npos;) {
      const size_t next = head.find("\r\n", line + 2);
      const std::string text = head.substr(line + 2, next - line - 2);
      const size_t colon = text.find(':');
      std::string name = text.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(), ::tolower);
      request.headers[name] = text.substr(std::min(text.size(), colon + 2));
      line = next;
    }
    return request;
  }

  bool send_all(int client, const char* data, size_t size) const {
    while (size > 0) {
      const ssize_t sent = ::send(client, data, size, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      data += sent;
      size -= static_cast<size_t>(sent);
    }
    return true;
  }

  void sleep(double seconds) const {
    for (double slept = 0; slept < seconds && !closing_; slept += 0.01)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  // False when the connection is over.
  bool send_reply(int client, const ServedRequest& request, ServedReply reply) const {
    const std::string range = request.header("range");
    if (reply.ranges && reply.status == 200 && range.rfind("bytes=", 0) == 0) {
      const size_t begin = std::stoul(range.substr(6));
      const std::string total = std::to_string(reply.body.size());
      if (begin >= reply.body.size()) {
        reply.status = 416;
        reply.body.clear();
      } else {
        reply.status = 206;
        reply.headers["Content-Range"] = "bytes " + std::to_string(begin) + "-" +
                                         std::to_string(reply.body.size() - 1) + "/" + total;
        reply.body.erase(0, begin);
      }
    }
    std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " Status\r\n";
    if (reply.length && reply.headers.count("Content-Length") == 0)
      reply.headers["Content-Length"] = std::to_string(reply.body.size());
    for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
    head += "\r\n";
    if (!send_all(client, head.data(), head.size())) return false;
    for (size_t at = 0; at < reply.body.size();) {
      if (at >= reply.cut_after_bytes) return false;
      if (at >= reply.sleep_after_bytes) {
        sleep(reply.sleep_s);
        return false;
      }
      const size_t end = std::min({at + reply.piece_bytes, reply.body.size(), reply.cut_after_bytes,
                                   reply.sleep_after_bytes});
      if (!send_all(client, reply.body.data() + at, end - at)) return false;
      at = end;
      if (reply.piece_sleep_s > 0) sleep(reply.piece_sleep_s);
      if (closing_) return false;
    }
    return reply.length;
  }

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> closing_ = false;
  mutable std::mutex mutex_;
  std::vector<ServedRequest> requests_;
  std::vector<int> clients_;
  std::vector<std::thread> threads_;  // grows only while the acceptor lives
  std::thread acceptor_;
};

}  // namespace sftbench
