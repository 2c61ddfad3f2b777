// What the tests of fetching start from.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "huggingface/fake_hub.h"
#include "huggingface/test_folder.h"
#include "sftbench/huggingface/cache.h"
#include "sftbench/huggingface/fetch.h"

namespace sftbench {

inline constexpr const char* kId = "org/small";
inline constexpr const char* kCommit = "1234567890abcdef1234567890abcdef12345678";

// A hub with one small model, an empty cache, and settings that do not wait long.
class FetchTest : public testing::Test {
 protected:
  FetchTest() {
    hub_.models[kId] = small_model();
    settings_.cache = folder_ / "hub";
    settings_.endpoint.url = hub_.url();
    settings_.first_wait_s = 0.01;
    settings_.retries = 3;
    settings_.progress_s = 0.01;
    settings_.log = [this](FetchLog, const std::string& text) { log_ += text + "\n"; };
  }
  ~FetchTest() override { std::filesystem::remove_all(folder_); }

  FetchedRepository fetch(const std::string& id = kId, const std::string& revision = "main") {
    return fetch_repositories({{id, id, revision}}, settings_).repositories.at(0);
  }
  FakeFile& weights() { return hub_.models[kId].files["model.safetensors"]; }
  HubRepository repository() const { return {settings_.cache, kId}; }
  std::filesystem::path weights_blob() { return repository().blob(FakeHub::oid(weights())); }
  std::vector<std::string> names_in(const std::filesystem::path& folder) const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  // The CDN's answer to the nth request of the weights: the file, changed by `change`.
  void change_weights_reply(const std::function<void(ServedReply&, int nth)>& change) {
    hub_.cdn_fault = [this, change](const ServedRequest&, int nth) {
      ServedReply reply{200, {}, weights().content};
      change(reply, nth);
      return std::optional(reply);
    };
  }
  void answer_listing(int status, std::map<std::string, std::string> headers, std::string body) {
    hub_.fault = [=](const ServedRequest& request, int) -> std::optional<ServedReply> {
      if (request.target.rfind("/api/", 0) != 0) return std::nullopt;
      return ServedReply{status, headers, body};
    };
  }

  std::filesystem::path folder_ = test_folder();
  FakeHub hub_;
  FetchSettings settings_;
  std::string log_;
};

}  // namespace sftbench
