// Streams as queues. Work of the default stream is done at once, as operators that compute on the
// host do. Work of another stream is done at once, too, or (with a seed) held back until somebody
// waits for it: a wait that is missing in the program then shows as a wrong number.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>

namespace sftbench::phantom {

using Work = std::function<void()>;

class Streams {
 public:
  using Id = uintptr_t;  // the address that CUDA calls a stream: 0, 1 and 2 are default streams
  struct Event {
    Id stream = 0;
    uint64_t after = 0;  // done when that many pieces of work of the stream are
    std::chrono::steady_clock::time_point recorded;
  };

  explicit Streams(uint64_t seed) : hold_back_(seed != 0), random_(seed) {}

  Id create();
  void destroy(Id stream);

  void put(Id stream, Work work);
  void record(Event& event, Id stream);
  // The stream goes on when the event has happened.
  void wait(Id stream, const Event& event);
  // The caller does.
  void finish(const Event& event);
  void finish(Id stream);
  void finish_all();
  // Whether it has happened. Who asks again and again sees it happen.
  bool happened(const Event& event);

 private:
  struct Queue {
    std::deque<Work> held;
    uint64_t put = 0, done = 0;
  };

  static bool is_default(Id stream) { return stream <= 2; }
  bool held_back(Id stream);
  void run(Id stream, uint64_t until);

  std::recursive_mutex mutex_;
  std::map<Id, Queue> queues_;
  Id next_ = 16;
  bool hold_back_;
  std::mt19937_64 random_;
};

Streams& streams();

}  // namespace sftbench::phantom
