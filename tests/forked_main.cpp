// The main function of suites that link libtorch. With --each-in-a-process as its first argument it
// runs every chosen test in a process of its own, forked from this one: loading libtorch takes half
// a second, longer than most tests, and is done once. Each child begins as a fresh process would:
// no test has computed, started a thread or set a variable before it, and ranks can be forked from
// it.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

namespace {

constexpr int skipped_status = 77;  // SKIP_RETURN_CODE in discover_suites.cmake

// The tests that the filter and the shard choose. Google Test knows them only after it was asked to
// run or to list them.
std::vector<std::string> chosen_tests() {
  std::fflush(stdout);
  const int own_stdout = ::dup(STDOUT_FILENO);
  if (!std::freopen("/dev/null", "w", stdout)) std::abort();
  GTEST_FLAG_SET(list_tests, true);
  if (RUN_ALL_TESTS() != 0) std::abort();
  GTEST_FLAG_SET(list_tests, false);
  std::fflush(stdout);
  ::dup2(own_stdout, STDOUT_FILENO);
  ::close(own_stdout);

  std::vector<std::string> names;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j)
      if (const testing::TestInfo& test = *suite.GetTestInfo(j); test.should_run())
        names.push_back(std::string(suite.name()) + "." + test.name());
  }
  return names;
}

// In the child: runs one test and ends the process. A test that hangs is ended by SIGALRM after
// `limit_s`.
[[noreturn]] void run_alone(const std::string& name, pid_t parent, unsigned limit_s) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(EXIT_FAILURE);
  ::alarm(limit_s);
  ::unsetenv("GTEST_TOTAL_SHARDS");
  ::unsetenv("GTEST_SHARD_INDEX");
  GTEST_FLAG_SET(filter, name);
  int status = RUN_ALL_TESTS();
  if (status == 0 && testing::UnitTest::GetInstance()->skipped_test_count() > 0)
    status = skipped_status;
  // exit() runs destructors, which take a third of a second in a process with libtorch.
  std::fflush(nullptr);
  ::_exit(status);
}

int run_each_in_a_process() {
  const char* limit = std::getenv("SFTBENCH_TEST_LIMIT_S");
  const unsigned limit_s = limit ? static_cast<unsigned>(std::strtoul(limit, nullptr, 10)) : 600;
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  if (threads != 1) {
    std::fprintf(
        stderr,
        "this process has %td threads before its first test: a forked one would lack them\n",
        threads);
    return EXIT_FAILURE;
  }
  const std::vector<std::string> names = chosen_tests();
  if (names.empty() && std::getenv("GTEST_TOTAL_SHARDS") == nullptr) {
    std::fprintf(stderr, "the filter chooses no test\n");
    return EXIT_FAILURE;
  }
  std::vector<std::string> failures;
  std::size_t skipped = 0;
  const pid_t parent = ::getpid();
  for (const std::string& name : names) {
    std::printf("[ RUN      ] %s\n", name.c_str());
    std::fflush(stdout);
    const auto begin = std::chrono::steady_clock::now();
    const pid_t child = ::fork();
    if (child == 0) run_alone(name, parent, limit_s);
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child) {
      std::perror("cannot run a test in a process of its own");
      return EXIT_FAILURE;
    }
    const bool exited = WIFEXITED(status);
    const bool skips = exited && WEXITSTATUS(status) == skipped_status;
    const bool passed = exited && (WEXITSTATUS(status) == 0 || skips);
    skipped += skips;
    std::string outcome = passed ? skips ? "SKIPPED " : "      OK" : " FAILED ";
    if (!exited) outcome += " by signal " + std::to_string(WTERMSIG(status));
    if (!passed) failures.push_back(name);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("[ %s ] %s (%.2f s)\n", outcome.c_str(), name.c_str(), took.count());
  }
  std::printf("%zu tests, each in a process of its own: %zu failed, %zu skipped\n", names.size(),
              failures.size(), skipped);
  for (const std::string& name : failures) std::printf("  FAILED %s\n", name.c_str());
  if (!failures.empty()) return EXIT_FAILURE;
  return skipped > 0 && skipped == names.size() ? skipped_status : EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  const bool each = argc > 1 && std::strcmp(argv[1], "--each-in-a-process") == 0;
  if (each) GTEST_FLAG_SET(brief, true);  // read while Google Test is initialized
  testing::InitGoogleMock(&argc, argv);
  return each ? run_each_in_a_process() : RUN_ALL_TESTS();
}
