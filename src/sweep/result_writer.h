// Writes results beside the loop that measures. A disk takes milliseconds to make a result durable,
// a network file system more: neither devices nor heartbeats shall wait for that, and writes that
// are under way together share the disk's work.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sftbench/results/claim.h"
#include "sftbench/results/store.h"
#include "sftbench/sweep/cell.h"

namespace sftbench {

// A measurement that has ended. The key stays claimed until it is written.
struct Ended {
  Cell cell;
  Measurement measurement;
  std::shared_ptr<Claim> claim;
  double seconds = 0;   // that its child took; 0 without one
  std::string problem;  // why it could not be written; empty: it stands in the store
  std::string lost;     // to whom the claim was lost, so that it must not be written
};

// Folders of the measurement's model that could not be written, and why.
std::vector<std::string> unsaved_folders(const Measurement& measurement);

class ResultWriter {
 public:
  // `store` outlives the writer. `beside_others`: many processes write to it.
  explicit ResultWriter(const ResultStore& store, bool beside_others = false);
  ~ResultWriter();  // waits for all writes
  ResultWriter(const ResultWriter&) = delete;
  ResultWriter& operator=(const ResultWriter&) = delete;

  void write(Ended ended);

  // Those that are written, or could not be.
  std::vector<Ended> take_written();

  bool idle() const { return pending_.empty(); }
  bool busy() const;              // better to wait before more is started
  int fd() const { return fd_; }  // readable when a write has ended (eventfd)

 private:
  struct Pending {
    Ended ended;
    std::atomic<bool> written = false;
    std::thread thread;
  };

  void write_now(Pending& pending) const;

  const ResultStore& store_;
  const size_t busy_writes_;
  int fd_;
  std::list<Pending> pending_;
};

}  // namespace sftbench
