// The right to measure one key and to write its results, in a folder that many processes share. Two
// kinds hold it. A lock (key_lock.h) is the kernel's, and ends with its last holder: for local
// disks. A lease is a folder that its holder renews, and that others take over when it has been
// silent for as long as it says: for network and parallel file systems.
//
// What fences a lease: results are written in the claim's own folder and renamed to their place
// from there. Whoever takes a claim over removes that folder first. A holder that was believed dead
// then finds nothing to write to, whenever it wakes up. So at any instant at most one process can
// replace the results of a key, and nothing depends on anybody's clock.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/results/key_lock.h"

namespace sftbench {

enum class ClaimKind { kLocks, kLeases };

// Somebody else has taken the claim over: what was to be written is not.
class ClaimLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Gives the claim back when it goes.
class Claim {
 public:
  virtual ~Claim() = default;

  // Stay open in a child, so that the claim outlives its parent.
  virtual std::vector<int> inherited_fds() const { return {}; }

  // What an interrupted process removes, the last first.
  virtual std::vector<std::filesystem::path> files() const = 0;

  // False once it is known to be somebody else's. True proves nothing: publish() decides.
  virtual bool stands() const { return true; }

  // Writes a whole file, as write_file_atomic() does. ClaimLost when the claim is not held any
  // more; InputError when it cannot be written.
  virtual void publish(const std::filesystem::path& path, std::string_view content) = 0;
};

class Claims {
 public:
  virtual ~Claims() = default;

  virtual ClaimKind kind() const = 0;

  // Nothing when somebody else holds the key, who is named in `holder` if that is known. InputError
  // (path and the system's reason) when no claim can be made.
  virtual std::shared_ptr<Claim> try_acquire(const std::string& experiment, const std::string& key,
                                             std::string* holder = nullptr) = 0;

  // Returns the process that holds the key, or nothing when the key is free. Claims nothing and
  // writes nothing.
  virtual std::optional<std::string> holder(const std::string& experiment,
                                            const std::string& key) const = 0;

  // The same as try_acquire(), but KeyBusy, which names the holder.
  std::shared_ptr<Claim> acquire(const std::string& experiment, const std::string& key);

  // What the killed have left in the folder of an experiment, as far as nobody claims it.
  virtual void remove_leftovers(const std::string& experiment) = 0;

  // Readable when a claim was lost (eventfd); -1: that cannot happen.
  virtual int lost_fd() const { return -1; }

  // Seconds after which a key that somebody else holds is looked at again, at most.
  virtual double look_again_s() const = 0;

 protected:
  explicit Claims(std::filesystem::path results) : results_(std::move(results)) {}
  const std::filesystem::path results_;
};

constexpr double kLeaseSeconds = 60;

// Of a folder of results: how its keys are claimed, and why.
struct ClaimChoice {
  ClaimKind kind = ClaimKind::kLocks;
  std::string file_system;  // "ext4", "nfs"
  std::string why;          // "a local disk, and locks work"
};

// "locks (ext4)"
std::string to_string(const ClaimChoice& choice);

// `wish`: "auto", "locks" or "leases". Those who share a folder must agree: once one works there
// with leases, all do. Otherwise `auto` takes locks where the file system is a local disk and a
// lock keeps a second open file out. Makes nothing that stays. InputError when the wish contradicts
// the folder, or when locks are wished for and do not work.
ClaimChoice choose_claims(const std::filesystem::path& results, const std::string& wish = "auto");

// The folder must exist. `lease_s`: for how long others wait before they take over a claim that is
// not renewed. InputError when somebody measures there with the other kind, or when the file system
// cannot do what leases need.
std::unique_ptr<Claims> make_claims(const std::filesystem::path& results, ClaimKind kind,
                                    double lease_s = kLeaseSeconds);

// One that is held now, as others see it.
struct SeenClaim {
  std::string experiment, key;
  std::string host;
  int64_t process = 0;  // 0: not known
  double age_s = 0;     // since it was made, by the folder's dates
  double silent_s = 0;  // since it was renewed, likewise; 0 for a lock
  double lease_s = 0;   // 0: a lock, which is held for sure
};

// All claims of the folder, by key. Makes nothing, and needs no permission to write.
std::vector<SeenClaim> list_claims(const std::filesystem::path& results);

}  // namespace sftbench
