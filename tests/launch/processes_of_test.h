// Which processes a test has started, directly or not: those that have a mark of its own in their
// environment.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "sftbench/base/clock.h"

namespace sftbench {

class ProcessesOfTest {
 public:
  ProcessesOfTest() {
    static std::atomic<int> tests = 0;
    mark_ = std::to_string(::getpid()) + "." + std::to_string(++tests);
  }

  std::pair<std::string, std::string> variable() const { return {kName, mark_}; }

  // Zombies are dead: whether somebody waits for an orphan is the machine's business.
  std::vector<pid_t> alive() const {
    std::vector<pid_t> found;
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::stringstream environment;
      environment << '\0' << std::ifstream(entry.path() / "environ").rdbuf();
      std::string wanted(1, '\0');
      wanted += std::string(kName) + "=" + mark_ + '\0';
      if (environment.str().find(wanted) == std::string::npos) continue;
      std::ifstream stat(entry.path() / "stat");
      std::string number, command, state;
      stat >> number >> command >> state;
      if (state != "Z" && state != "X") found.push_back(std::stoi(name));
    }
    return found;
  }

  bool become(size_t count, double within_s) const {
    const double until_s = steady_seconds() + within_s;
    while (alive().size() != count) {
      if (steady_seconds() > until_s) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

 private:
  static constexpr const char* kName = "SFTBENCH_PROCESSES_OF_TEST";
  std::string mark_;
};

}  // namespace sftbench
