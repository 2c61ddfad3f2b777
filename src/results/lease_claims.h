// Claims by leases. A thread renews those of this process, watches those of others, and takes over
// what has been silent for its lease, to clean it up and let go of it: whoever wants the key then
// finds it free.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "results/lease.h"
#include "results/lease_watch.h"
#include "sftbench/base/owned_fd.h"
#include "sftbench/results/claim.h"

namespace sftbench {

class LeaseClaims : public Claims {
 public:
  // Makes RESULTS/.leases. InputError when the file system cannot do what leases need.
  LeaseClaims(std::filesystem::path results, double lease_s);
  ~LeaseClaims() override;

  ClaimKind kind() const override { return ClaimKind::kLeases; }
  std::shared_ptr<Claim> try_acquire(const std::string& experiment, const std::string& key,
                                     std::string* holder) override;
  std::optional<std::string> holder(const std::string& experiment,
                                    const std::string& key) const override;
  void remove_leftovers(const std::string& experiment) override;
  int lost_fd() const override { return held_->lost_fd.get(); }
  double look_again_s() const override { return lease_s_ / 4; }

 private:
  // Outlives this object where a claim does.
  struct Held {
    std::mutex mutex;  // guards the set, and keeps each in it alive
    std::set<Lease*> leases;
    OwnedFd lost_fd;
  };

  void keep();
  void renew_all();
  void watch_others();
  void take_over(const LeaseText& lease);
  bool holds(const std::string& key);

  const std::filesystem::path leases_;
  const double lease_s_;
  const std::shared_ptr<Held> held_ = std::make_shared<Held>();
  LeaseWatch watch_;  // of the thread alone

  std::mutex mutex_;  // guards what follows
  std::condition_variable ending_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace sftbench
