// `sftbench dataset vision`, and counting what it makes.
#include <gmock/gmock.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "cli/dataset_fixture.h"
#include "cli/program.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class DatasetVisionTest : public DatasetCommandTest {
 protected:
  void SetUp() override {
#ifndef SFTBENCH_PARQUET_BUILT
    GTEST_SKIP() << "this build has no Parquet: CMake found no C++ library of Apache Arrow";
#endif
    DatasetCommandTest::SetUp();
  }
  std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }

  std::vector<std::string> small(const std::string& output) const {
    return {"vision",     "-o",
            path(output), "--tokens-input",
            "4",          "--tokens-output",
            "8",          "--image-width",
            "20",         "--image-height",
            "10",         "--num-max-gpus",
            "2",          "--num-max-batch-size",
            "3",          "--num-gradient-accumulation-steps",
            "4"};
  }
};

TEST_F(DatasetVisionTest, OptionsDescribeADataset) {
  EXPECT_EQ(run(small("own.parquet")), path("own.parquet") + "\n");
  const Json row = parse_json(run({"count", path("own.parquet"), "--format", "json"}), "stdout")[0];
  EXPECT_EQ(row["entries"], 2 * 3 * 4);
  EXPECT_GE(row["min"].get<int64_t>(), 9);  // 3 + 6 words
  EXPECT_EQ(parse_json(run({"count", path("own.parquet"), "--format", "json"}), "stdout")[0], row);
}

TEST_F(DatasetVisionTest, NamedDatasetGoesToTheUsersDataAndCanBeCountedByItsName) {
  const std::string id = "vision-384x384-16384plus-entries-4096";
  const std::string made = path("data/sftbench/datasets/" + id + ".parquet");
  EXPECT_EQ(run({"vision", id}), made + "\n");
  const Json listed = parse_json(run({"list", "--format", "json"}), "stdout");
  for (const Json& row : listed) {
    if (row["dataset"] != id) continue;
    EXPECT_EQ(row["entries"], 4096);
    EXPECT_EQ(row["bytes"].get<uintmax_t>(), fs::file_size(made));
    EXPECT_EQ(row["present"], true);
  }
  const fs::path granite = fs::path(SFTBENCH_PUBLISHED) / "tiny-granite-vision";
  const Json row =
      parse_json(run({"count", id, "--tokenizer", granite.string(), "--format", "json"}), "")[0];
  EXPECT_EQ(row["entries"], 4096);
  EXPECT_GE(row["min"].get<int64_t>(), 16384);  // what the name promises
}

TEST_F(DatasetVisionTest, ColumnsWithoutTextAreNamed) {
  run(small("own.parquet"));
  EXPECT_EQ(error_of({"count", path("own.parquet"), "--text-field", "images"}),
            path("own.parquet") +
                ": images: the column is of type struct<bytes: binary, path: string>, which is not "
                "read here; expected a column of texts or of lists");
  EXPECT_EQ(error_of({"count", path("own.parquet"), "--text-field", "outputs"}),
            path("own.parquet") +
                ":1: outputs: no such field; found output; columns that are not read here: images "
                "(struct<bytes: binary, path: string>); did you mean 'output'?\n" +
                path("own.parquet") + ": 23 more lines are wrong");
}

TEST_F(DatasetVisionTest, FilesAreKnownForParquetByTheirFirstBytesToo) {
  run(small("own.parquet"));
  fs::rename(folder_ / "own.parquet", folder_ / "own.data");
  const Json row = parse_json(run({"count", path("own.data"), "--format", "json"}), "stdout")[0];
  EXPECT_EQ(row["entries"], 24);
}

TEST_F(DatasetVisionTest, AFileThatMayNotGrowLeavesNothingBehind) {
  Program program({"dataset", "vision", "vision-384x768-16384plus-entries-4096", "-o", path("v")});
  program.limit_file_bytes(1'000'000);
  program.start();
  const ProgramResult result = program.finish();
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("sftbench: " + path("v") + ": cannot write: File too large"));
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(file_names_below(folder_), testing::IsEmpty());
}

// --- without the library, or before it is needed -------------------------------------------------

class DatasetBadInputTest : public DatasetCommandTest {};

TEST_F(DatasetBadInputTest, EachKindOfDatasetNamesTheOthersCommand) {
  EXPECT_EQ(error_of({"vision", "news-chars-512-entries-256"}),
            "dataset 'news-chars-512-entries-256' holds no images; it is made with: sftbench "
            "dataset text news-chars-512-entries-256");
  EXPECT_EQ(error_of({"text", "vision-384x768-16384plus-entries-4096"}),
            "dataset 'vision-384x768-16384plus-entries-4096' holds images; it is made with: "
            "sftbench dataset vision vision-384x768-16384plus-entries-4096");
  EXPECT_EQ(error_of({"count", "vision-384x768-16384plus-entries-4096"}),
            "dataset: dataset 'vision-384x768-16384plus-entries-4096' is not at " +
                (folder_ / "data/sftbench/datasets/vision-384x768-16384plus-entries-4096.parquet")
                    .string() +
                "; expected a file, or what this makes: sftbench dataset vision "
                "vision-384x768-16384plus-entries-4096");
}

TEST_F(DatasetBadInputTest, VisionRefusesWhatCannotBe) {
  EXPECT_THAT(error_of({"vision", "vision-384x767-16384plus-entries-4096"}),
              HasSubstr("did you mean 'vision-384x768-16384plus-entries-4096'?"));
  EXPECT_EQ(error_of({"vision", "-o", "/tmp"}),
            "--output: /tmp is a folder; expected a file to write");
  EXPECT_EQ(error_of({"vision", "--image-width", "9"}),
            "--output: nothing says where the dataset goes; expected a file to write, or the name "
            "of a dataset ('sftbench dataset list')");
  EXPECT_EQ(error_of({"vision", "vision-384x384-16384plus-entries-4096", "--image-width", "9"}),
            "--image-width: the named dataset 'vision-384x384-16384plus-entries-4096' is always "
            "made the same way; expected either a dataset's name or options of your own");
  EXPECT_THAT(error_of({"vision", "-o", "x", "--image-width", "0"}),
              HasSubstr("--image-width: found '0'; expected a whole number from 1 to "));
  EXPECT_THAT(error_of({"vision", "-o", "x", "--tokens-output", "-5"}),
              HasSubstr("--tokens-output: found '-5'; expected "));
  EXPECT_THAT(error_of({"vision", "-o", "x", "-i", "/nowhere/seed.txt"}),
              HasSubstr("/nowhere/seed.txt: cannot open: No such file or directory"));
  EXPECT_FALSE(fs::exists("x"));
}

TEST_F(DatasetBadInputTest, WithoutItsLibraryVisionNamesTheCommandThatHelps) {
  ::setenv("SFTBENCH_PARQUET", "/nowhere/lib.so", 1);
  EXPECT_THAT(error_of({"vision", "-o", (folder_ / "x.parquet").string()}),
              AllOf(StartsWith("reading and writing Parquet needs libsftbench_parquet.so"),
                    HasSubstr("bash experiments/setup.sh sftbench sftbench_parquet")));
  ::unsetenv("SFTBENCH_PARQUET");
  EXPECT_FALSE(fs::exists(folder_ / "x.parquet"));
}

TEST_F(DatasetBadInputTest, CountsThatCannotBeKeptAreStillTold) {
  write_file_atomic(folder_ / "x.jsonl", "{\"output\": \"a\"}\n");
  write_file_atomic(folder_ / "file", "");
  const Json row = parse_json(run({"count", (folder_ / "x.jsonl").string(), "--cache",
                                   (folder_ / "file/below").string(), "--format", "json"}),
                              "stdout")[0];
  EXPECT_EQ(row["entries"], 1);
  EXPECT_TRUE(row["cache"].is_null());
}

// --- interrupts ----------------------------------------------------------------------------------

TEST_F(DatasetBadInputTest, AnInterruptLeavesNoFile) {
  fs::create_directories(folder_);
  for (const int signal : {SIGINT, SIGTERM}) {
    Program program({"dataset", "text", "-o", (folder_ / "x.jsonl").string(), "--num-max-gpus",
                     "10000", "--num-max-batch-size", "1000", "--tokens-output", "1000"});
    program.limit_file_bytes(20'000'000'000);
    program.start();
    program.read_err_until("writing 40000000 entries to ");
    kill(program.pid(), signal);
    const ProgramResult result = program.finish();
    EXPECT_EQ(result.status, 130);
    EXPECT_THAT(result.err, HasSubstr("sftbench: interrupted; nothing was written\n"));
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(fs::is_empty(folder_));
  }
}

// Processor time of a process, in hundredths of a second.
long processor_ticks(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  long user = 0, system = 0;
  fields >> user >> system;
  return user + system;
}

TEST_F(DatasetBadInputTest, AnInterruptedCountGoesOnWhereItStopped) {
  constexpr int kEntries = 1'000'000;  // a second's work for one thread
  const fs::path data = folder_ / "x.jsonl", cache = folder_ / "tokens";
  fs::create_directories(folder_);
  {
    std::ofstream file(data);
    for (int i = 0; i < kEntries; ++i) file << "{\"output\": \"one of many alike\"}\n";
  }
  const std::vector<std::string> count = {"dataset", "count",        data.string(),
                                          "--cache", cache.string(), "--threads",
                                          "1",       "--format",     "json"};
  Program first(count);
  first.start();
  first.read_err_until("counting 1000000 entries of ");
  const long begin = processor_ticks(first.pid());
  while (processor_ticks(first.pid()) < begin + 10) {  // however busy the machine is
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(first.pid(), SIGINT);
  const ProgramResult interrupted = first.finish();
  ASSERT_EQ(interrupted.status, 130);
  EXPECT_THAT(interrupted.err, HasSubstr("sftbench: interrupted; what was counted is kept\n"));
  ASSERT_EQ(file_names_below(cache).size(), 1u);

  const ProgramResult second = run_program(count);
  EXPECT_EQ(second.status, 0);
  EXPECT_THAT(second.err, testing::Not(HasSubstr(", 0 of them counted before")));
  const Json row = parse_json(second.out, "stdout")[0];
  EXPECT_EQ(row["entries"], kEntries);
  EXPECT_EQ(row["min"], row["max"]);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
