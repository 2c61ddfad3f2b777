// Holds what a sweep says against the disk: whether the folders of results are still those that it
// began with, and whether all that it calls settled is there when it ends. A few bytes for each
// cell.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/results/claim.h"
#include "sftbench/results/standing_folder.h"
#include "sftbench/sweep/sweep.h"

namespace sftbench {

class StoreGuard {
 public:
  // Both outlive the guard.
  StoreGuard(const ResultStore& store, Claims& claims) : store_(store), claims_of_keys_(claims) {}

  // The folder of an experiment, made if it is not there, without what the killed have left in it.
  // InputError.
  void enter(const std::string& experiment);

  // Which folder is not what it was, and what became of it.
  std::optional<std::string> gone() const;

  // The cell ended so; `before`: the store held it already.
  void claim(const Cell& cell, OutcomeKind kind, bool before);

  // Takes the claims out of `state` whose files are not there any more. "3 results that were
  // settled are gone"; nothing when all are there.
  std::optional<std::string> take_back_what_is_gone(SweepState& state) const;

 private:
  struct Claim {
    uint64_t name;  // hash of the result file's
    OutcomeKind kind;
    bool before;
  };

  const ResultStore& store_;
  Claims& claims_of_keys_;
  std::list<StandingFolder> folders_;
  std::map<std::string, std::vector<Claim>> claims_;  // by experiment
};

}  // namespace sftbench
