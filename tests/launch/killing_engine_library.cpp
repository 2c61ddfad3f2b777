// The real engine, whose library is named by REAL_ENGINE, for tests of ranks that are killed while
// they train: the rank that comes to KILLED_AT ("rank 1 in the backward pass of step 2") stays
// there long enough for a sign of life, and is ended from outside.
#include <dlfcn.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/engine/engine.h"
#include "sftbench_interfaces.h"

namespace sftbench {
namespace {

constexpr std::chrono::milliseconds kLongerThanAnAlivePeriod{1300};

void* symbol_of_real_engine(const char* name) {
  static void* const library = ::dlopen(std::getenv("REAL_ENGINE"), RTLD_NOW | RTLD_LOCAL);
  check(library != nullptr, "the real engine can be loaded");
  return ::dlsym(library, name);
}

// Says nothing of its own.
class DeadlyGroup : public RankGroup {
 public:
  DeadlyGroup(RankGroup& group, std::string deadly) : group_(group), deadly_(std::move(deadly)) {}

  void at(const std::string& where) override {
    group_.at(where);
    if ("rank " + std::to_string(rank()) + " " + where != deadly_) return;
    std::this_thread::sleep_for(kLongerThanAnAlivePeriod);
    std::raise(SIGKILL);
  }

  const RankPlace& place() const override { return group_.place(); }
  const std::vector<RankInfo>& ranks() const override { return group_.ranks(); }
  std::vector<std::string> all_gather(const std::string& text) override {
    return group_.all_gather(text);
  }
  void set(const std::string& key, const std::string& value) override { group_.set(key, value); }
  std::string get(const std::string& key) override { return group_.get(key); }
  RankFailure fail(const RankFailure& failure) override { return group_.fail(failure); }
  std::optional<RankFailure> failure() const override { return group_.failure(); }
  void on_failure(std::function<void(const RankFailure&)> wake) override {
    group_.on_failure(std::move(wake));
  }
  std::vector<std::string> whereabouts() const override { return group_.whereabouts(); }
  void leave() override { group_.leave(); }

 private:
  RankGroup& group_;
  const std::string deadly_;
};

class KillingEngine : public Engine {
 public:
  void train_job(const TrainingJob& job, RankGroup& group,
                 const std::vector<TrainObserver*>& observers,
                 const std::function<bool()>& interrupted) override {
    DeadlyGroup deadly(group, std::getenv("KILLED_AT"));
    real_->train_job(job, deadly, observers, interrupted);
  }
  Json environment() const override { return real_->environment(); }

 private:
  const std::unique_ptr<Engine> real_{
      reinterpret_cast<CreateEngineFunction>(symbol_of_real_engine(kCreateEngineSymbol))()};
};

}  // namespace
}  // namespace sftbench

extern "C" {

sftbench::Engine* sftbench_create_engine() {
  return new sftbench::KillingEngine;
}

const char* sftbench_engine_version() {
  return SFTBENCH_VERSION;
}

const char* sftbench_engine_interface() {
  return SFTBENCH_ENGINE_INTERFACE;
}

}  // extern "C"
