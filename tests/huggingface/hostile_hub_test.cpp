// A hub that means harm, or a cache that somebody else has written to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "huggingface/fetch_fixture.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/huggingface/check.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class HostileHubTest : public FetchTest {
 protected:
  void give_sizes(const Json& size) {
    hub_.change_listing = [=](Json& json) {
      for (Json& entry : json["siblings"])
        (entry.contains("lfs") ? entry["lfs"] : entry)["size"] = size;
    };
  }
  // Another byte in the middle, as a disk or somebody's program would leave it.
  void spoil(const fs::path& path) {
    std::string content = read_file(path);
    content[content.size() / 2] ^= 1;
    std::ofstream(path, std::ios::binary) << content;
  }
};

// --- sizes ---------------------------------------------------------------------------------------

TEST_F(HostileHubTest, SizesThatNoFileHasAreRefused) {
  for (const Json& size : {Json(-5), Json(1.5), Json(1e300), Json("200"), Json(uint64_t{1} << 51),
                           Json(~uint64_t{0}), Json::array(), Json(true)}) {
    give_sizes(size);
    EXPECT_EQ(fetch().problem, "the hub's list of the files of org/small gives " + size.dump() +
                                   " as the size of README.md; expected a whole number of bytes, "
                                   "at most 1125899906842624 (1 PiB)");
  }
  hub_.change_listing = [](Json& json) {
    for (Json& entry : json["siblings"]) {
      if (entry.contains("lfs")) entry["lfs"]["size"] = -5;
    }
  };
  EXPECT_THAT(fetch().problem, HasSubstr("gives -5 as the size of model.safetensors"))
      << "the size beside it is no way out";
  EXPECT_FALSE(fs::exists(repository().folder()));
}

TEST_F(HostileHubTest, SizesThatAddUpOverTheLargestNumberAreRefused) {
  hub_.change_listing = [](Json& json) {
    Json& files = json["siblings"];
    const std::string oid(40, 'a');
    for (int i = 0; i < (1 << 14); ++i) {  // of 2^50 bytes: 2^64 in all
      files.push_back({{"rfilename", "x" + std::to_string(i) + ".json"},
                       {"size", uint64_t{1} << 50},
                       {"blobId", oid}});
    }
  };
  EXPECT_EQ(fetch().problem,
            "the hub's list of the files of org/small gives sizes that add up to more than 1 EiB");
}

TEST_F(HostileHubTest, ModelsThatAddUpOverTheLargestNumberFindNoRoom) {
  hub_.change_listing = [](Json& json) {
    for (int i = 0; i < 1000; ++i) {
      const std::string number = std::to_string(i);
      json["siblings"].push_back({{"rfilename", "x" + number + ".json"},
                                  {"size", uint64_t{1} << 50},
                                  {"blobId", std::string(40 - number.size(), 'a') + number}});
    }
  };
  std::vector<FetchRequest> requests;
  for (int i = 0; i < 17; ++i) {
    const std::string id = "org/m" + std::to_string(i);
    hub_.models[id] = small_model(10);
    requests.push_back({id, id, "main"});
  }
  try {
    fetch_repositories(requests, settings_);
    FAIL() << "17,000 PiB were to come";
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), HasSubstr("17179869184.0 GiB are to come"));
  }
}

// --- lists and answers ---------------------------------------------------------------------------

TEST_F(HostileHubTest, ANameThatStandsTwiceIsRefused) {
  hub_.change_listing = [](Json& json) { json["siblings"].push_back(json["siblings"][0]); };
  EXPECT_EQ(fetch().problem, "the hub's list of the files of org/small names README.md twice");
}

TEST_F(HostileHubTest, AnIndexWithoutEndIsNotFetched) {
  FakeModel& model = hub_.models[kId];
  model.files.erase("model.safetensors");
  model.files["model.safetensors.index.json"] = {"{}"};
  hub_.change_listing = [](Json& json) {
    for (Json& entry : json["siblings"]) entry["size"] = uint64_t{1} << 40;
  };
  EXPECT_EQ(fetch().problem,
            "model.safetensors.index.json of org/small has 1099511627776 bytes by the hub's list; "
            "an index of shards has at most 67108864");
}

TEST_F(HostileHubTest, AListWithoutEndIsGivenUp) {
  answer_listing(200, {}, std::string(size_t{17} << 20, ' '));
  EXPECT_THAT(fetch().problem, HasSubstr("the answer does not end"));
}

TEST_F(HostileHubTest, AListThatIsNestedWithoutEndIsRefused) {
  answer_listing(200, {}, std::string(size_t{15} << 20, '['));
  EXPECT_THAT(fetch().problem, HasSubstr("nested deeper than"));
}

TEST_F(HostileHubTest, TheBodyOfAnErrorIsNotReadToItsEnd) {
  settings_.retries = 0;
  hub_.fault = [](const ServedRequest&, int) -> std::optional<ServedReply> {
    ServedReply reply{500, {}, std::string(size_t{1} << 28, 'x')};
    reply.piece_sleep_s = 0.05;  // 200 s
    return reply;
  };
  const double begin_s = steady_seconds();
  EXPECT_THAT(fetch().problem, HasSubstr("status 500 (xxx"));
  EXPECT_LT(steady_seconds() - begin_s, 10);
}

TEST_F(HostileHubTest, ARedirectWithABodyWithoutEndIsGivenUp) {
  settings_.retries = 0;
  hub_.fault = [this](const ServedRequest&, int) -> std::optional<ServedReply> {
    ServedReply reply{302, {{"Location", hub_.url() + "/x"}}, std::string(size_t{1} << 28, 'x')};
    reply.piece_sleep_s = 0.05;
    return reply;
  };
  const double begin_s = steady_seconds();
  EXPECT_THAT(fetch().problem, HasSubstr("redirects with a body that does not end"));
  EXPECT_LT(steady_seconds() - begin_s, 10);
}

TEST_F(HostileHubTest, HeadersWithoutEndAreGivenUp) {
  settings_.retries = 0;
  std::map<std::string, std::string> headers;
  for (int i = 0; i < 2000; ++i) headers["X-" + std::to_string(i)] = std::string(1000, 'x');
  answer_listing(200, headers, "{}");
  EXPECT_THAT(fetch().problem, testing::AnyOf(HasSubstr("sends headers without end"),
                                              HasSubstr("Too large response headers")));
}

TEST_F(HostileHubTest, ARedirectTakesTheTokenToNoOtherPortAndNoFile) {
  settings_.endpoint.token = "hf_secret";
  settings_.retries = 0;
  std::string seen = "nothing";
  const LoopbackServer other([&](const ServedRequest& request) {
    seen = request.header("authorization");
    return ServedReply{404, {}, ""};
  });
  answer_listing(302, {{"Location", other.url() + "/steal"}}, "");
  fetch();
  EXPECT_EQ(seen, "");
  answer_listing(302, {{"Location", "file:///etc/passwd"}}, "");
  EXPECT_THAT(fetch().problem, HasSubstr("redirects to an address that is not followed"));
  answer_listing(302, {{"Location", "/again"}}, "");
  hub_.fault = [](const ServedRequest&, int) {
    return std::optional(ServedReply{302, {{"Location", "/again"}}, ""});
  };
  EXPECT_THAT(fetch().problem, HasSubstr("redirects"));
  EXPECT_THAT(hub_.hub().requests(), SizeIs(testing::Le(20u)));
}

// --- what is in the cache already ----------------------------------------------------------------

TEST_F(HostileHubTest, ABlobOfTheRightSizeAndWrongBytesIsFetchedAgain) {
  fetch();
  for (const char* name : {"model.safetensors", "tokenizer.json"}) {
    const fs::path blob = fs::canonical(repository().snapshot(kCommit) / name);
    const std::string right = read_file(blob);
    spoil(blob);
    const FetchedRepository model = fetch();
    EXPECT_EQ(model.problem, "");
    EXPECT_EQ(model.transferred_bytes, right.size());
    EXPECT_EQ(read_file(blob), right);
    EXPECT_THAT(log_, HasSubstr(blob.string() + " is not what its name says; it is removed and "
                                                "fetched again"));
    EXPECT_EQ(fetch().transferred_bytes, 0u);
  }
}

TEST_F(HostileHubTest, ABlobThatCannotBeHadAgainDoesNotStay) {
  const fs::path snapshot = fetch().snapshot;
  const fs::path blob = weights_blob();
  spoil(blob);
  change_weights_reply([](ServedReply& reply, int) { reply.status = 404; });
  EXPECT_THAT(fetch().problem, HasSubstr("(status 404)"));
  EXPECT_FALSE(fs::exists(blob)) << "a run would train on it";
}

TEST_F(HostileHubTest, WhatAnotherProgramFetchedIsHashedOnceAndRemembered) {
  const FetchedRepository first = fetch();
  fs::remove_all(settings_.cache / ".locks");  // as if huggingface_hub had made the cache
  uint64_t read_bytes = 0;
  settings_.progress = [&](const FetchProgress& progress) { read_bytes = progress.total_bytes; };
  EXPECT_EQ(fetch().transferred_bytes, 0u);
  EXPECT_EQ(read_bytes, first.size_bytes);
  read_bytes = 0;
  EXPECT_EQ(fetch().problem, "");
  EXPECT_EQ(read_bytes, 0u);
}

TEST_F(HostileHubTest, ACopyWithoutLinksIsVerifiedToo) {
  const fs::path snapshot = fetch().snapshot;
  const std::string right = weights().content;
  fs::remove(snapshot / "model.safetensors");
  fs::copy_file(weights_blob(), snapshot / "model.safetensors");
  fs::remove(weights_blob());
  EXPECT_EQ(fetch().transferred_bytes, 0u);
  EXPECT_FALSE(fs::is_symlink(snapshot / "model.safetensors")) << "it stays as it is";
  spoil(snapshot / "model.safetensors");
  EXPECT_EQ(fetch().transferred_bytes, right.size());
  EXPECT_EQ(read_file(snapshot / "model.safetensors"), right);
}

TEST_F(HostileHubTest, ALinkThatLeadsOutOfTheCacheIsMadeAnew) {
  const fs::path snapshot = fetch().snapshot;
  const fs::path elsewhere = folder_ / "elsewhere" / weights_blob().filename();
  fs::create_directories(elsewhere.parent_path());
  std::ofstream(elsewhere) << std::string(weights().content.size(), 'x');
  fs::remove(snapshot / "model.safetensors");
  fs::create_symlink(elsewhere, snapshot / "model.safetensors");
  EXPECT_EQ(fetch().problem, "");
  EXPECT_EQ(read_file(snapshot / "model.safetensors"), weights().content);
  EXPECT_EQ(read_file(elsewhere), std::string(weights().content.size(), 'x'));
}

TEST_F(HostileHubTest, WhatCheckFoundWrongIsNoLongerRemembered) {
  fetch();
  const fs::path record =
      repository().lock(weights_blob().filename()).replace_extension(".verified");
  ASSERT_TRUE(fs::exists(record));
  spoil(weights_blob());
  EXPECT_THAT(check_models({{kId, kId}}, settings_.cache, 1, [](const CheckProgress&) {})[0].spoilt,
              ElementsAre(weights_blob()));
  EXPECT_FALSE(fs::exists(record));
}

TEST_F(HostileHubTest, AFolderBehindALinkIsNotPassedOverByCheck) {
  const fs::path snapshot = fetch().snapshot;
  fs::create_directories(folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", snapshot / "shards");
  EXPECT_THAT(
      check_models({{kId, kId}}, settings_.cache, 1, [](const CheckProgress&) {})[0].problems,
      ElementsAre(HasSubstr("shards leads to " + (folder_ / "elsewhere").string())));
}

TEST_F(HostileHubTest, AReferenceThatLeadsOutOfTheSnapshotsIsNone) {
  fetch();
  for (const char* commit : {".", "..", "../blobs", ""}) {
    write_file_atomic(repository().reference("main"), commit);
    EXPECT_EQ(hub_snapshot(settings_.cache, kId), std::nullopt) << commit;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
