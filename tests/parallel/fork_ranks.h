// A rank group for tests: files in a folder instead of connections. What rank_processes.h gives the
// processes that it forks, so that communicators are tested without the program's own rendezvous.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {

class FileRankGroup : public RankGroup {
 public:
  FileRankGroup(std::filesystem::path folder, RankPlace place, std::vector<RankInfo> ranks)
      : folder_(std::move(folder)), place_(std::move(place)), ranks_(std::move(ranks)) {}

  ~FileRankGroup() override {
    ended_ = true;
    if (listener_.joinable()) listener_.join();
  }

  const RankPlace& place() const override { return place_; }
  const std::vector<RankInfo>& ranks() const override { return ranks_; }

  std::vector<std::string> all_gather(const std::string& text) override {
    const std::string round = "all_gather" + std::to_string(gathered_++) + "/";
    set(round + std::to_string(rank()), text);
    std::vector<std::string> texts;
    for (int r = 0; r < world_size(); ++r) texts.push_back(get(round + std::to_string(r)));
    return texts;
  }

  void set(const std::string& key, const std::string& value) override {
    write(folder_, "value_" + file_name(key), value);
  }

  std::string get(const std::string& key) override {
    const double end_s = steady_seconds() + place_.communication_timeout_s;
    for (;;) {
      if (const auto value = read(folder_ / ("value_" + file_name(key)))) return *value;
      if (const auto failed = failure()) throw error_of(*failed, ranks_);
      if (steady_seconds() > end_s) {
        throw RunError(ReasonCode::kNccl, "rank " + std::to_string(rank()) + " waits for '" + key +
                                              "', which no rank has set");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  RankFailure fail(const RankFailure& failure) override {
    report(folder_, failure);
    return *this->failure();
  }

  std::optional<RankFailure> failure() const override {
    const auto text = read(folder_ / "failure");
    if (!text) return std::nullopt;
    std::istringstream lines(*text);
    RankFailure failure;
    int code = 0;
    lines >> failure.rank >> code;
    lines.ignore();
    std::getline(lines, failure.message);
    failure.code = static_cast<ReasonCode>(code);
    return failure;
  }

  void on_failure(std::function<void(const RankFailure&)> wake) override {
    listener_ = std::thread([this, wake] {
      while (!ended_) {
        if (const auto failed = failure()) return wake(*failed);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    });
  }

  void leave() override { all_gather(""); }

  // The first report counts.
  static void report(const std::filesystem::path& folder, const RankFailure& failure) {
    if (std::filesystem::exists(folder / "failure")) return;
    write(folder, "failure",
          std::to_string(failure.rank) + " " + std::to_string(static_cast<int>(failure.code)) +
              "\n" + failure.message);
  }

 private:
  static std::string file_name(std::string key) {
    for (char& letter : key) {
      if (letter == '/') letter = '~';
    }
    return key;
  }

  static void write(const std::filesystem::path& folder, const std::string& name,
                    const std::string& text) {
    const auto temporary = folder / (name + ".of." + std::to_string(::getpid()));
    std::ofstream(temporary, std::ios::binary) << text;
    std::filesystem::rename(temporary, folder / name);
  }

  static std::optional<std::string> read(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) return std::nullopt;
    std::ostringstream text;
    text << stream.rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
  RankPlace place_;
  std::vector<RankInfo> ranks_;
  int gathered_ = 0;
  std::atomic<bool> ended_{false};
  std::thread listener_;
};

}  // namespace sftbench
