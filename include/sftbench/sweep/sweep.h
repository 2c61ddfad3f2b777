// Measures what an operation asks for of a space: each measurement in a child process, as many at a
// time as the machine has room for; every outcome goes into the store as soon as there is one.
//
// The store is all the memory that a sweep has. What it holds as valid or invalid is settled;
// failed is tried again; nothing is measured without the key's claim (results/claim.h), and after a
// claim is taken the store is asked again. So a sweep that is killed at any instant is resumed by
// starting it again, and sweeps that share a directory share the work.
//
// One loop, one poll(): children's heartbeats and ends, written results, Ctrl-C, the next deadline.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/launch/child_measurement.h"
#include "sftbench/results/claim.h"
#include "sftbench/results/store.h"
#include "sftbench/sweep/cell.h"

namespace sftbench {

struct SweepOptions {
  int64_t jobs = 1;                // measurements at a time; 0: as many as have room
  bool worker = false;             // leaves to others what this machine cannot measure
  std::optional<double> until_s;   // steady_seconds() at which everything must have ended
  int64_t limit = 0;               // cells that are measured before the sweep ends; 0: all
  int repeats = 1;                 // samples of each cell; only what is valid is repeated
  int64_t max_retries = 0;         // of a failed sample, at the end of the sweep
  bool retry_failed = true;        // what the store held as failed when the sweep began
  bool single_measurement = true;  // false: `repeats` samples are added to those in the store
  double timeout_s = 0;            // of one measurement; 0: none
  double stall_timeout_s = 0;      // without a step; 0: none
  int64_t host_memory_bytes = 0;   // of one measurement; 0: no limit
  int64_t breaker_failures = 10;   // circuit_breaker.h
  double breaker_quick_s = 10;
  std::vector<std::string> simulate;  // as in ChildSpec
  std::vector<std::string> trackers;  // as in ChildSpec
  std::function<std::string(const Cell&)> command = [](const Cell&) { return std::string(); };
  // Asked as a cell starts: what is to be said before, as that memory cannot suffice.
  std::function<std::optional<std::string>(const TrainingJob&, const Share&)> preflight =
      [](const TrainingJob&, const Share&) { return std::optional<std::string>(); };
  // Asked as a cell starts: puts into its job what it keeps and goes on from. InputError: the cell
  // cannot, and fails with it.
  std::function<void(const Cell&, TrainingJob&)> keep = [](const Cell&, TrainingJob&) {};
  std::filesystem::path executable = "/proc/self/exe";
};

// How a cell, or one of its samples, ended.
struct Outcome {
  Status status = Status::kFailed;
  const Measurement* measurement =
      nullptr;         // none when the store held it before; valid during the call
  double seconds = 0;  // that its child took; 0 without one
};

struct RunningCell {
  const Cell* cell;
  const Heartbeat* heartbeat;  // of the run under way
  double elapsed_s;
  int64_t run = 1;  // of the runs that make up the measurement
  int64_t runs = 1;
};

// What a worker leaves to others.
struct CellsLeft {
  std::string reason;  // of the first of them
  int64_t cells = 0;
};

// The status, and the reason's code when there is one.
using OutcomeKind = std::pair<Status, std::optional<ReasonCode>>;

// Where a sweep stands.
struct SweepState {
  int64_t cells_at_most = 0;           // exact unless a filter leaves some out
  std::map<Status, int64_t> before;    // settled cells that the store held
  std::map<OutcomeKind, int64_t> now;  // settled by this sweep
  int64_t unsaved = 0;                 // measurements that could not save what they were asked to
  int64_t unread = 0;                  // with a result that a worker has not read yet
  int64_t retries = 0;                 // that wait for their turn
  int64_t busy = 0;                    // that another sweep measures
  double elapsed_s = 0;
  std::optional<double> seconds_left;  // once something was measured
  std::vector<RunningCell> running;

  int64_t settled() const;
  int64_t settled(Status status) const;
  // Sets seconds_left, where cells that run have done these parts of a cell together.
  void estimate(double parts);
};

enum class SweepEnd {
  kComplete,     // everything asked for is settled
  kLimit,        // so many cells as were asked for
  kDeadline,     // there was more, and no time for it
  kInterrupted,  // by the user
  kTripped,      // by the circuit breaker
  kStoreFailed,  // a result could not be written, or its folder or other results are gone
};

// Told what happens, in order. `state` is valid during the call.
class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  virtual void on_begin(const SweepState&) {}
  virtual void on_start(const Cell&, const Share&) {}
  virtual void on_warning(const Cell&, const std::string&) {}
  virtual void on_settled(const Cell&, const Outcome&) {}
  virtual void on_sample(const Cell&, const Outcome&) {}  // one of several; the cell goes on
  virtual void on_retry(const Cell&, const Outcome&) {}  // this attempt failed; another will follow
  virtual void on_busy(const Cell&, const std::string& /*holder*/) {}
  // Another process took the claim over while this one measured: nothing was kept, the cell is
  // looked at again.
  virtual void on_lost(const Cell&, const std::string& /*why*/) {}
  virtual void on_note(const std::string&) {}
  // Whenever something moved, and at least every tick_s() seconds.
  virtual void on_tick(const SweepState&) {}
  virtual double tick_s() const { return 1; }
};

class Sweep {
 public:
  // All references outlive the sweep. `interrupt_fd` (-1: none) is a signalfd: at the first signal
  // children are asked to end, at the second they are killed.
  Sweep(WalkSource& walk, const CellPlanner& planner, Machine& machine, const ResultStore& store,
        Claims& claims, SweepOptions options, SweepObserver& observer, int interrupt_fd = -1);
  ~Sweep();
  Sweep(const Sweep&) = delete;
  Sweep& operator=(const Sweep&) = delete;

  // Once.
  SweepEnd run();

  const SweepState& state() const;
  const std::string& message() const;  // why it tripped, or what became of the store

  // Cells that nobody has settled, which this machine cannot measure or had no time for.
  const std::vector<CellsLeft>& left() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sftbench
