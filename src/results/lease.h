// One lease on disk: the folder RESULTS/.leases/KEY with a file TOKEN.claim in it, whose first line
// is a counter that its holder raises. The folder comes into being whole, by a rename that fails
// where another has the name and anything in it. So there is one holder of a key, and it is gone
// when its folder is.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/owned_fd.h"
#include "sftbench/results/claim.h"

namespace sftbench {

constexpr const char* kLeasesFolder = ".leases";

// What a lease says. `sign` differs after each renewal.
struct LeaseText {
  std::string token, sign;
  std::string experiment, key, host;
  int64_t process = 0;
  double lease_s = kLeaseSeconds;

  std::string holder() const { return host + ", process " + std::to_string(process); }
};

// That of KEY; nothing when nobody has one.
std::optional<LeaseText> read_lease(const std::filesystem::path& leases, const std::string& key);

// Names in RESULTS/.leases: keys, and ".KEY.TOKEN" of leases that never came into being.
std::vector<std::string> lease_names(const std::filesystem::path& leases);

// Removes what belongs to `token` from the lease of `key`, and the folder when nothing is left.
// From then on its holder can neither renew it nor write a result.
void break_lease(const std::filesystem::path& leases, const std::string& key,
                 const std::string& token);

class Lease : public Claim {
 public:
  // Nothing when somebody else has the key. InputError when the file system refuses.
  static std::shared_ptr<Lease> try_make(const std::filesystem::path& leases,
                                         const std::string& experiment, const std::string& key,
                                         double lease_s);
  ~Lease() override;

  std::vector<std::filesystem::path> files() const override;
  bool stands() const override { return stands_; }
  void publish(const std::filesystem::path& path, std::string_view content) override;

  // False, once, when it turns out that somebody else has taken it over. A file system that does
  // not answer leaves open who has it.
  bool renew();

  const std::string& key() const { return key_; }

 private:
  Lease(std::filesystem::path leases, std::string key, std::string token, OwnedFd folder)
      : leases_(std::move(leases)),
        key_(std::move(key)),
        token_(std::move(token)),
        folder_(std::move(folder)) {}
  [[noreturn]] void fail_as_lost();

  const std::filesystem::path leases_;
  const std::string key_, token_;
  OwnedFd folder_;  // not by name: the name may be another holder's
  uint64_t renewals_ = 0;
  std::atomic<bool> stands_ = true;
};

}  // namespace sftbench
