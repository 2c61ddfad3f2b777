// Streams. Work of a default stream is done at once, as operators are that compute on the host. Any
// other stream has a thread of its own, and so is a wait that is missing in the program a wrong
// number. With a seed its work is now and then not even begun before somebody waits for it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>

namespace sftbench::phantom {

using Work = std::function<void()>;
class Graph;

// The end of what a stream had been given when the event was recorded. One that never was recorded
// has happened.
class Event {
 public:
  bool happened() const;
  std::chrono::steady_clock::time_point time() const;
  // Whether it was recorded by a stream whose work is captured.
  bool is_of_capture() const;

 private:
  friend class Stream;
  mutable std::mutex mutex_;
  std::condition_variable reached_;
  bool pending_ = false, captured_ = false;
  std::chrono::steady_clock::time_point time_;
  std::weak_ptr<class Stream> stream_;
  uint64_t position_ = 0;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  enum class When { kMayBeHeldBack, kSoon };

  // seed 0: nothing is held back.
  Stream(bool is_default, uint64_t seed) : is_default_(is_default), seed_(seed), random_(seed) {}

  void put(Work work, When when = When::kMayBeHeldBack);
  // Puts go into the graph as well, and are done at once, until this is called with none.
  void record_into(std::shared_ptr<Graph> graph);
  // `event` becomes the end of what was put until now.
  void record(const std::shared_ptr<Event>& event);
  // What is put later waits for it.
  void wait(const std::shared_ptr<Event>& event);
  // The caller waits.
  static void finish(Event& event);
  void finish();
  bool idle();
  uint64_t seed() const { return seed_; }

 private:
  struct Entry {
    Work work;
    bool held_back;
  };

  void push(Work work, bool held_back);
  void want(uint64_t position);
  void run();  // the thread's loop
  bool may_begin() const;

  const bool is_default_;
  const uint64_t seed_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Entry> entries_;
  uint64_t put_ = 0, done_ = 0, wanted_ = 0;
  std::shared_ptr<Graph> graph_;  // of a capture; null: there is none
  bool started_ = false;
};

// All streams of the process, by the address that CUDA calls them: 0, 1 and 2 are default streams.
class Streams {
 public:
  using Id = uintptr_t;

  Id create();
  void destroy(Id id);
  Stream& at(Id id);
  void finish_all();
  void start_anew();

 private:
  std::shared_ptr<Stream> find(Id id);

  std::mutex mutex_;
  std::map<Id, std::shared_ptr<Stream>> streams_;
  Id next_ = 16;
};

Streams& streams();

}  // namespace sftbench::phantom
