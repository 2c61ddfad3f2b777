#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <utility>

#include "results/lease_claims.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/results/claim.h"
#include "sftbench/results/leftovers.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// What a try costs is microseconds, and a lock is free as soon as its holder has ended.
constexpr double kLookAtLocksSeconds = 2;

class LockClaim : public Claim {
 public:
  explicit LockClaim(KeyLock lock) : lock_(std::move(lock)) {}
  std::vector<int> inherited_fds() const override { return {lock_.fd()}; }
  std::vector<fs::path> files() const override { return {lock_.path()}; }
  void publish(const fs::path& path, std::string_view content) override {
    write_file_atomic(path, content);
  }

 private:
  KeyLock lock_;
};

class LockClaims : public Claims {
 public:
  explicit LockClaims(fs::path results) : Claims(std::move(results)) {}
  ClaimKind kind() const override { return ClaimKind::kLocks; }

  std::shared_ptr<Claim> try_acquire(const std::string& experiment, const std::string& key,
                                     std::string* holder) override {
    std::optional<KeyLock> lock =
        KeyLock::try_acquire(ResultStore(results_).lock_path(experiment, key), holder);
    if (!lock) return nullptr;
    // Behind the lock: who turns to leases looks for locks afterwards.
    if (std::error_code error; fs::exists(results_ / kLeasesFolder, error)) {
      throw InputError({finding(results_, {}, "others measure here with leases since this began",
                                "to be called again, which uses leases then")});
    }
    return std::make_shared<LockClaim>(std::move(*lock));
  }

  std::optional<std::string> holder(const std::string& experiment,
                                    const std::string& key) const override {
    return lock_holder(ResultStore(results_).lock_path(experiment, key));
  }

  void remove_leftovers(const std::string& experiment) override {
    sftbench::remove_leftovers(results_ / experiment);
  }

  double look_again_s() const override { return kLookAtLocksSeconds; }
};

// Seconds between a date of the folder's file system and this host's time: for people.
double age_of(const fs::path& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return std::max(0.0, std::difftime(std::time(nullptr), status.st_mtim.tv_sec));
}

SeenClaim seen_lock(const fs::path& path, const std::string& holder) {
  SeenClaim claim;
  claim.experiment = path.parent_path().filename().string();
  claim.key = path.stem().string();
  const std::string separator = ", process ";
  const size_t at = holder.rfind(separator);
  claim.host = holder.substr(0, at);
  if (at != std::string::npos) {
    const char* begin = holder.data() + at + separator.size();
    std::from_chars(begin, holder.data() + holder.size(), claim.process);
  }
  claim.age_s = age_of(path);
  return claim;
}

void list_locks(const fs::path& results, std::vector<SeenClaim>& claims) {
  std::error_code error;
  for (fs::directory_iterator folder(results, error), end; !error && folder != end;
       folder.increment(error)) {
    // Of a hundred thousand names few are locks: readdir alone, no iterator that makes paths.
    DIR* stream = ::opendir(folder->path().c_str());
    while (const dirent* entry = stream == nullptr ? nullptr : ::readdir(stream)) {
      const std::string_view name = entry->d_name;
      if (name.size() < 5 || name.substr(name.size() - 5) != ".lock") continue;
      const fs::path path = folder->path() / name;
      if (const auto holder = lock_holder(path)) claims.push_back(seen_lock(path, *holder));
    }
    if (stream != nullptr) ::closedir(stream);
  }
}

void list_leases(const fs::path& leases, std::vector<SeenClaim>& claims) {
  for (const std::string& name : lease_names(leases)) {
    if (name.front() == '.') continue;
    const std::optional<LeaseText> lease = read_lease(leases, name);
    if (!lease) continue;
    SeenClaim claim;
    claim.experiment = lease->experiment;
    claim.key = lease->key;
    claim.host = lease->host;
    claim.process = lease->process;
    claim.lease_s = lease->lease_s;
    claim.age_s = age_of(leases / name);
    claim.silent_s = age_of(leases / name / (lease->token + ".claim"));
    claims.push_back(std::move(claim));
  }
}

// Locks and leases look at one another after they have begun, so that one of them sees the other.
void require_no_locks(const fs::path& results) {
  std::vector<SeenClaim> locks;
  list_locks(results, locks);
  if (locks.empty()) return;
  std::error_code ignored;
  fs::remove(results / kLeasesFolder, ignored);
  throw InputError({finding(results, "--locking",
                            locks.front().host + ", process " +
                                std::to_string(locks.front().process) + " measures here with locks",
                            "to be called again when that has ended, or with --locking locks")});
}

}  // namespace

std::shared_ptr<Claim> Claims::acquire(const std::string& experiment, const std::string& key) {
  std::string holder;
  if (std::shared_ptr<Claim> claim = try_acquire(experiment, key, &holder)) return claim;
  throw key_busy(ResultStore(results_).result_path(experiment, key), holder);
}

std::unique_ptr<Claims> make_claims(const fs::path& results, ClaimKind kind, double lease_s) {
  if (kind == ClaimKind::kLocks) return std::make_unique<LockClaims>(results);
  std::error_code error;
  const bool new_here = !fs::exists(results / kLeasesFolder, error);
  auto claims = std::make_unique<LeaseClaims>(results, lease_s);
  if (new_here) require_no_locks(results);
  return claims;
}

std::vector<SeenClaim> list_claims(const fs::path& results) {
  std::vector<SeenClaim> claims;
  list_locks(results, claims);
  list_leases(results / kLeasesFolder, claims);
  std::sort(claims.begin(), claims.end(),
            [](const SeenClaim& a, const SeenClaim& b) { return a.key < b.key; });
  return claims;
}

}  // namespace sftbench
