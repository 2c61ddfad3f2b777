#include "results/lease.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "sftbench/base/clock.h"
#include "sftbench/base/environment.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/shared_file.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kClaimEnding = ".claim";
constexpr size_t kMostClaimBytes = 64 << 10;
// Each fails only when its holder has written once more between two of our calls.
constexpr int kMostBreakTries = 1000;

[[noreturn]] void fail_with_errno(const fs::path& path, const std::string& what) {
  const int error = errno;
  throw InputError(path.string() + ": cannot " + what + ": " + std::strerror(error));
}

// A name that nobody has had or will have.
std::string make_token() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw InputError(std::string("no random numbers: ") + std::strerror(errno));
  }
  std::string token;
  for (const unsigned char byte : bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", byte);
    token += digits.data();
  }
  return token;
}

std::string counter_text(uint64_t renewals) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%020llu\n", static_cast<unsigned long long>(renewals));
  return text.data();
}

std::string claim_text(const std::string& experiment, const std::string& key, double lease_s) {
  const Json about = {{"experiment", experiment},   {"key", key},
                      {"host", host_name()},        {"process", ::getpid()},
                      {"since", utc_now_iso8601()}, {"lease_s", lease_s}};
  return counter_text(0) + json_text(about) + "\n";
}

bool is_claim_file(std::string_view name) {
  return name.size() > kClaimEnding.size() &&
         name.substr(name.size() - kClaimEnding.size()) == kClaimEnding;
}

std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  const int copy = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = copy < 0 ? nullptr : ::fdopendir(copy);
  if (stream == nullptr) {
    if (copy >= 0) ::close(copy);
    return names;
  }
  while (const dirent* entry = ::readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(stream);
  return names;
}

OwnedFd open_folder(const fs::path& path) {
  return OwnedFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

std::string read_small_file(int folder, const std::string& name) {
  const OwnedFd file(
      ::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::string text(kMostClaimBytes, '\0');
  const ssize_t length = file ? ::pread(file.get(), text.data(), text.size(), 0) : 0;
  text.resize(length > 0 ? static_cast<size_t>(length) : 0);
  return text;
}

void read_about(const std::string& text, LeaseText& lease) {
  const size_t begin = text.find('\n');
  if (begin == std::string::npos) return;
  try {
    const Json about = parse_json(text.substr(begin + 1), "a claim");
    lease.experiment = fs::path(about.value("experiment", std::string())).filename().string();
    lease.host = about.value("host", std::string("another host"));
    lease.process = about.value("process", int64_t{0});
    lease.lease_s = about.value("lease_s", kLeaseSeconds);
  } catch (const std::exception&) {  // foreign or cut off: it expires like any other
    lease.host = "another host";
  }
}

// Of one token, or all.
void remove_entries(int folder, const std::string& token) {
  for (const std::string& name : names_in(folder)) {
    if (name.rfind(token, 0) == 0) ::unlinkat(folder, name.c_str(), 0);
  }
}

bool is_not_there(int error) {
  return error == ENOENT || error == ESTALE || error == ENOTDIR;
}

// The whole lease, before it has its name.
OwnedFd prepare(const fs::path& folder, const std::string& token, const std::string& text) {
  if (::mkdir(folder.c_str(), 0777) != 0) fail_with_errno(folder, "make the folder of a lease");
  OwnedFd opened = open_folder(folder);
  const OwnedFd file(opened ? ::openat(opened.get(), (token + std::string(kClaimEnding)).c_str(),
                                       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)
                            : -1);
  if (file && write_whole(file.get(), text)) return opened;
  const int error = errno;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  errno = error;
  fail_with_errno(folder, "write a lease");
}

bool holds_token(const fs::path& folder, const std::string& token) {
  struct stat status = {};
  return ::stat((folder / (token + std::string(kClaimEnding))).c_str(), &status) == 0;
}

}  // namespace

std::optional<LeaseText> read_lease(const fs::path& leases, const std::string& key) {
  const OwnedFd folder = open_folder(leases / key);
  if (!folder) return std::nullopt;
  for (const std::string& name : names_in(folder.get())) {
    if (!is_claim_file(name)) continue;
    LeaseText lease;
    lease.key = key;
    lease.token = name.substr(0, name.size() - kClaimEnding.size());
    const std::string text = read_small_file(folder.get(), name);
    lease.sign = lease.token + text.substr(0, text.find('\n'));
    read_about(text, lease);
    return lease;
  }
  return std::nullopt;
}

std::vector<std::string> lease_names(const fs::path& leases) {
  const OwnedFd folder = open_folder(leases);
  return folder ? names_in(folder.get()) : std::vector<std::string>();
}

void break_lease(const fs::path& leases, const std::string& key, const std::string& token) {
  const OwnedFd folder = open_folder(leases / key);
  if (!folder) return;
  // Its holder may wake up in between, and write once more to its folder.
  for (int tries = 0; tries < kMostBreakTries; ++tries) {
    remove_entries(folder.get(), token);
    if (::rmdir((leases / key).c_str()) == 0 || is_not_there(errno)) return;
    for (const std::string& name : names_in(folder.get())) {
      if (name.rfind(token, 0) != 0) return;  // the next holder's
    }
  }
}

std::shared_ptr<Lease> Lease::try_make(const fs::path& leases, const std::string& experiment,
                                       const std::string& key, double lease_s) {
  const std::string token = make_token();
  const fs::path prepared = leases / ("." + key + "." + token), place = leases / key;
  OwnedFd folder = prepare(prepared, token, claim_text(experiment, key, lease_s));
  // Without this, a file system that does not replace empty folders would never get rid of one.
  if (::rmdir(place.c_str()) != 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST) {
    const int error = errno;
    std::error_code ignored;
    fs::remove_all(prepared, ignored);
    if (error == ENOTDIR)
      throw NameTaken(place, "make a lease", "no folder stands there; remove it");
    errno = error;
    fail_with_errno(place, "make a lease");
  }
  const bool renamed = ::rename(prepared.c_str(), place.c_str()) == 0;
  const int error = errno;
  // A server that was asked twice says no to the second, and means the first.
  if (renamed || holds_token(place, token)) {
    return std::shared_ptr<Lease>(new Lease(leases, key, token, std::move(folder)));
  }
  std::error_code ignored;
  fs::remove_all(prepared, ignored);
  if (error == EEXIST || error == ENOTEMPTY || error == ENOENT) return nullptr;
  errno = error;
  fail_with_errno(place, "make a lease");
}

Lease::~Lease() {
  remove_entries(folder_.get(), token_);
  ::rmdir((leases_ / key_).c_str());  // fails where it is the next holder's
}

std::vector<fs::path> Lease::files() const {
  return {leases_ / key_, leases_ / key_ / (token_ + std::string(kClaimEnding))};
}

bool Lease::renew() {
  if (!stands_) return true;
  const OwnedFd file(::openat(folder_.get(), (token_ + std::string(kClaimEnding)).c_str(),
                              O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) {
    if (!is_not_there(errno)) return true;
    stands_ = false;
    return false;
  }
  const std::string text = counter_text(++renewals_);
  [[maybe_unused]] const ssize_t written = ::pwrite(file.get(), text.data(), text.size(), 0);
  return true;
}

void Lease::fail_as_lost() {
  stands_ = false;
  const std::optional<LeaseText> now = read_lease(leases_, key_);
  throw ClaimLost("this process did not renew its claim in time, and " +
                  (now ? now->holder() + " has taken it over" : "it was taken over"));
}

void Lease::publish(const fs::path& path, std::string_view content) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const std::string name = token_ + "." + path.filename().string();
  const OwnedFd file(::openat(folder_.get(), name.c_str(),
                              O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file && is_not_there(errno)) fail_as_lost();
  if (!file || !write_whole(file.get(), content) || ::fsync(file.get()) != 0) {
    const int cause = errno;
    ::unlinkat(folder_.get(), name.c_str(), 0);
    errno = cause;
    fail_with_errno(path, "write");
  }
  if (::renameat(folder_.get(), name.c_str(), AT_FDCWD, path.c_str()) != 0) {
    const int cause = errno;
    const bool there = ::faccessat(folder_.get(), name.c_str(), F_OK, 0) == 0;
    if (!there) fail_as_lost();
    ::unlinkat(folder_.get(), name.c_str(), 0);
    errno = cause;
    fail_with_errno(path, "write");
  }
  const OwnedFd parent(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent) ::fsync(parent.get());
}

}  // namespace sftbench
