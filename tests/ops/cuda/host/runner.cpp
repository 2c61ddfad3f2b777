#include "ops/cuda/host/runner.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <numeric>
#include <sstream>
#include <vector>

#if SFTBENCH_CUDA
#include "ops/cuda/host/stand_in_stream.h"
#endif

namespace sftbench::ops::host {
namespace {

constexpr int kWarpLanes = 32;
constexpr size_t kStackBytes = size_t{256} << 10, kPageBytes = 4096;
constexpr size_t kSharedBytes = size_t{227} << 10;       // of a block, from sm_90 on
constexpr size_t kStaticSharedBytes = size_t{48} << 10;  // of its declared variables
constexpr size_t kRedZoneBytes = 16;                     // behind each of them
constexpr int kPoison = 0xff;                            // NaN in every floating-point type

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  // Sebastiano Vigna's SplitMix64.
  uint64_t below(uint64_t bound) {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % bound;
  }

 private:
  uint64_t state_;
};

// Where a flow of execution goes on.
struct Place {
  jmp_buf registers;
};

// A flow of execution with a stack of its own, whose lowest page faults.
struct Fiber {
  Place place;
  bool started = false;  // else it goes on at the beginning, which `context` knows
  ucontext_t context{};
  void* stack;

  explicit Fiber(void (*entry)())
      : stack(mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (stack == MAP_FAILED || mprotect(stack, kPageBytes, PROT_NONE) != 0) throw std::bad_alloc();
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = kStackBytes;
    makecontext(&context, entry, 0);
  }
  ~Fiber() { munmap(stack, kStackBytes); }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
};

// Goes on at `to`, until something goes on at `from`. swapcontext() would do, but it sets the
// signal mask at each switch: that call of the system took three quarters of the time of a tiny
// training.
__attribute__((noinline)) void switch_place(Place& from, Place& to) {
  if (_setjmp(from.registers) == 0) _longjmp(to.registers, 1);
}

__attribute__((noinline)) void switch_to_fiber(Place& from, Fiber& fiber) {
  if (fiber.started) return switch_place(from, fiber.place);
  fiber.started = true;
  if (_setjmp(from.registers) == 0) setcontext(&fiber.context);
}

enum class State { kReady, kAtBarrier, kInWarpOperation, kDone };

struct Thread {
  Fiber* fiber = nullptr;  // null: not yet started
  State state = State::kReady;
  WarpOperation operation = WarpOperation::kSync;
  int operand = 0;
  // A lane may bring the bits of the next operation before all have read those of this one.
  unsigned operations = 0;
  uint64_t bits[2] = {};
};

// The shared memory of one block after another.
class SharedMemory {
 public:
  SharedMemory() : memory_(kSharedBytes + 2 * kRedZoneBytes + kAlignment) {}

  void begin_block(size_t dynamic_bytes) {
    std::memset(memory_.data(), kPoison, memory_.size());
    variables_.clear();
    used_ = 0;
    dynamic_ = take(dynamic_bytes, kAlignment);
  }

  void* variable(const void* key, size_t bytes, size_t alignment) {
    for (const Variable& variable : variables_) {
      if (variable.key == key) return variable.place;
    }
    static_bytes_ = variables_.empty() ? bytes : static_bytes_ + bytes;
    if (static_bytes_ > kStaticSharedBytes) fault("more than 48 KiB of shared variables");
    variables_.push_back({key, take(bytes, alignment)});
    return variables_.back().place;
  }

  void* dynamic() const { return dynamic_; }

  // Whether nothing was written behind a variable.
  bool is_sound() const {
    for (const std::byte* zone : red_zones_) {
      for (size_t i = 0; i < kRedZoneBytes; ++i) {
        if (zone[i] != std::byte{kPoison}) return false;
      }
    }
    return true;
  }

 private:
  static constexpr size_t kAlignment = 128;
  struct Variable {
    const void* key;
    std::byte* place;
  };

  std::byte* take(size_t bytes, size_t alignment) {
    if (used_ == 0) red_zones_.clear();
    void* place = memory_.data() + used_;
    size_t space = memory_.size() - used_;
    if (std::align(std::max<size_t>(alignment, 16), bytes + kRedZoneBytes, place, space) == nullptr)
      throw KernelFault("more than 227 KiB of shared memory");
    auto* result = static_cast<std::byte*>(place);
    red_zones_.push_back(result + bytes);
    used_ = static_cast<size_t>(result - memory_.data()) + bytes + kRedZoneBytes;
    return result;
  }

  std::vector<std::byte> memory_;
  std::vector<Variable> variables_;
  std::vector<const std::byte*> red_zones_;
  std::byte* dynamic_ = nullptr;
  size_t used_ = 0, static_bytes_ = 0;
};

std::ostream& operator<<(std::ostream& out, const dim3& place) {
  return out << '(' << place.x << ", " << place.y << ", " << place.z << ')';
}

template <class... Parts>
KernelFault make_fault(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return KernelFault(text.str());
}

dim3 place_of(uint64_t index, const dim3& extent) {
  return {static_cast<unsigned>(index % extent.x),
          static_cast<unsigned>(index / extent.x % extent.y),
          static_cast<unsigned>(index / extent.x / extent.y)};
}

// The fibers and memory of an operating-system thread, kept from one launch to the next.
struct Workshop {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber*> idle;
  SharedMemory shared;
};

class Launch {
 public:
  Launch(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& body)
      : grid_(grid),
        block_(block),
        shared_bytes_(shared_bytes),
        body_(body),
        random_(settings().seed),
        threads_(size_t{block.x} * block.y * block.z) {}

  void run();
  void wait_for_block();
  uint64_t exchange(WarpOperation operation, unsigned mask, int operand, int source, uint64_t bits);

 private:
  static void fiber_main();
  void run_block();
  void resume(size_t thread);
  void run_threads(Fiber* fiber);
  size_t take_ready();
  void enter(size_t thread);
  void sleep(State state);
  void release(size_t begin, size_t end);
  void check_lanes(size_t first, const Thread& self) const;
  void check_ended();

  dim3 grid_, block_;
  size_t shared_bytes_;
  const std::function<void()>& body_;
  Random random_;
  std::vector<Thread> threads_;
  std::vector<size_t> ready_;
  size_t current_ = 0, at_barrier_ = 0;
  std::vector<int> in_warp_operation_;
  std::exception_ptr fault_;
  Place scheduler_;
};

thread_local Workshop workshop;
thread_local Launch* current_launch = nullptr;

Launch& launch_of_caller() {
  if (current_launch == nullptr) throw KernelFault("no kernel runs");
  return *current_launch;
}

void Launch::run() {
  const uint64_t blocks = uint64_t{grid_.x} * grid_.y * grid_.z;
  if (blocks == 0 || threads_.empty() || threads_.size() > 1024 || grid_.y > 65535 ||
      grid_.z > 65535) {
    throw make_fault("a grid of ", grid_, " blocks of ", block_, " threads");
  }
  gridDim = grid_;
  blockDim = block_;
  // Every block once, in steps that share no divisor with their number.
  const uint64_t first = random_.below(blocks);
  uint64_t step = 1 + random_.below(blocks);
  while (std::gcd(step, blocks) != 1) ++step;
  for (uint64_t i = 0, block = first; i < blocks; ++i, block = (block + step) % blocks) {
    blockIdx = place_of(block, grid_);
    run_block();
  }
}

void Launch::run_block() {
  workshop.shared.begin_block(shared_bytes_);
  threads_.assign(threads_.size(), Thread());
  in_warp_operation_.assign((threads_.size() + kWarpLanes - 1) / kWarpLanes, 0);
  at_barrier_ = 0;
  ready_.resize(threads_.size());
  std::iota(ready_.begin(), ready_.end(), size_t{0});
  while (!ready_.empty() && !fault_) resume(take_ready());
  if (!fault_) check_ended();
  if (fault_) {
    workshop.idle.clear();
    workshop.fibers.clear();  // some stand in the middle of the kernel
    std::rethrow_exception(fault_);
  }
  if (!workshop.shared.is_sound()) {
    throw make_fault("block ", blockIdx, " wrote behind a shared variable");
  }
}

void Launch::check_ended() {
  size_t done = 0, in_warp = 0;
  for (const Thread& thread : threads_) {
    done += thread.state == State::kDone;
    in_warp += thread.state == State::kInWarpOperation;
  }
  if (done == threads_.size()) return;
  fault_ = std::make_exception_ptr(make_fault("block ", blockIdx, ": ", at_barrier_,
                                              " threads wait at a barrier, ", in_warp,
                                              " at an operation of a warp, ", done, " have ended"));
}

size_t Launch::take_ready() {
  const size_t place = random_.below(ready_.size()), thread = ready_[place];
  ready_[place] = ready_.back();
  ready_.pop_back();
  return thread;
}

void Launch::enter(size_t thread) {
  current_ = thread;
  threadIdx = place_of(thread, block_);
}

void Launch::resume(size_t thread) {
  Fiber*& fiber = threads_[thread].fiber;
  if (fiber == nullptr) {
    if (workshop.idle.empty()) {
      workshop.fibers.push_back(std::make_unique<Fiber>(fiber_main));
      workshop.idle.push_back(workshop.fibers.back().get());
    }
    fiber = workshop.idle.back();
    workshop.idle.pop_back();
  }
  enter(thread);
  switch_to_fiber(scheduler_, *fiber);
}

// The life of a fiber: whenever it is woken up from idleness there is a thread to run.
void Launch::fiber_main() {
  for (;;) {
    Fiber* self = current_launch->threads_[current_launch->current_].fiber;
    current_launch->run_threads(self);
    workshop.idle.push_back(self);
    switch_place(self->place, current_launch->scheduler_);
  }
}

// Runs the current thread to its end, and then others that have not begun: a kernel without
// barriers never switches.
void Launch::run_threads(Fiber* fiber) {
  for (;;) {
    try {
      body_();
    } catch (...) {
      fault_ = std::current_exception();
    }
    threads_[current_].state = State::kDone;
    if (fault_ || ready_.empty()) return;
    const size_t next = take_ready();
    if (threads_[next].fiber != nullptr) return ready_.push_back(next);
    threads_[next].fiber = fiber;
    enter(next);
  }
}

void Launch::sleep(State state) {
  Thread& self = threads_[current_];
  self.state = state;
  switch_place(self.fiber->place, scheduler_);
}

// Wakes up the sleeping threads of a range, of which the caller is the last to arrive.
void Launch::release(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    threads_[i].state = State::kReady;
    ready_.push_back(i);
  }
}

void Launch::wait_for_block() {
  if (++at_barrier_ == threads_.size()) {
    at_barrier_ = 0;
    release(0, threads_.size());
    return sleep(State::kReady);
  }
  sleep(State::kAtBarrier);
}

void Launch::check_lanes(size_t first, const Thread& self) const {
  for (size_t lane = first; lane < first + kWarpLanes; ++lane) {
    const Thread& other = threads_[lane];
    if (other.operation != self.operation || other.operand != self.operand)
      fault("lanes of a warp are at different operations");
  }
}

uint64_t Launch::exchange(WarpOperation operation, unsigned mask, int operand, int source,
                          uint64_t bits) {
  if (mask != 0xffffffffu) fault("an operation of part of a warp");
  if (threads_.size() % kWarpLanes != 0) fault("an operation of a warp that is not whole");
  if (source < 0 || source >= kWarpLanes) fault("lane " + std::to_string(source) + " of a warp");
  Thread& self = threads_[current_];
  const size_t warp = current_ / kWarpLanes, first = warp * kWarpLanes;
  const unsigned turn = self.operations++ % 2;
  self.operation = operation;
  self.operand = operand;
  self.bits[turn] = bits;
  if (++in_warp_operation_[warp] == kWarpLanes) {
    check_lanes(first, self);
    in_warp_operation_[warp] = 0;
    release(first, first + kWarpLanes);
    sleep(State::kReady);
  } else {
    sleep(State::kInWarpOperation);
  }
  return threads_[first + static_cast<size_t>(source)].bits[turn];
}

}  // namespace

Settings& settings() {
#if SFTBENCH_CUDA
  static Settings instance = {.submit = run_on_stream};
#else
  static Settings instance;
#endif
  return instance;
}

void fault(const std::string& what) {
  throw make_fault("block ", blockIdx, ", thread ", threadIdx, ": ", what);
}

void run(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread) {
  if (current_launch != nullptr) throw KernelFault("a kernel may not launch another one");
  Launch launch(grid, block, shared_bytes, thread);
  current_launch = &launch;
  const std::unique_ptr<Launch*, void (*)(Launch**)> reset(&current_launch,
                                                           [](Launch** p) { *p = nullptr; });
  launch.run();
}

void wait_for_block() {
  launch_of_caller().wait_for_block();
}

uint64_t exchange(WarpOperation operation, unsigned mask, int operand, int source, uint64_t bits) {
  return launch_of_caller().exchange(operation, mask, operand, source, bits);
}

void* shared_variable(const void* key, size_t bytes, size_t alignment) {
  return workshop.shared.variable(key, bytes, alignment);
}

void* dynamic_shared_memory() {
  return workshop.shared.dynamic();
}

}  // namespace sftbench::ops::host
