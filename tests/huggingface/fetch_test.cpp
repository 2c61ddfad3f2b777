#include "sftbench/huggingface/fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "huggingface/fetch_fixture.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/huggingface/cache.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST_F(FetchTest, LaysOutBlobsLinksAndReferenceAsHuggingFaceDoes) {
  const FetchedRepository model = fetch();
  EXPECT_EQ(model.problem, "");
  EXPECT_EQ(model.commit, kCommit);
  EXPECT_EQ(model.snapshot, settings_.cache / "models--org--small/snapshots" / kCommit);
  EXPECT_THAT(names_in(model.snapshot),
              ElementsAre("config.json", "model.safetensors", "tokenizer.json"));
  EXPECT_EQ(fs::read_symlink(model.snapshot / "model.safetensors"),
            fs::path("../../blobs") / sha256(weights().content));
  EXPECT_EQ(fs::read_symlink(model.snapshot / "config.json"),
            fs::path("../../blobs") / git_hash(R"({"model_type": "llama"})"));
  EXPECT_EQ(read_file(model.snapshot / "model.safetensors"), weights().content);
  EXPECT_EQ(read_file(repository().reference("main")), kCommit);
  EXPECT_EQ(hub_snapshot(settings_.cache, kId), model.snapshot);
  EXPECT_EQ(model.transferred_bytes, model.size_bytes);
  EXPECT_THAT(read_file(settings_.cache / "CACHEDIR.TAG"),
              HasSubstr("Signature: 8a477f597d28d172789f06886806bc55"));
}

TEST_F(FetchTest, WhatIsThereIsNotFetchedAgain) {
  fetch();
  const size_t before = hub_.hub().requests().size();
  const FetchedRepository again = fetch();
  EXPECT_EQ(again.problem, "");
  EXPECT_EQ(again.transferred_bytes, 0u);
  EXPECT_EQ(hub_.hub().requests().size(), before + 1) << "only the list is asked for";
}

TEST_F(FetchTest, ABranchGetsAReferenceAndACommitNone) {
  EXPECT_EQ(fetch(kId, "refs/pr/1").problem, "");
  EXPECT_EQ(read_file(repository().reference("refs/pr/1")), kCommit);
  EXPECT_THAT(hub_.hub().requests().front().target, HasSubstr("/revision/refs%2Fpr%2F1?"));
  EXPECT_EQ(fetch(kId, kCommit).problem, "");
  EXPECT_FALSE(fs::exists(repository().reference(kCommit)));
}

TEST_F(FetchTest, ANewCommitTakesOverWhatDidNotChange) {
  fetch();
  hub_.models[kId].commit = "abcdef1234567890abcdef1234567890abcdef12";
  hub_.models[kId].files["config.json"].content = R"({"model_type": "mistral"})";
  const FetchedRepository model = fetch();
  EXPECT_EQ(model.problem, "");
  EXPECT_EQ(model.transferred_bytes, hub_.models[kId].files["config.json"].content.size());
  EXPECT_EQ(read_file(model.snapshot / "model.safetensors"), weights().content);
  EXPECT_EQ(hub_snapshot(settings_.cache, kId), model.snapshot);
  EXPECT_TRUE(fs::exists(repository().snapshot(kCommit) / "config.json"));
}

// --- what is fetched -----------------------------------------------------------------------------

TEST_F(FetchTest, TakesTheShardsOfTheIndexAndNoOtherFormat) {
  FakeModel& model = hub_.models[kId];
  model.files.erase("model.safetensors");
  model.files["model-00001-of-00002.safetensors"] = {safetensors("a", 10), true};
  model.files["model-00002-of-00002.safetensors"] = {safetensors("b", 10), true};
  model.files["model.safetensors.index.json"] = {
      R"({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})"};
  model.files["consolidated.safetensors"] = {safetensors("c", 10), true};
  model.files["pytorch_model.bin"] = {"pickle", true};
  model.files["pytorch_model.bin.index.json"] = {"{}"};
  model.files["original/params.json"] = {"{}"};
  model.files["tokenizer.model"] = {"sentences"};
  const FetchedRepository fetched = fetch();
  EXPECT_EQ(fetched.problem, "");
  EXPECT_THAT(names_in(fetched.snapshot),
              ElementsAre("config.json", "model-00001-of-00002.safetensors",
                          "model-00002-of-00002.safetensors", "model.safetensors.index.json",
                          "tokenizer.json", "tokenizer.model"));
  EXPECT_EQ(fetched.transferred_bytes, fetched.size_bytes);
}

// A prediction needs no more. What comes later fetches the rest.
TEST_F(FetchTest, WithoutWeightsTakesWhatDescribesAModel) {
  FetchRequest request{kId, kId};
  request.weights = false;
  const FetchedRepository described = fetch_repositories({request}, settings_).repositories.at(0);
  EXPECT_EQ(described.problem, "");
  EXPECT_THAT(names_in(described.snapshot), ElementsAre("config.json", "tokenizer.json"));
  EXPECT_EQ(hub_snapshot(settings_.cache, kId), described.snapshot);
  EXPECT_EQ(fetch().problem, "");
  EXPECT_THAT(names_in(described.snapshot),
              ElementsAre("config.json", "model.safetensors", "tokenizer.json"));
  hub_.models[kId].files = {{"README.md", {"a card"}}};
  EXPECT_EQ(fetch_repositories({request}, settings_).repositories.at(0).problem,
            "org/small has no config.json");
}

TEST_F(FetchTest, AnIndexThatNamesWhatIsNotThereIsAProblem) {
  FakeModel& model = hub_.models[kId];
  model.files.erase("model.safetensors");
  model.files["model.safetensors.index.json"] = {R"({"weight_map": {"a": "../../x.safetensors"}})"};
  EXPECT_EQ(fetch().problem,
            "model.safetensors.index.json of org/small names ../../x.safetensors, which the "
            "repository does not have");
  model.files["model.safetensors.index.json"] = {R"({"weights": 1})"};
  EXPECT_EQ(fetch().problem, "model.safetensors.index.json of org/small has no weight_map");
}

TEST_F(FetchTest, WeightsThatOnlyTransformersReadsComeWithAWarning) {
  FakeModel& model = hub_.models[kId];
  model.files.erase("model.safetensors");
  model.files["pytorch_model.bin"] = {"pickle", true};
  EXPECT_EQ(fetch().problem, "");
  EXPECT_THAT(log_, HasSubstr("org/small has no safetensors: its pytorch_model*.bin is for "
                              "transformers, sftbench trains from safetensors only"));
  model.files.erase("pytorch_model.bin");
  EXPECT_EQ(fetch().problem,
            "org/small has no weights: no *.safetensors and no pytorch_model*.bin");
}

// --- connections that break ----------------------------------------------------------------------

TEST_F(FetchTest, GoesOnFromWhereTheConnectionBroke) {
  change_weights_reply([](ServedReply& reply, int nth) {
    if (nth <= 2) reply.cut_after_bytes = 70'000;
  });
  const FetchedRepository model = fetch();
  EXPECT_EQ(model.problem, "");
  EXPECT_EQ(model.transferred_bytes, model.size_bytes) << "no byte came twice";
  const std::vector<ServedRequest> requests = hub_.cdn().requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[1].header("range"), "bytes=70000-");
  EXPECT_EQ(requests[2].header("range"), "bytes=140000-");
  EXPECT_THAT(log_, HasSubstr("was lost"));
}

TEST_F(FetchTest, GoesOnFromWhatAnEarlierCallLeft) {
  fs::create_directories(repository().blobs());
  write_file_atomic(weights_blob().string() + ".incomplete", weights().content.substr(0, 123'456));
  const FetchedRepository model = fetch();
  EXPECT_EQ(model.problem, "");
  EXPECT_EQ(model.transferred_bytes, model.size_bytes - 123'456);
  EXPECT_EQ(hub_.cdn().requests().at(0).header("range"), "bytes=123456-");
  EXPECT_EQ(read_file(weights_blob()), weights().content);
}

TEST_F(FetchTest, AWholeFileThatWasNotRenamedIsOnlyVerified) {
  fs::create_directories(repository().blobs());
  write_file_atomic(weights_blob().string() + ".incomplete", weights().content);
  EXPECT_EQ(fetch().problem, "");
  EXPECT_THAT(hub_.cdn().requests(), IsEmpty());
}

TEST_F(FetchTest, ASpoiltBeginningIsFetchedOnceMore) {
  fs::create_directories(repository().blobs());
  write_file_atomic(weights_blob().string() + ".incomplete", std::string(100'000, 'x'));
  EXPECT_EQ(fetch().problem, "");
  EXPECT_EQ(read_file(weights_blob()), weights().content);
  EXPECT_THAT(log_, HasSubstr("fetching it once more from its start"));
}

TEST_F(FetchTest, AHubThatIgnoresRangesIsReadFromTheStart) {
  change_weights_reply([](ServedReply& reply, int nth) {
    reply.ranges = false;
    if (nth == 1) reply.cut_after_bytes = 100'000;
  });
  const FetchedRepository model = fetch();
  EXPECT_EQ(model.problem, "");
  EXPECT_EQ(model.transferred_bytes, model.size_bytes + 100'000);
  EXPECT_EQ(read_file(weights_blob()), weights().content);
}

TEST_F(FetchTest, AHubThatAlwaysBreaksOffAtTheSamePlaceIsGivenUp) {
  change_weights_reply([](ServedReply& reply, int) {
    reply.ranges = false;
    reply.cut_after_bytes = 100'000;
  });
  EXPECT_THAT(fetch().problem, HasSubstr("the connection to 127.0.0.1:"));
  EXPECT_EQ(hub_.cdn().requests().size(), 4u) << "one request and three retries";
}

TEST_F(FetchTest, AnotherPartThanAskedForIsNotTaken) {
  change_weights_reply([](ServedReply& reply, int nth) {
    if (nth == 1) reply.cut_after_bytes = 100'000;
    if (nth == 2) {
      reply.status = 206;
      reply.headers["Content-Range"] = "bytes 5-9/200096";
      reply.body = "wrong";
    }
  });
  EXPECT_EQ(fetch().problem, "");
  EXPECT_THAT(log_, HasSubstr("the hub sent another part than asked for (bytes 5-9/200096)"));
  EXPECT_EQ(read_file(weights_blob()), weights().content);
}

TEST_F(FetchTest, SilenceCountsAsALostConnection) {
  settings_.stall_s = 1;
  change_weights_reply([](ServedReply& reply, int nth) {
    if (nth > 1) return;
    reply.sleep_after_bytes = 100'000;
    reply.sleep_s = 30;
  });
  const double begin_s = steady_seconds();
  EXPECT_EQ(fetch().problem, "");
  EXPECT_LT(steady_seconds() - begin_s, 10);
  EXPECT_THAT(log_, HasSubstr("nothing more came from 127.0.0.1:"));
  EXPECT_EQ(hub_.cdn().requests().at(1).header("range"), "bytes=100000-");
}

TEST_F(FetchTest, NobodyAtTheEndpointIsSaid) {
  {
    const LoopbackServer gone([](const ServedRequest&) { return ServedReply(); });
    settings_.endpoint.url = gone.url();
  }
  settings_.retries = 1;
  EXPECT_THAT(fetch().problem, HasSubstr("nothing answers at 127.0.0.1:"));
  EXPECT_THAT(log_, HasSubstr("trying again in 0.01 s (1 of 1)"));
}

// --- content that is wrong -----------------------------------------------------------------------

TEST_F(FetchTest, WrongContentIsNotKept) {
  change_weights_reply([](ServedReply& reply, int) { reply.body[1000] ^= 1; });
  const FetchedRepository model = fetch();
  const std::string right = sha256(weights().content);
  std::string wrong_content = weights().content;
  wrong_content[1000] ^= 1;
  EXPECT_EQ(model.problem, "model.safetensors of org/small: its sha256 is " +
                               sha256(wrong_content) + ", the hub's list says " + right +
                               "; nothing of it was kept");
  EXPECT_FALSE(fs::exists(weights_blob()));
  EXPECT_FALSE(fs::exists(repository().folder() / "snapshots"));
  EXPECT_FALSE(fs::exists(repository().reference("main")));
  EXPECT_EQ(hub_.cdn().requests().size(), 2u);
}

TEST_F(FetchTest, SmallFilesAreVerifiedToo) {
  hub_.fault = [](const ServedRequest& request, int) -> std::optional<ServedReply> {
    if (request.path().find("config.json") == std::string::npos) return std::nullopt;
    return ServedReply{200, {}, R"({"model_type": "LLAMA"})"};
  };
  EXPECT_THAT(fetch().problem, HasSubstr("config.json of org/small: its git hash is "));
}

TEST_F(FetchTest, AnotherSizeThanListedIsRefused) {
  change_weights_reply([](ServedReply& reply, int) { reply.body += "more"; });
  EXPECT_THAT(fetch().problem, HasSubstr("model.safetensors of org/small: the hub sends "));
  change_weights_reply([](ServedReply& reply, int) {
    reply.body += noise(100'000);
    reply.length = false;
  });
  EXPECT_THAT(fetch().problem, HasSubstr("the hub sends more than the "));
  EXPECT_LE(fs::file_size(weights_blob().string() + ".incomplete"), weights().content.size());
}

// --- lists that cannot be trusted ----------------------------------------------------------------

TEST_F(FetchTest, NamesThatLeadOutOfTheFolderAreRefused) {
  for (const std::string name : {"../x.json", "/etc/x.json", "a/../../x.json", "a//x.json",
                                 "./x.json", "..", "a\\x.json", "a\nx.json", ""}) {
    hub_.change_listing = [&](Json& json) { json["siblings"][0]["rfilename"] = name; };
    EXPECT_THAT(fetch().problem, HasSubstr("which is no place inside the model's folder; nothing "
                                           "of it was fetched"))
        << name;
  }
  EXPECT_FALSE(fs::exists(repository().folder()));
}

TEST_F(FetchTest, HashesThatAreNoneAreRefused) {
  for (const char* oid : {"../../x", "", "ABCDEF1234567890abcdef1234567890abcdef12", "abc"}) {
    hub_.change_listing = [&](Json& json) { json["siblings"][0]["blobId"] = oid; };
    EXPECT_THAT(fetch().problem, HasSubstr("gives no size and hash of README.md")) << oid;
  }
  hub_.change_listing = [](Json& json) { json["siblings"][0].erase("size"); };
  EXPECT_THAT(fetch().problem, HasSubstr("gives no size and hash of README.md"));
  hub_.change_listing = [](Json& json) { json["sha"] = "../../../x"; };
  EXPECT_THAT(fetch().problem, HasSubstr("has no commit and files (sha, siblings)"));
  EXPECT_FALSE(fs::exists(repository().folder()));
}

TEST_F(FetchTest, AnAnswerThatIsNotAHubsIsSaid) {
  answer_listing(200, {}, "<html>Please log in</html>");
  EXPECT_THAT(fetch().problem, HasSubstr("is this a Hugging Face-compatible endpoint?"));
  answer_listing(200, {}, R"(["a"])");
  EXPECT_THAT(fetch().problem, HasSubstr("has no commit and files (sha, siblings)"));
}

TEST_F(FetchTest, TheCacheIsNotWrittenThroughALink) {
  const fs::path outside = folder_ / "outside";
  write_file_atomic(outside, "");
  fs::create_directories(repository().blobs());
  fs::create_symlink(outside, weights_blob().string() + ".incomplete");
  EXPECT_THAT(fetch().problem, HasSubstr("cannot write "));
  EXPECT_EQ(fs::file_size(outside), 0u);
}

// --- who may have what ---------------------------------------------------------------------------

TEST_F(FetchTest, AGatedModelIsExplained) {
  hub_.models[kId].token = "hf_right";
  EXPECT_EQ(fetch().problem, "org/small is gated (status 401): accept its terms at " + hub_.url() +
                                 "/org/small, then give a token that may read it in HF_TOKEN");
  settings_.endpoint.token = "hf_wrong";
  settings_.endpoint.token_origin = "/home/me/token";
  EXPECT_EQ(fetch().problem, "org/small is gated (status 401): accept its terms at " + hub_.url() +
                                 "/org/small, then the token of /home/me/token must be one that "
                                 "may read it");
  settings_.endpoint.token = "hf_right";
  EXPECT_EQ(fetch().problem, "");
}

TEST_F(FetchTest, WhatIsNotThereIsExplained) {
  EXPECT_EQ(fetch("org/other").problem,
            "org/other does not exist or is private (status 401): check its name; if it is "
            "private, give a token that may read it in HF_TOKEN");
  answer_listing(404, {{"X-Error-Code", "RevisionNotFound"}}, "");
  EXPECT_EQ(fetch(kId, "v9").problem, "revision 'v9' of org/small does not exist (status 404)");
  answer_listing(404, {}, "");
  EXPECT_EQ(fetch().problem,
            "revision 'main' of org/small is not on " + hub_.url() + " (status 404)");
  settings_.endpoint.token = "hf_old";
  settings_.endpoint.token_origin = "HF_TOKEN";
  answer_listing(401, {}, "");
  EXPECT_EQ(fetch().problem, "the hub does not accept the token of HF_TOKEN (status 401)");
}

TEST_F(FetchTest, TheTokenGoesToTheHubAloneAndIntoNoLog) {
  settings_.endpoint.token = "hf_secret";
  hub_.models[kId].token = "hf_secret";
  EXPECT_EQ(fetch().problem, "");
  ASSERT_THAT(hub_.cdn().requests(), Not(IsEmpty()));
  for (const ServedRequest& request : hub_.cdn().requests())
    EXPECT_EQ(request.header("authorization"), "");
  for (const ServedRequest& request : hub_.hub().requests())
    EXPECT_EQ(request.header("authorization"), "Bearer hf_secret");
  EXPECT_THAT(log_, HasSubstr("GET " + hub_.url())) << "the log has each request";
  EXPECT_THAT(log_, Not(HasSubstr("secret"))) << "neither the token nor a signed address";
}

TEST_F(FetchTest, AServerThatRepeatsTheTokenOrWritesControlCharactersGetsNeitherThrough) {
  settings_.endpoint.token = "hf_secret";
  settings_.retries = 0;
  answer_listing(500, {{"X-Error-Message", "Bearer hf_secret \x1b[2J is wrong"}}, "");
  EXPECT_EQ(fetch().problem,
            "revision 'main' of org/small: status 500 (Bearer [token]  [2J is wrong)");
}

// --- servers in trouble --------------------------------------------------------------------------

TEST_F(FetchTest, TroubleThatPassesIsWaitedFor) {
  hub_.fault = [](const ServedRequest& request, int nth) -> std::optional<ServedReply> {
    const bool list = request.target.rfind("/api/", 0) == 0;
    if (list && nth <= 2) return ServedReply{nth == 1 ? 503 : 429, {}, "busy"};
    if (!list && nth == 1) return ServedReply{504, {}, "gateway"};
    return std::nullopt;
  };
  EXPECT_EQ(fetch().problem, "");
  EXPECT_THAT(log_, HasSubstr("status 503 (busy); trying again in 0.01 s (1 of 3)"));
  EXPECT_THAT(log_, HasSubstr("status 429 (busy); trying again in 0.02 s (2 of 3)"));
}

TEST_F(FetchTest, WaitsAsLongAsTheServerAsks) {
  hub_.fault = [](const ServedRequest&, int nth) -> std::optional<ServedReply> {
    if (nth == 1) return ServedReply{429, {{"Retry-After", "1"}}, ""};
    return std::nullopt;
  };
  const double begin_s = steady_seconds();
  EXPECT_EQ(fetch().problem, "");
  EXPECT_GE(steady_seconds() - begin_s, 1);
  EXPECT_THAT(log_, HasSubstr("status 429; trying again in 1 s (1 of 3)"));
}

TEST_F(FetchTest, TroubleThatStaysIsGivenUp) {
  answer_listing(502, {}, "bad gateway");
  EXPECT_EQ(fetch().problem, "revision 'main' of org/small: status 502 (bad gateway)");
  EXPECT_EQ(hub_.hub().requests().size(), 4u);
}

TEST_F(FetchTest, OneModelThatCannotBeHadLeavesTheOthers) {
  const FetchOutcome outcome =
      fetch_repositories({{"a", "org/other"}, {"b", kId}, {"c", kId}}, settings_);
  EXPECT_FALSE(outcome.interrupted);
  EXPECT_THAT(outcome.repositories[0].problem, HasSubstr("does not exist"));
  EXPECT_EQ(outcome.repositories[1].problem, "");
  EXPECT_EQ(outcome.repositories[2].problem, "");
  EXPECT_EQ(hub_.cdn().count("model.safetensors"), 1) << "what two models share comes once";
}

TEST_F(FetchTest, AModelThatLacksOneFileIsLeftWithoutASnapshot) {
  hub_.fault = [](const ServedRequest& request, int) -> std::optional<ServedReply> {
    if (request.path().find("tokenizer.json") == std::string::npos) return std::nullopt;
    return ServedReply{404, {{"X-Error-Code", "EntryNotFound"}}, ""};
  };
  const FetchedRepository model = fetch();
  EXPECT_THAT(model.problem, HasSubstr("tokenizer.json of org/small is not on "));
  EXPECT_EQ(model.snapshot, "");
  EXPECT_EQ(hub_snapshot(settings_.cache, kId), std::nullopt);
}

// --- this machine --------------------------------------------------------------------------------

TEST_F(FetchTest, ADiskWithoutRoomIsSaidBeforeAnythingComes) {
  hub_.change_listing = [](Json& json) {
    for (Json& entry : json["siblings"]) {
      if (entry.contains("lfs")) entry["lfs"]["size"] = uint64_t{1} << 50;
    }
  };
  try {
    fetch();
    FAIL() << "a pebibyte was to come";
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kWeights);
    EXPECT_THAT(error.what(), HasSubstr("there is not enough room in " + settings_.cache.string() +
                                        ": 1048576.0 GiB are to come, "));
  }
  EXPECT_THAT(hub_.cdn().requests(), IsEmpty());
}

TEST_F(FetchTest, ACancelledTransferIsContinuedByTheNext) {
  std::atomic<bool> stop = false;
  settings_.cancelled = [&] { return stop.load(); };
  settings_.progress = [&](const FetchProgress& progress) { stop = progress.done_bytes > 60'000; };
  change_weights_reply([](ServedReply& reply, int nth) {
    if (nth > 1) return;
    reply.piece_bytes = 10'000;
    reply.piece_sleep_s = 0.05;
  });
  const FetchOutcome outcome = fetch_repositories({{kId, kId}}, settings_);
  EXPECT_TRUE(outcome.interrupted);
  EXPECT_EQ(outcome.repositories[0].problem, "interrupted; the same command goes on from here");
  const uint64_t left_bytes = fs::file_size(weights_blob().string() + ".incomplete");
  EXPECT_GE(left_bytes, 50'000u);
  EXPECT_EQ(hub_snapshot(settings_.cache, kId), std::nullopt);

  stop = false;
  settings_.progress = [](const FetchProgress&) {};
  const FetchedRepository model = fetch();
  EXPECT_EQ(model.problem, "");
  EXPECT_EQ(hub_.cdn().requests().at(1).header("range"),
            "bytes=" + std::to_string(left_bytes) + "-");
}

TEST_F(FetchTest, TwoThatFetchTheSameWaitForEachOther) {
  change_weights_reply([](ServedReply& reply, int) {
    reply.piece_bytes = 50'000;
    reply.piece_sleep_s = 0.1;
  });
  FetchSettings second = settings_;
  std::string second_log;
  second.log = [&](FetchLog, const std::string& text) { second_log += text + "\n"; };
  FetchOutcome other;
  std::thread thread([&] { other = fetch_repositories({{kId, kId}}, second); });
  const FetchedRepository model = fetch();
  thread.join();
  EXPECT_EQ(model.problem, "");
  EXPECT_EQ(other.repositories[0].problem, "");
  EXPECT_EQ(hub_.cdn().requests().size(), 1u);
  EXPECT_THAT(log_ + second_log, HasSubstr("waiting for another process that fetches "
                                           "model.safetensors of org/small"));
}

TEST_F(FetchTest, ProgressEndsWithEverything) {
  FetchProgress last;
  settings_.progress = [&](const FetchProgress& progress) { last = progress; };
  const FetchedRepository model = fetch();
  EXPECT_EQ(last.done_bytes, model.size_bytes);
  EXPECT_EQ(last.total_bytes, model.size_bytes);
  EXPECT_EQ(last.done_files, 3);
  EXPECT_EQ(last.total_files, 3);
  // What is there is read again where its date is another one.
  fs::last_write_time(weights_blob(),
                      fs::last_write_time(weights_blob()) + std::chrono::seconds(1));
  settings_.progress = [&](const FetchProgress& progress) {
    EXPECT_LE(progress.done_bytes, model.size_bytes);
  };
  EXPECT_EQ(fetch().transferred_bytes, 0u);
}

TEST_F(FetchTest, ASizeBesideTheHashIsEnough) {
  hub_.change_listing = [](Json& json) {
    for (Json& entry : json["siblings"])
      if (entry.contains("lfs")) entry.erase("size");
  };
  EXPECT_EQ(fetch().problem, "");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
