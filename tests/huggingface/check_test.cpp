#include "sftbench/huggingface/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "huggingface/fake_hub.h"
#include "huggingface/test_folder.h"
#include "sftbench/base/file.h"
#include "sftbench/huggingface/cache.h"
#include "sftbench/huggingface/fetch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kId = "org/small";

// A cache that was filled from a hub and then, in each test, comes to harm.
class CheckTest : public testing::Test {
 protected:
  CheckTest() {
    FakeHub hub;
    hub.models[kId] = small_model();
    FetchSettings settings;
    settings.cache = folder_;
    settings.endpoint.url = hub.url();
    const FetchedRepository model = fetch_repositories({{kId, kId}}, settings).repositories.at(0);
    snapshot_ = model.snapshot;
    size_bytes_ = model.size_bytes;
    blob_ = fs::canonical(snapshot_ / "model.safetensors");
  }
  ~CheckTest() override { fs::remove_all(folder_); }

  CheckedModel check(const std::string& id = kId) {
    return check_models({{id, id}}, folder_, 2, [](const CheckProgress&) {}).at(0);
  }
  void change_byte(const fs::path& path, size_t at) {
    std::string content = read_file(path);
    content.at(at) ^= 1;
    write_file_atomic(path, content);
  }

  fs::path folder_ = test_folder();
  fs::path snapshot_, blob_;
  uint64_t size_bytes_ = 0;
};

TEST_F(CheckTest, WhatWasFetchedIsRight) {
  const CheckedModel model = check();
  EXPECT_THAT(model.problems, IsEmpty());
  EXPECT_EQ(model.files, 3);
  EXPECT_EQ(model.size_bytes, size_bytes_);
  EXPECT_EQ(model.snapshot, snapshot_);
  EXPECT_THAT(cached_models(folder_), ElementsAre(kId));
}

TEST(HubIdTest, HasAtMostOneSlashAndIsNoPath) {
  for (const char* id : {"gpt2", "org/name", "a.b-c_d/e.f"}) EXPECT_TRUE(is_hub_id(id)) << id;
  for (const char* place :
       {"", "/a", "./a", "../a", "~/a", "a/", "a/b/", "a/b/c", "a/../b", "a..b"})
    EXPECT_FALSE(is_hub_id(place)) << place;
}

TEST_F(CheckTest, OneBitOfAWeightIsNoticed) {
  const std::string oid = blob_.filename();
  std::string content = read_file(blob_);
  content[100'000] ^= 1;
  write_file_atomic(blob_, content);
  const CheckedModel model = check();
  EXPECT_THAT(model.problems, ElementsAre("model.safetensors: its hash is " + sha256(content) +
                                          ", its name says " + oid));
  EXPECT_THAT(model.spoilt, ElementsAre(blob_));
}

TEST_F(CheckTest, OneBitOfASmallFileIsNoticed) {
  change_byte(fs::canonical(snapshot_ / "tokenizer.json"), 3);
  EXPECT_THAT(check().problems, ElementsAre(HasSubstr("tokenizer.json: its hash is ")));
}

TEST_F(CheckTest, AShortenedFileIsNoticedInItsHeaderToo) {
  fs::resize_file(blob_, 1000);
  const std::vector<std::string> problems = check().problems;
  EXPECT_THAT(problems, Contains(HasSubstr("model.safetensors: its hash is ")));
  EXPECT_EQ(problems.size(), 2u) << "hash and safetensors header";
}

TEST_F(CheckTest, WhatIsMissingIsNamed) {
  const std::string oid = blob_.filename();
  fs::remove(blob_);
  fs::remove(snapshot_ / "config.json");
  const CheckedModel model = check();
  EXPECT_THAT(model.problems, Contains("model.safetensors: its blob " + oid + " is not there"));
  EXPECT_THAT(model.problems, Contains("config.json is missing"));
  EXPECT_EQ(check("org/other").problems, std::vector<std::string>{"is not in " + folder_.string()});
}

TEST_F(CheckTest, ALinkThatLeadsElsewhereIsNotFollowed) {
  fs::remove(snapshot_ / "config.json");
  fs::create_symlink("/etc/hostname", snapshot_ / "config.json");
  EXPECT_THAT(check().problems,
              Contains("config.json leads to /etc/hostname, which is no blob of org/small"));
}

TEST_F(CheckTest, ACopyWithoutLinksCannotBeVerified) {
  const std::string config = read_file(snapshot_ / "config.json");
  fs::remove(snapshot_ / "config.json");
  write_file_atomic(snapshot_ / "config.json", config);
  EXPECT_THAT(check().problems, ElementsAre("config.json is no link to a blob, so its content "
                                            "cannot be verified"));
}

TEST_F(CheckTest, ProgressEndsWithEverything) {
  CheckProgress last;
  check_models({{kId, kId}}, folder_, 1, [&](const CheckProgress& progress) { last = progress; });
  EXPECT_EQ(last.done_bytes, size_bytes_);
  EXPECT_EQ(last.total_bytes, size_bytes_);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
