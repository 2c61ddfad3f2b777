#include "sftbench/data/token_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;

class TokenCacheTest : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }

  TokenCountCache filled() {
    TokenCountCache cache(folder_, key_);
    cache.set(0, 17);
    cache.set(2, 0);
    cache.save();
    return cache;
  }

  // Changes the file by hand and says whether a new cache still trusts it.
  bool trusted_after(const std::function<void(Json&)>& change) {
    const fs::path path = filled().path();
    Json json = read_json_file(path.string());
    change(json);
    write_file_atomic(path, json.dump());
    return TokenCountCache(folder_, key_).tokens(0).has_value();
  }

  fs::path folder_ =
      fs::path(::testing::TempDir()) / ("sftbench-tokens-" + std::to_string(::getpid()));
  TokenCacheKey key_{
      .tokenizer_digest = "t", .dataset_digest = "d", .text_field = "output", .entries = 3};
};

TEST_F(TokenCacheTest, RemembersWhatWasSaved) {
  filled();
  TokenCountCache again(folder_, key_);
  EXPECT_EQ(again.tokens(0), 17);
  EXPECT_EQ(again.tokens(1), std::nullopt);
  EXPECT_EQ(again.tokens(2), 0);
  EXPECT_FALSE(again.complete());
  again.set(1, 5);
  EXPECT_TRUE(again.complete());
}

TEST_F(TokenCacheTest, NothingIsWrittenUntilSomethingWasLearned) {
  TokenCountCache(folder_, key_).save();
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(TokenCacheTest, EachTokenizerDatasetAndFieldHasItsOwn) {
  filled();
  for (std::string TokenCacheKey::*part :
       {&TokenCacheKey::tokenizer_digest, &TokenCacheKey::dataset_digest,
        &TokenCacheKey::text_field}) {
    TokenCacheKey other = key_;
    other.*part = "another";
    EXPECT_EQ(TokenCountCache(folder_, other).tokens(0), std::nullopt);
  }
}

TEST_F(TokenCacheTest, CorruptOrForeignFilesAreNeverTrusted) {
  EXPECT_TRUE(trusted_after([](Json&) {}));
  EXPECT_FALSE(trusted_after([](Json& json) { json["tokens"][0] = 18; }));
  EXPECT_FALSE(trusted_after([](Json& json) { json["tokens"].push_back(1); }));
  EXPECT_FALSE(trusted_after([](Json& json) { json["tokens"] = "many"; }));
  EXPECT_FALSE(trusted_after([](Json& json) { json["tokens"][1] = 2.5; }));
  EXPECT_FALSE(trusted_after([](Json& json) { json["dataset"] = "another"; }));
  EXPECT_FALSE(trusted_after([](Json& json) { json["schema"] = "sftbench.token_counts/1"; }));
  EXPECT_FALSE(trusted_after([](Json& json) { json.erase("digest"); }));
  EXPECT_FALSE(trusted_after([](Json& json) { json.erase("tokens"); }));
  EXPECT_FALSE(trusted_after([](Json& json) { json = Json::array({1, 2}); }));
}

TEST_F(TokenCacheTest, TruncatedFileIsCountedAgainAndWrittenOver) {
  const fs::path path = filled().path();
  fs::resize_file(path, fs::file_size(path) / 2);
  TokenCountCache cache(folder_, key_);
  EXPECT_EQ(cache.tokens(0), std::nullopt);
  cache.set(0, 9);
  cache.save();
  EXPECT_EQ(TokenCountCache(folder_, key_).tokens(0), 9);
}

TEST_F(TokenCacheTest, FolderThatCannotBeWrittenIsNamed) {
  TokenCountCache cache("/dev/full", key_);
  cache.set(0, 1);
  try {
    cache.save();
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("/dev/full"));
  }
}

TEST_F(TokenCacheTest, TokenizerDigestDependsOnAllFilesThatDecideIds) {
  write_file_atomic(folder_ / "tokenizer.json", "{}");
  const std::string alone = tokenizer_digest(folder_);
  write_file_atomic(folder_ / "tokenizer_config.json", "{}");
  const std::string with_config = tokenizer_digest(folder_);
  write_file_atomic(folder_ / "tokenizer.json", "{ }");
  EXPECT_NE(alone, with_config);
  EXPECT_NE(with_config, tokenizer_digest(folder_));
  EXPECT_THROW(tokenizer_digest(folder_ / "none"), InputError);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
