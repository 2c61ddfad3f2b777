#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "results/lease.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/results/claim.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

struct FileSystem {
  uint32_t magic;  // statfs(2)
  const char* name;
  bool local;  // one kernel sees all that happens to it
};

constexpr std::array kFileSystems = {
    FileSystem{0xef53, "ext4", true},          FileSystem{0x58465342, "xfs", true},
    FileSystem{0x9123683e, "btrfs", true},     FileSystem{0x01021994, "tmpfs", true},
    FileSystem{0x794c7630, "overlayfs", true}, FileSystem{0x2fc12fc1, "zfs", true},
    FileSystem{0xf2f52010, "f2fs", true},      FileSystem{0x858458f6, "ramfs", true},
    FileSystem{0xca451a4e, "bcachefs", true},  FileSystem{0x6969, "nfs", false},
    FileSystem{0xff534d42, "cifs", false},     FileSystem{0xfe534d42, "smb2", false},
    FileSystem{0x0bd00bd0, "lustre", false},   FileSystem{0x47504653, "gpfs", false},
    FileSystem{0x00c36400, "cephfs", false},   FileSystem{0x19830326, "beegfs", false},
    FileSystem{0x65735546, "fuse", false},     FileSystem{0x01021997, "9p", false},
    FileSystem{0x5346414f, "afs", false},      FileSystem{0x01161970, "gfs2", false},
    FileSystem{0x7461636f, "ocfs2", false},    FileSystem{0x20030528, "orangefs", false},
    FileSystem{0xaad7aaea, "panfs", false},
};

// The folder, or the nearest around it that is there: where it will be made.
fs::path standing(fs::path folder) {
  std::error_code error;
  folder = fs::absolute(folder, error);
  while (!fs::exists(folder, error) && folder.has_relative_path()) folder = folder.parent_path();
  return folder;
}

FileSystem file_system_of(const fs::path& folder) {
  struct statfs found = {};
  if (::statfs(folder.c_str(), &found) != 0) return {0, "unknown", false};
  const auto magic = static_cast<uint32_t>(found.f_type);
  for (const FileSystem& known : kFileSystems) {
    if (known.magic == magic) return known;
  }
  return {magic, "unknown", false};
}

bool lock_whole(int fd, short type) {
  struct flock whole_file = {};
  whole_file.l_type = type;
  whole_file.l_whence = SEEK_SET;
  return ::fcntl(fd, F_OFD_SETLK, &whole_file) == 0;
}

// What keeps locks from holding claims here; empty: nothing.
std::string problem_with_locks(const fs::path& folder) {
  const fs::path path = folder / (".lock-probe." + std::to_string(::getpid()));
  const OwnedFd first(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!first) return std::string("a file cannot be made: ") + std::strerror(errno);
  const OwnedFd second(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  ::unlink(path.c_str());
  if (!second) return std::string("a file cannot be opened again: ") + std::strerror(errno);
  if (!lock_whole(first.get(), F_WRLCK)) return std::string("cannot lock: ") + std::strerror(errno);
  return lock_whole(second.get(), F_WRLCK) ? "a lock does not keep a second open file out" : "";
}

ClaimChoice choose_by_probing(const fs::path& folder, const FileSystem& file_system) {
  if (!file_system.local) {
    const bool known = file_system.name != std::string_view("unknown");
    return {ClaimKind::kLeases, file_system.name,
            known ? "other hosts may share it" : "its type is not known"};
  }
  const std::string problem = problem_with_locks(folder);
  if (problem.empty()) return {ClaimKind::kLocks, file_system.name, "a local disk, locks work"};
  return {ClaimKind::kLeases, file_system.name, problem};
}

[[noreturn]] void refuse_wish(std::string message, std::string expected, std::string nearest = {}) {
  throw InputError(
      {{{}, 0, "--locking", std::move(message), std::move(expected), std::move(nearest)}});
}

}  // namespace

std::string to_string(const ClaimChoice& choice) {
  const char* kind = choice.kind == ClaimKind::kLocks ? "locks" : "leases";
  return std::string(kind) + " (" + choice.file_system + ")";
}

ClaimChoice choose_claims(const fs::path& results, const std::string& wish) {
  const std::vector<std::string> wishes = {"auto", "locks", "leases"};
  const bool locks = wish == "locks", leases = wish == "leases";
  if (!locks && !leases && wish != "auto") {
    refuse_wish("found '" + wish + "'", "one of " + join(wishes), nearest_spelling(wish, wishes));
  }
  const fs::path folder = standing(results);
  const FileSystem file_system = file_system_of(folder);
  std::error_code error;
  if (fs::exists(results / kLeasesFolder, error)) {
    if (!locks) return {ClaimKind::kLeases, file_system.name, "others have begun with leases"};
    refuse_wish("found locks, and " + (results / kLeasesFolder).string() +
                    " says that others work there with leases",
                "leases, or that folder removed while nobody measures");
  }
  if (leases) return {ClaimKind::kLeases, file_system.name, "as asked for"};
  if (!locks) return choose_by_probing(folder, file_system);
  if (const std::string problem = problem_with_locks(folder); !problem.empty()) {
    refuse_wish("found locks, and in " + folder.string() + " " + problem, "leases");
  }
  return {ClaimKind::kLocks, file_system.name, "as asked for"};
}

}  // namespace sftbench
