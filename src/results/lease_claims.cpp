#include "results/lease_claims.h"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/results/leftovers.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// Renewals in a lease: four may be lost.
constexpr double kRenewals = 5;

bool is_prepared(const std::string& name) {
  return name.front() == '.';
}

// A rename must refuse to replace a folder that has something in it: that is what makes one holder.
void require_exclusive_rename(const fs::path& leases) {
  const fs::path first = leases / (".probe." + std::to_string(::getpid()) + ".1");
  const fs::path second = leases / (".probe." + std::to_string(::getpid()) + ".2");
  std::error_code error, ignored;
  for (const fs::path& folder : {first, second}) fs::create_directories(folder / "held", error);
  const bool made = !error;
  const bool replaced = made && ::rename(second.c_str(), first.c_str()) == 0;
  for (const fs::path& folder : {first, second}) fs::remove_all(folder, ignored);
  if (made && !replaced) return;
  throw InputError({finding(leases, {},
                            made ? "this file system replaces a folder that is not empty"
                                 : "cannot make a folder: " + error.message(),
                            "a file system that can hold claims; see sftbench doctor DIR")});
}

}  // namespace

LeaseClaims::LeaseClaims(fs::path results, double lease_s)
    : Claims(std::move(results)), leases_(results_ / kLeasesFolder), lease_s_(lease_s) {
  std::error_code error;
  fs::create_directories(leases_, error);
  if (error) {
    throw InputError({finding(leases_, {}, "cannot make the folder of leases: " + error.message(),
                              "a folder that can be written to")});
  }
  require_exclusive_rename(leases_);
  held_->lost_fd = OwnedFd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  thread_ = std::thread([this] { keep(); });
}

LeaseClaims::~LeaseClaims() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ending_.notify_all();
  thread_.join();
}

std::shared_ptr<Claim> LeaseClaims::try_acquire(const std::string& experiment,
                                                const std::string& key, std::string* holder) {
  const auto tell = [holder](const std::optional<LeaseText>& lease) {
    if (holder != nullptr) *holder = lease ? lease->holder() : "another process";
  };
  if (const std::optional<LeaseText> standing = read_lease(leases_, key)) {
    tell(standing);
    return nullptr;
  }
  std::shared_ptr<Lease> lease = Lease::try_make(leases_, experiment, key, lease_s_);
  if (!lease) {
    tell(read_lease(leases_, key));
    return nullptr;
  }
  Lease* const held = lease.get();
  const std::lock_guard lock(held_->mutex);
  held_->leases.insert(held);
  return {held, [keeper = held_, lease = std::move(lease)](Lease* gone) mutable {
            {
              const std::lock_guard guard(keeper->mutex);
              keeper->leases.erase(gone);
            }
            lease.reset();
          }};
}

std::optional<std::string> LeaseClaims::holder(const std::string& /*experiment*/,
                                               const std::string& key) const {
  const std::optional<LeaseText> lease = read_lease(leases_, key);
  return lease ? std::optional(lease->holder()) : std::nullopt;
}

void LeaseClaims::remove_leftovers(const std::string& experiment) {
  const fs::path folder = results_ / experiment;
  for (const std::string& key : keys_of_unfinished(folder)) {
    if (const auto claim = try_acquire(experiment, key, nullptr)) remove_unfinished(folder, key);
  }
}

bool LeaseClaims::holds(const std::string& key) {
  const std::lock_guard lock(held_->mutex);
  return std::any_of(held_->leases.begin(), held_->leases.end(),
                     [&key](const Lease* lease) { return lease->key() == key; });
}

void LeaseClaims::keep() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  const auto period = std::chrono::duration<double>(lease_s_ / kRenewals);
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, period, [this] { return ended_; })) {
    lock.unlock();
    renew_all();
    watch_others();
    lock.lock();
  }
}

void LeaseClaims::renew_all() {
  std::vector<Lease*> leases;
  {
    const std::lock_guard lock(held_->mutex);
    leases.assign(held_->leases.begin(), held_->leases.end());
  }
  for (Lease* lease : leases) {
    const std::lock_guard lock(held_->mutex);
    if (held_->leases.count(lease) == 0) continue;  // given back meanwhile
    if (!lease->renew()) ::eventfd_write(held_->lost_fd.get(), 1);
  }
}

void LeaseClaims::watch_others() {
  std::set<std::string> names;
  for (const std::string& name : lease_names(leases_)) {
    if (holds(name)) continue;
    names.insert(name);
    if (is_prepared(name)) {
      if (!watch_.silent(name, name, lease_s_, steady_seconds())) continue;
      std::error_code ignored;
      fs::remove_all(leases_ / name, ignored);
    } else if (const std::optional<LeaseText> lease = read_lease(leases_, name)) {
      if (watch_.silent(name, lease->sign, lease->lease_s, steady_seconds())) take_over(*lease);
    } else {
      ::rmdir((leases_ / name).c_str());  // what an interrupted takeover left: it is empty
    }
  }
  watch_.keep_only(names);
}

void LeaseClaims::take_over(const LeaseText& lease) {
  const std::optional<LeaseText> now = read_lease(leases_, lease.key);
  if (!now || now->sign != lease.sign) return;
  break_lease(leases_, lease.key, lease.token);
  try {
    if (const auto claim = try_acquire(lease.experiment, lease.key, nullptr)) {
      remove_unfinished(results_ / lease.experiment, lease.key);
    }
  } catch (const InputError&) {
    return;  // whoever wants the key is told
  }
}

}  // namespace sftbench
