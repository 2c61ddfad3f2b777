#include "sftbench/results/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "results/result_files.h"
#include "results/sample_measurement.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;

fs::path fresh_directory(const std::string& name) {
  const fs::path directory = fs::path(testing::TempDir()) / ("store_test_" + name);
  fs::remove_all(directory);
  return directory;
}

size_t files_below(const fs::path& directory) {
  if (!fs::exists(directory)) return 0;
  const fs::recursive_directory_iterator all(directory);
  return static_cast<size_t>(std::distance(fs::begin(all), fs::end(all)));
}

TEST(ResultStoreTest, WritesOneFilePerMeasurementUnderItsExperiment) {
  const fs::path directory = fresh_directory("write");
  const ResultStore store(directory);
  const fs::path path = store.write(sample_valid(), "abc123");
  EXPECT_EQ(path, directory / "finetune_full_benchmark-v1.0.0" / "abc123.json");
  EXPECT_EQ(store.log_path("e", "k"), directory / "e" / "k.log");
  EXPECT_EQ(read_json_file(path), stored(sample_valid(), "abc123"));
  EXPECT_EQ(files_below(directory), 2u);
}

Measurement sample_invalid() {
  Measurement measurement = sample_failed();
  measurement.status = Status::kInvalid;
  return measurement;
}

// Two measurements of one key, and what stands where then.
struct Standing {
  std::string first, second;  // the names of their files
  fs::path directory;
};

Standing write_both(const Measurement& first, const Measurement& second) {
  const ResultStore store(fresh_directory("both"));
  store.write(first, "k");
  const fs::path path = store.write(second, "k");
  Standing standing{{}, path.filename(), path.parent_path()};
  for (const auto& entry : fs::directory_iterator(path.parent_path())) {
    if (entry.path() != path && read_json_file(entry.path()) == stored(first, "k")) {
      standing.first = entry.path().filename();
    }
  }
  return standing;
}

TEST(ResultStoreTest, NoResultGivesWayToAWorseOne) {
  const Measurement valid = sample_valid(), invalid = sample_invalid(), failed = sample_failed();
  struct Case {
    const Measurement &first, &second;
    const char *first_name, *second_name;  // "": it is gone
  };
  for (const Case& c : {Case{valid, valid, "k.json", "k.2.json"},
                        {valid, invalid, "k.json", "k.json.invalid"},
                        {valid, failed, "k.json", "k.json.failed"},
                        {invalid, valid, "k.json.invalid", "k.json"},
                        {invalid, invalid, "k.json", "k.json.invalid"},
                        {invalid, failed, "k.json", "k.json.failed"},
                        {failed, valid, "", "k.json"},
                        {failed, invalid, "", "k.json"},
                        {failed, failed, "", "k.json"}}) {
    const Standing standing = write_both(c.first, c.second);
    const std::string which = std::string(to_string(c.first.status)) + ", then " +
                              std::string(to_string(c.second.status));
    EXPECT_EQ(standing.second, c.second_name) << which;
    EXPECT_EQ(standing.first, c.first_name) << which;
  }
}

TEST(ResultStoreTest, ASampleThatIsValidMovesOnToTheNextThatIsNot) {
  const ResultStore store(fresh_directory("samples"));
  EXPECT_EQ(store.next_sample("e", "k"), 1);
  for (const char* name : {"k.json", "k.2.json", "k.3.json"}) {
    EXPECT_EQ(store.write(sample_valid(), "k").filename(), name);
  }
  const std::string experiment = sample_valid().experiment;
  std::ofstream(store.result_path(experiment, "k", 2)) << "{";
  EXPECT_EQ(store.next_sample(experiment, "k"), 2) << "damaged";
  EXPECT_EQ(store.write(sample_valid(), "k").filename(), "k.2.json");
  EXPECT_EQ(read_file(store.result_path(experiment, "k", 2).string() + ".aside"), "{");
}

TEST(ResultStoreTest, LogsFollowTheirMeasurementAndItsReasonNamesThem) {
  const ResultStore store(fresh_directory("aside_logs"));
  const std::string experiment = sample_valid().experiment;
  const auto grow = [&](const std::string& text) {
    std::ofstream(store.growing_log_path(experiment, "k")) << text;
    std::ofstream(log_of_rank(store.growing_log_path(experiment, "k"), 0)) << text << " rank 0";
  };
  const fs::path folder = store.directory() / experiment;
  store.write(sample_invalid(), "k");
  std::ofstream(store.log_path(experiment, "k")) << "invalid";
  grow("valid");
  store.write(sample_valid(), "k");
  EXPECT_EQ(read_file(folder / "k.log"), "valid");
  EXPECT_EQ(read_file(folder / "k.invalid.log"), "invalid");
  grow("failed");
  Measurement failed = sample_failed();
  const fs::path log = store.log_path(experiment, "k");
  failed.reason->log = log.string();
  failed.reason->message = "rank 0: lost; its log: " + log_of_rank(log, 0).string();
  for (const std::string number : {"", ".2"}) {
    grow("failed");
    const Json stored = read_json_file(store.write(failed, "k"));
    const fs::path aside_log = folder / ("k.failed" + number + ".log");
    EXPECT_EQ(stored.at("reason").at("log"), aside_log.string());
    EXPECT_EQ(stored.at("reason").at("message"),
              "rank 0: lost; its log: " + log_of_rank(aside_log, 0).string());
    EXPECT_EQ(read_file(log_of_rank(aside_log, 0)), "failed rank 0");
  }
  EXPECT_EQ(read_file(folder / "k.log"), "valid");
}

TEST(ResultStoreTest, AProbeThatSucceedsLeavesNoFile) {
  const fs::path directory = fresh_directory("probe");
  ResultStore(directory).probe("e");
  EXPECT_EQ(files_below(directory), 1u);  // the experiment's folder
}

TEST(ResultStoreTest, TheProbeNamesTheFoldersThatItMade) {
  const fs::path directory = fresh_directory("made");
  const std::vector<fs::path> made = {directory, directory / "inner", directory / "inner/e"};
  EXPECT_EQ(ResultStore(directory / "inner").probe("e"), made);
  EXPECT_EQ(ResultStore(directory / "inner").probe("e"), std::vector<fs::path>());
}

TEST(ResultStoreTest, AGrowingLogGetsItsNameWhenTheMeasurementIsWritten) {
  const fs::path directory = fresh_directory("log");
  const ResultStore store(directory);
  const std::string experiment = sample_valid().experiment;
  store.write(sample_valid(), "abc");
  EXPECT_FALSE(fs::exists(store.log_path(experiment, "abc")));  // none grew
  const fs::path growing = store.growing_log_path(experiment, "abc");
  std::ofstream(growing) << "steps";
  for (int rank : {0, 1}) std::ofstream(log_of_rank(growing, rank)) << "rank " << rank;
  store.write(sample_valid(), "abc");
  const fs::path log = store.log_path(experiment, "abc", 2);  // of the repeat
  EXPECT_EQ(read_file(log), "steps");
  EXPECT_EQ(read_file(log_of_rank(log, 1)), "rank 1");
  for (const fs::path& path : {growing, log_of_rank(growing, 0), log_of_rank(growing, 1)}) {
    EXPECT_FALSE(fs::exists(path)) << path;
  }
}

TEST(ResultStoreTest, LogsOfWhatIsNotKeptAreRemoved) {
  const ResultStore store(fresh_directory("removed_logs"));
  store.write(sample_valid(), "abc");
  const std::string experiment = sample_valid().experiment;
  const fs::path growing = store.growing_log_path(experiment, "abc");
  for (const fs::path& path : {growing, log_of_rank(growing, 0), log_of_rank(growing, 1)}) {
    std::ofstream(path) << "steps";
  }
  store.remove_growing_logs(experiment, "abc");
  for (const fs::path& path : {growing, log_of_rank(growing, 0), log_of_rank(growing, 1)}) {
    EXPECT_FALSE(fs::exists(path)) << path;
  }
}

TEST(ResultStoreTest, AFolderThatCannotBeMadeIsFoundByTheProbe) {
  const fs::path file = fresh_directory("file");
  std::ofstream(file) << "not a folder";
  try {
    ResultStore(file / "results").probe("e");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_EQ(error.what(), (file / "results").string() +
                                ": --output: cannot make the folder: Not a directory; expected a "
                                "folder that results can be written to");
  }
}

// Runs `body` where no file may grow beyond 4 KiB, as on a full disk; returns its words.
std::string on_a_full_disk(const std::function<void()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::string words = "no error";
    try {
      body();
    } catch (const InputError& error) {
      words = error.what();
    }
    if (write(ends[1], words.data(), words.size()) < 0) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  std::string words(4096, '\0');
  const ssize_t got = read(ends[0], words.data(), words.size());
  words.resize(static_cast<size_t>(std::max<ssize_t>(0, got)));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return words;
}

TEST(ResultStoreTest, AFullDiskIsFoundByTheProbeAndNothingIsLeft) {
  const fs::path directory = fresh_directory("full");
  EXPECT_EQ(on_a_full_disk([&] { ResultStore(directory).probe("e"); }),
            directory.string() +
                ": --output: cannot write: File too large; expected a folder that results can be "
                "written to");
  EXPECT_FALSE(fs::exists(directory));
}

TEST(ResultStoreTest, ADiskThatFillsDuringTheRunKeepsTheOldFile) {
  const fs::path directory = fresh_directory("fills");
  const ResultStore store(directory);
  const fs::path path = store.write(sample_failed(), "k");
  Measurement large = sample_valid();
  for (int i = 0; i < 1000; ++i) large.extra["loss"].push_back(1.0 / 3);
  EXPECT_EQ(on_a_full_disk([&] { store.write(large, "k"); }),
            path.string() + ": cannot write: File too large");
  EXPECT_EQ(read_json_file(path), stored(sample_failed(), "k"));
  EXPECT_EQ(files_below(directory), 2u);
}

TEST(RankLogTest, StandsBesideThatOfTheMeasurement) {
  EXPECT_EQ(log_of_rank("results/e/k.log", 2), "results/e/k.rank2.log");
  EXPECT_EQ(log_of_rank("results/e/k.growing.log", 10), "results/e/k.rank10.growing.log");
  EXPECT_EQ(log_of_rank("log", 0), "log.rank0");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
