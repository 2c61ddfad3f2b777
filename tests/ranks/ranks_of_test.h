// Ranks of a job in threads or processes of a test, which meet at a port of their own.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ranks/connection.h"
#include "ranks/tcp_socket.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {

class RanksOfTest {
 public:
  explicit RanksOfTest(int world_size, const std::string& session = "job") {
    OwnedFd listener = listen_on_loopback();
    place_.world_size = world_size;
    place_.local_size = world_size;
    place_.port = port_of(listener.get());
    place_.session = session;
    place_.secret = "a secret of a test";
    place_.rendezvous_timeout_s = 20;
    place_.communication_timeout_s = 20;
    listener_ = std::move(listener);
  }
  ~RanksOfTest() {
    for (const pid_t pid : processes_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  RanksOfTest(const RanksOfTest&) = delete;
  RanksOfTest& operator=(const RanksOfTest&) = delete;

  // Of every rank; to be changed before ranks are made.
  RankPlace& common() { return place_; }

  // Rank 0's takes the listening socket over.
  RankPlace place(int rank) {
    RankPlace place = place_;
    place.rank = rank;
    place.local_rank = rank;
    if (rank == 0) place.listening_fd = listener_.release();
    return place;
  }

  // What each rank of `ranks` returns from `body`, or the text of what it throws.
  using Body = std::function<std::string(RankGroup& group)>;
  std::vector<std::string> in_threads(const std::vector<int>& ranks, const Body& body) {
    std::vector<std::string> results(ranks.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ranks.size(); ++i) {
      threads.emplace_back(
          [&result = results[i], &body, own = place(ranks[i])] { result = outcome(own, body); });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }
  std::vector<std::string> in_threads(const Body& body) {
    std::vector<int> ranks;
    for (int rank = 0; rank < place_.world_size; ++rank) ranks.push_back(rank);
    return in_threads(ranks, body);
  }

  // A rank that a test can kill or stop; ended with the test.
  pid_t in_process(int rank, const Body& body) {
    const RankPlace own = place(rank);
    const pid_t pid = ::fork();
    if (pid == 0) {
      outcome(own, body);
      ::_exit(0);
    }
    if (own.listening_fd >= 0) ::close(own.listening_fd);
    processes_.push_back(pid);
    return pid;
  }

  static std::string outcome(const RankPlace& place, const Body& body) {
    try {
      const std::unique_ptr<RankGroup> group = join_ranks(place);
      return body(*group);
    } catch (const RunError& error) {
      return text_of(error);
    } catch (const InputError& error) {
      return std::string("input: ") + error.what();
    }
  }

  static std::string text_of(const RunError& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }

 private:
  RankPlace place_;
  OwnedFd listener_;
  std::vector<pid_t> processes_;
};

}  // namespace sftbench
