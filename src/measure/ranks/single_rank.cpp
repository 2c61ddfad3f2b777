#include <unistd.h>

#include <map>
#include <mutex>

#include "sftbench/base/environment.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {
namespace {

class SingleRank : public RankGroup {
 public:
  SingleRank() { ranks_.push_back({.host = host_name(), .pid = ::getpid()}); }

  // Hosts differ, so that nobody takes the one device for one that ranks share.
  SingleRank(int world_size, int nodes) : rehearses_(true) {
    const int per_node = world_size / nodes;
    place_.world_size = world_size;
    place_.local_size = per_node;
    place_.nodes = nodes;
    for (int rank = 0; rank < world_size; ++rank) {
      ranks_.push_back({.rank = rank,
                        .local_rank = rank % per_node,
                        .node = rank / per_node,
                        .host = host_name() + "/" + std::to_string(rank),
                        .pid = ::getpid()});
    }
  }

  const RankPlace& place() const override { return place_; }
  const std::vector<RankInfo>& ranks() const override { return ranks_; }
  std::vector<std::string> all_gather(const std::string& text) override {
    return std::vector<std::string>(ranks_.size(), text);
  }

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
  bool rehearses() const override { return rehearses_; }
  void leave() override {}

 private:
  const bool rehearses_ = false;
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

std::unique_ptr<RankGroup> make_lone_rank(int world_size, int nodes) {
  return std::make_unique<SingleRank>(world_size, nodes);
}

}  // namespace sftbench
