#include "cluster/job_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "sftbench/base/error.h"
#include "sftbench/base/owned_fd.h"
#include "sftbench/base/quantity_text.h"

namespace sftbench {
namespace {

constexpr size_t kLeastCharacters = 16;
constexpr size_t kMostCharacters = 4096;
constexpr const char* kOpenMpiKey = "OMPI_MCA_orte_precondition_transports";
constexpr const char* kHowToMakeOne = "at least 16 characters, as of: openssl rand -hex 32";

[[noreturn]] void refuse(const std::string& file, const std::string& variable,
                         const std::string& problem, const std::string& expected) {
  throw InputError({{file, 0, variable, problem, expected, {}}});
}

std::string text(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

void require_length(const std::string& file, const char* variable, const std::string& secret) {
  if (secret.size() >= kLeastCharacters && secret.size() <= kMostCharacters) return;
  refuse(file, variable, "a secret of " + counted(std::ssize(secret), "character"), kHowToMakeOne);
}

// Of the file that is open: its name may lead elsewhere in the next moment.
void require_private(int fd, const std::string& file) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    refuse(file, kSecretFileVariable, "is not a regular file", "a file with the job's secret");
  }
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    refuse(file, kSecretFileVariable, "belongs to another user", "a file of your own");
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    refuse(file, kSecretFileVariable, "others may read or write it", "chmod 600 " + file);
  }
}

std::string secret_in(const std::string& file) {
  const OwnedFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) {
    refuse(file, kSecretFileVariable, std::strerror(errno), "a file that all ranks can read");
  }
  require_private(fd.get(), file);
  std::array<char, kMostCharacters + 2> bytes{};
  const ssize_t got = ::read(fd.get(), bytes.data(), bytes.size());
  std::string secret(bytes.data(), static_cast<size_t>(got > 0 ? got : 0));
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  require_length(file, kSecretFileVariable, secret);
  return secret;
}

// "0123456789abcdef-0123456789abcdef" of random digits. Without mpirun (srun, singletons) Open MPI
// makes it of the job's number, and then halves of it are zeros.
std::string mpirun_key(const Environment& environment) {
  constexpr size_t kHalf = 16;
  const std::string key = text(environment, kOpenMpiKey);
  if (text(environment, "OMPI_COMM_WORLD_RANK").empty() || key.size() != 2 * kHalf + 1) return {};
  const bool of_numbers =
      key.find("00000000") != std::string::npos || key.substr(0, kHalf) == key.substr(kHalf + 1);
  return of_numbers ? "" : key;
}

}  // namespace

std::string job_secret(const Environment& environment) {
  const std::string given = text(environment, kSecretVariable);
  const std::string file = text(environment, kSecretFileVariable);
  if (!given.empty() && !file.empty()) {
    refuse({}, kSecretVariable, std::string("is set, and so is ") + kSecretFileVariable,
           "one of the two");
  }
  if (!file.empty()) return secret_in(file);
  if (given.empty()) return mpirun_key(environment);
  require_length({}, kSecretVariable, given);
  return given;
}

std::string job_secret_source(const Environment& environment) {
  if (job_secret(environment).empty()) return {};
  for (const char* variable : {kSecretVariable, kSecretFileVariable}) {
    if (!text(environment, variable).empty()) return variable;
  }
  return "mpirun's key";
}

}  // namespace sftbench
