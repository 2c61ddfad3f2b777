#include <unistd.h>

#include <map>
#include <mutex>

#include "sftbench/ranks/rank_group.h"

namespace sftbench {
namespace {

class SingleRank : public RankGroup {
 public:
  SingleRank() {
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    ranks_.push_back({.host = name, .pid = ::getpid()});
  }

  const RankPlace& place() const override { return place_; }
  const std::vector<RankInfo>& ranks() const override { return ranks_; }
  std::vector<std::string> all_gather(const std::string& text) override { return {text}; }

  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
  }

  // Nobody else could set it later.
  std::string get(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    check(found != values_.end(), "a rank alone asks for what it has set");
    return found->second;
  }

  RankFailure fail(const RankFailure& failure) override {
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    return failure;
  }

  std::optional<RankFailure> failure() const override {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

  void on_failure(std::function<void(const RankFailure&)>) override {}
  void leave() override {}

 private:
  RankPlace place_;
  std::vector<RankInfo> ranks_;
  mutable std::mutex mutex_;  // guards the rest
  std::map<std::string, std::string> values_;
  std::optional<RankFailure> failure_;
};

}  // namespace

std::unique_ptr<RankGroup> make_single_rank() {
  return std::make_unique<SingleRank>();
}

}  // namespace sftbench
