// Datasets of a hub, fetched into the libraries' cache and found there.
#include "sftbench/huggingface/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "huggingface/fetch_fixture.h"
#include "sftbench/base/data_files.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kSet = "org/pairs";

class DatasetFetchTest : public FetchTest {
 protected:
  DatasetFetchTest() { hub_.datasets[kSet] = small_dataset(); }

  FetchedRepository fetch_dataset(const std::string& name = kSet) {
    return fetch_repositories({dataset_request(name)}, settings_).repositories.at(0);
  }
  FakeModel& set() { return hub_.datasets[kSet]; }
  HubRepository place() const { return {settings_.cache, kSet, RepositoryKind::kDataset}; }
  std::vector<std::string> files_of(const std::string& name) const {
    const std::optional<FoundData> found = find_data(settings_.cache, name);
    if (!found) return {};
    std::vector<std::string> files;
    for (const fs::path& file : data_files(found->path))
      files.push_back(file.lexically_relative(place().snapshot(kCommit)).string());
    return files;
  }
};

TEST_F(DatasetFetchTest, TheFilesOfTheSplitAndTheCardCome) {
  const FetchedRepository fetched = fetch_dataset();
  EXPECT_EQ(fetched.problem, "");
  EXPECT_EQ(fetched.files, 3);
  EXPECT_EQ(fetched.snapshot, settings_.cache / "datasets--org--pairs" / "snapshots" / kCommit);
  EXPECT_THAT(names_in(fetched.snapshot / "data"),
              ElementsAre("train-00000-of-00002.jsonl", "train-00001-of-00002.jsonl"));
  EXPECT_TRUE(fs::exists(fetched.snapshot / "README.md"));
  EXPECT_EQ(read_file(place().reference("main")), kCommit);
  const std::string blob = FakeHub::oid(set().files["data/train-00001-of-00002.jsonl"]);
  EXPECT_EQ(fs::read_symlink(fetched.snapshot / "data" / "train-00001-of-00002.jsonl"),
            "../../../blobs/" + blob);
  EXPECT_THAT(files_of(kSet),
              ElementsAre("data/train-00000-of-00002.jsonl", "data/train-00001-of-00002.jsonl"));
  EXPECT_EQ(hub_.hub().count("test-00000-of-00001.jsonl"), 0) << "what is not needed";
}

TEST_F(DatasetFetchTest, WhatIsHereIsNotFetchedAgain) {
  fetch_dataset();
  EXPECT_EQ(fetch_dataset().transferred_bytes, 0u);
  EXPECT_EQ(hub_.cdn().requests().size(), 2u);
}

TEST_F(DatasetFetchTest, AnotherSplitJoinsTheSnapshot) {
  EXPECT_THAT(files_of("org/pairs::test"), IsEmpty());
  fetch_dataset();
  EXPECT_THAT(files_of("org/pairs::test"), IsEmpty()) << "it did not come";
  EXPECT_EQ(fetch_dataset("org/pairs::test").problem, "");
  EXPECT_THAT(files_of("org/pairs::test"), ElementsAre("data/test-00000-of-00001.jsonl"));
  EXPECT_THAT(files_of(kSet), testing::SizeIs(2));
}

TEST_F(DatasetFetchTest, AConfigOfTheCardIsFollowed) {
  set().files["README.md"] = {
      "---\nconfigs:\n- config_name: a\n  data_files: data/test*\n- config_name: b\n  data_files: "
      "data/train*\n---\n"};
  EXPECT_EQ(fetch_dataset().problem,
            "org/pairs has several configs and no default one; expected one of a, b, as "
            "NAME:CONFIG");
  EXPECT_EQ(fetch_dataset("org/pairs:a").problem, "");
  EXPECT_THAT(files_of("org/pairs:a"), ElementsAre("data/test-00000-of-00001.jsonl"));
  EXPECT_THAT(files_of("org/pairs:b"), IsEmpty());
  EXPECT_THROW(find_data(settings_.cache, "org/pairs:c"), InputError) << "the card is here";
}

TEST_F(DatasetFetchTest, ARevisionIsFoundByItsName) {
  EXPECT_EQ(fetch_dataset("org/pairs@v1").problem, "");
  EXPECT_THAT(files_of("org/pairs@v1"), testing::SizeIs(2));
  EXPECT_THAT(files_of(std::string("org/pairs@") + kCommit), testing::SizeIs(2));
  EXPECT_THAT(files_of("org/pairs@v2"), IsEmpty());
  EXPECT_EQ(fetch_dataset("org/pairs@refs/convert/parquet").problem, "");
  EXPECT_EQ(hub_.hub().requests().back().target,
            "/api/datasets/org/pairs/revision/refs%2Fconvert%2Fparquet?blobs=true");
  EXPECT_THAT(files_of("org/pairs@refs/convert/parquet"), testing::SizeIs(2));
}

TEST_F(DatasetFetchTest, AnInterruptedFetchGoesOnWhereItWas) {
  const std::string content(300'000, 'x');
  set().files["data/train-00000-of-00002.jsonl"] = {content, true};
  hub_.cdn_fault = [&](const ServedRequest& request, int nth) -> std::optional<ServedReply> {
    if (request.path().find("train-00000") == std::string::npos || nth > 1) return std::nullopt;
    ServedReply reply{200, {}, content};
    reply.cut_after_bytes = 100'000;
    return reply;
  };
  settings_.retries = 0;
  EXPECT_NE(fetch_dataset().problem, "");
  EXPECT_THAT(files_of(kSet), IsEmpty()) << "nothing is there in part";
  EXPECT_EQ(fetch_dataset().problem, "");
  EXPECT_THAT(files_of(kSet), testing::SizeIs(2));
  std::vector<std::string> ranges;
  for (const ServedRequest& request : hub_.cdn().requests())
    ranges.push_back(request.header("range"));
  EXPECT_THAT(ranges, testing::Contains("bytes=100000-"));
}

TEST_F(DatasetFetchTest, WhatIsNotWhatItsNameSaysIsNotKept) {
  hub_.cdn_fault = [&](const ServedRequest& request, int) -> std::optional<ServedReply> {
    if (request.path().find("train-00000") == std::string::npos) return std::nullopt;
    std::string content = set().files["data/train-00000-of-00002.jsonl"].content;
    content[5] ^= 1;
    return ServedReply{200, {}, content};
  };
  EXPECT_THAT(fetch_dataset().problem, HasSubstr("its sha256 is"));
  EXPECT_THAT(files_of(kSet), IsEmpty());
}

TEST_F(DatasetFetchTest, ASpoiltBlobIsFetchedAgain) {
  fetch_dataset();
  const fs::path blob = place().blob(FakeHub::oid(set().files["data/train-00000-of-00002.jsonl"]));
  std::string content = read_file(blob);
  content[5] ^= 1;
  write_file_atomic(blob, content);
  EXPECT_EQ(fetch_dataset().problem, "");
  EXPECT_EQ(read_file(blob), set().files["data/train-00000-of-00002.jsonl"].content);
  EXPECT_THAT(log_, HasSubstr("is not what its name says"));
}

TEST_F(DatasetFetchTest, RefusalsOfTheHubAreExplained) {
  set().token = "hf_other";
  EXPECT_EQ(fetch_dataset().problem,
            "org/pairs is gated (status 401): accept its terms at " + hub_.url() +
                "/datasets/org/pairs, then give a token that may read it in HF_TOKEN");
  settings_.endpoint.token = "hf_other";
  EXPECT_EQ(fetch_dataset().problem, "");
  EXPECT_THAT(fetch_dataset("org/none").problem,
              HasSubstr("org/none does not exist or is private (status 401): check its name"));
}

TEST_F(DatasetFetchTest, WhatIsNoDataIsRefusedByItsName) {
  set().files = {{"train.xml", {"<a/>\n"}}};
  EXPECT_EQ(fetch_dataset().problem,
            "org/pairs has its data as train.xml, which this program does not read; expected "
            "files .json, .jsonl, .csv, .parquet or .arrow");
  set().files = {{"train.jsonl.bz2", {"x"}}};
  EXPECT_THAT(fetch_dataset().problem, HasSubstr("has its data as train.jsonl.bz2"));
  set().files = {{"pairs.py", {"import os\n"}}, {"train.jsonl", {"{}\n"}}};
  EXPECT_EQ(fetch_dataset().problem,
            "org/pairs is read by a script (pairs.py), which is not run; the hub may have its data "
            "as Parquet: org/pairs@refs/convert/parquet:CONFIG");
  set().files = {{"test.jsonl", {"{}\n"}}};
  EXPECT_THAT(fetch_dataset().problem, HasSubstr("has no split train by the names of its files"));
  set().files = {{"LICENSE", {"text"}}};
  EXPECT_THAT(fetch_dataset().problem, HasSubstr("org/pairs has no data"));
  set().files = {{"README.md", {"---\nconfigs: [\n---\n"}}, {"a.jsonl", {"{}\n"}}};
  EXPECT_THAT(fetch_dataset().problem, HasSubstr("org/pairs: README.md"));
  EXPECT_FALSE(fs::exists(place().reference("main")));
}

TEST_F(DatasetFetchTest, NoNameLeadsOutOfTheFolder) {
  for (const char* path : {"../../evil.jsonl", "/evil.jsonl", "a//b.jsonl", "data/../../x.jsonl"}) {
    hub_.change_listing = [&](Json& listing) { listing["siblings"][0]["rfilename"] = path; };
    EXPECT_THAT(fetch_dataset().problem,
                AllOf(HasSubstr("no place inside the dataset's folder"), HasSubstr("nothing")))
        << path;
  }
  EXPECT_FALSE(fs::exists(folder_ / "evil.jsonl"));
}

TEST_F(DatasetFetchTest, ACardHasALimit) {
  hub_.change_listing = [](Json& listing) { listing["siblings"][0]["size"] = 1 << 30; };
  EXPECT_EQ(fetch_dataset().problem,
            "README.md of org/pairs has 1073741824 bytes by the hub's list; a card has at most "
            "16777216");
}

TEST_F(DatasetFetchTest, ModelsAndDatasetsOfOneNameAreApart) {
  hub_.models[kSet] = small_model();
  const FetchOutcome outcome = fetch_repositories({{kSet, kSet}, dataset_request(kSet)}, settings_);
  for (const FetchedRepository& one : outcome.repositories) EXPECT_EQ(one.problem, "");
  EXPECT_THAT(names_in(settings_.cache),
              ElementsAre(".locks", "CACHEDIR.TAG", "datasets--org--pairs", "models--org--pairs"));
  EXPECT_THAT(cached_models(settings_.cache), ElementsAre(kSet));
}

TEST(DatasetNameTest, IsReadAndSpelled) {
  const DatasetName name = dataset_name("org/name@v1.0:en:test");
  EXPECT_EQ(name.id, "org/name");
  EXPECT_EQ(name.revision, "v1.0");
  EXPECT_EQ(name.part.config, "en");
  EXPECT_EQ(name.part.split, "test");
  EXPECT_EQ(name_of(name), "org/name:en:test");
  EXPECT_EQ(dataset_name("org/name").revision, "main");
  EXPECT_EQ(name_of(dataset_name("org/name:en:train")), "org/name:en");
  for (const char* none : {"name", "org/", "/name", "a/b/c", "../b", "org/na me", "org/name@",
                           "org/name:", "org/name:../x", "org/name:a:b:c", "x@a/b", "~/b", "./b"}) {
    EXPECT_NE(dataset_name_problem(none), "") << none;
  }
}

TEST(DatasetNameTest, PathsAndFilesOfDataAreNone) {
  EXPECT_TRUE(is_dataset_name("org/name"));
  for (const char* file :
       {"data/pairs.jsonl", "data/pairs.json", "data/x.parquet", "data/x.jsonl.gz"})
    EXPECT_FALSE(is_dataset_name(file)) << file;
  const fs::path here = test_folder();
  fs::create_directories(here / "org" / "name");
  const fs::path before = fs::current_path();
  fs::current_path(here);
  EXPECT_FALSE(is_dataset_name("org/name")) << "a folder of that name is here";
  EXPECT_FALSE(is_dataset_name("org/name:en"));
  EXPECT_TRUE(is_dataset_name("org/other"));
  EXPECT_EQ(find_data(here, "org/name")->path, (here / "org" / "name").string());
  fs::current_path(before);
  fs::remove_all(here);
}

TEST(DatasetNameTest, ASnapshotHasTheNameOfItsDataset) {
  EXPECT_EQ(dataset_of_snapshot("/h/datasets--org--a--b/snapshots/abc"), "org/a--b");
  EXPECT_EQ(dataset_of_snapshot("/h/models--org--a/snapshots/abc"), "");
  EXPECT_EQ(dataset_of_snapshot("/h/datasets--org--a/other/abc"), "");
  EXPECT_EQ(dataset_of_snapshot("pairs"), "");
}

TEST(DatasetNameTest, TheCommandThatFetchesIsWhatAShellTakes) {
  EXPECT_EQ(dataset_fetch_command("org/name:en", std::nullopt),
            "sftbench dataset fetch org/name:en");
  EXPECT_EQ(dataset_fetch_command("org/name", "/my home"),
            "sftbench dataset fetch org/name -o '/my home'");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
