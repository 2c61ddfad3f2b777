// Parquet files, written by this program and read by Arrow's Python library, and the other way
// round.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "data/file_size_limit.h"
#include "data/golden.h"
#include "data/vision_image.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/data/dataset_catalog.h"
#include "sftbench/data/entry_file.h"
#include "sftbench/data/parquet_library.h"
#include "sftbench/data/token_count.h"
#include "sftbench/data/vision_generator.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kNoPyarrow = 3;  // exit status of parquet_files.py

// What tests/data/parquet_files.py prints; `status` is its exit status.
std::string python(const std::string& arguments, int& status) {
  const std::string command = std::string("PYTHONPATH='") + SFTBENCH_PYARROW "' '" +
                              SFTBENCH_PYTHON "' '" + SFTBENCH_SOURCE_DIR +
                              "/tests/data/parquet_files.py' " + arguments;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer{};
  while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    output.append(buffer.data(), got);
  }
  status = ::pclose(pipe);
  return output;
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

VisionGeneratorOptions small_options() {
  VisionGeneratorOptions options;
  options.input_tokens = 4;
  options.output_tokens = 7;
  options.words_per_token = 0.5;
  options.entries = 1500;
  options.image_width = 101;
  options.image_height = 57;
  return options;
}

class VisionParquetTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef SFTBENCH_PARQUET_BUILT
    GTEST_SKIP() << "this build has no Parquet: CMake found no C++ library of Apache Arrow";
#else
    fs::create_directories(folder_);
    library_ = load_parquet_library();
#endif
  }
  void TearDown() override {
    fs::remove_all(folder_);
  }

  void write(const fs::path& path, const VisionGeneratorOptions& options = small_options(),
             const std::function<void(int64_t)>& progress = {}) {
    const auto seed = golden("vision.json")["small"]["seed"].get<std::string>();
    write_vision_dataset(VisionGenerator(seed, "seed.txt", options), path, *library_, progress);
  }

  std::vector<std::string> texts(const fs::path& path) {
    const auto reader = library_->read_texts(path, "output");
    std::vector<std::string> texts(static_cast<size_t>(reader->size()));
    for (std::string& text : texts) {
      Diagnostic error;
      if (!reader->read_next(text, error)) text = to_string(error);
    }
    return texts;
  }

  fs::path folder_ =
      fs::path(::testing::TempDir()) / ("sftbench-parquet-" + std::to_string(::getpid()));
  std::unique_ptr<ParquetLibrary> library_;
};

TEST_F(VisionParquetTest, ANamedDatasetIsMadeOnceWhenARunNeedsIt) {
  const NamedDataset& dataset = named_dataset("vision-384x384-16384plus-entries-4096");
  const fs::path path = folder_ / "new" / dataset.file_name;
  std::string announced;
  const auto announce = [&announced](const std::string& line) { announced += line + "\n"; };
  EXPECT_TRUE(ensure_named_dataset(dataset, path, announce));
  EXPECT_EQ(announced,
            "generating dataset vision-384x384-16384plus-entries-4096 (4096 entries with "
            "images) at " +
                path.string() + "\n");
  EXPECT_EQ(library_->read_texts(path, "output")->size(), 4096);
  EXPECT_FALSE(ensure_named_dataset(dataset, path, announce));
}

// With the files that Python wrote, too.
class ForeignParquetTest : public VisionParquetTest {
 protected:
  void SetUp() override {
    VisionParquetTest::SetUp();
    if (IsSkipped()) return;
    int status = 0;
    python("write '" + folder_.string() + "'", status);
    if (WEXITSTATUS(status) == kNoPyarrow) {
      GTEST_SKIP() << SFTBENCH_PYTHON " has no pyarrow in " SFTBENCH_PYARROW;
    }
    ASSERT_EQ(status, 0);
  }

  std::string error_of_reading(const std::string& name, const std::string& column = "output") {
    return error_of([&] { library_->read_texts(folder_ / name, column); });
  }
  std::string at(const std::string& name) { return (folder_ / name).string(); }
};

TEST_F(ForeignParquetTest, PythonReadsTheRowsThatThePythonGeneratorMakes) {
  write(folder_ / "vision.parquet");
  int status = 0;
  const Json file =
      parse_json(python("read '" + at("vision.parquet") + "'", status), "parquet_files.py");
  ASSERT_EQ(file["rows"].size(), 1500u);
  const Json chats = golden("vision.json")["small"]["chats"];
  const std::string jpeg = vision_image_jpeg(101, 57);
  for (size_t i = 0; i < 1500; ++i) {
    const Json& row = file["rows"][i];
    EXPECT_EQ(row["images"]["bytes"].get<std::string>().size(), 2 * jpeg.size());
    EXPECT_TRUE(row["images"]["path"].is_null());
    EXPECT_EQ(row["output"][0]["content"][1]["index"], static_cast<int64_t>(i));
  }
  for (size_t i = 0; i < chats.size(); ++i) EXPECT_EQ(file["rows"][i]["output"], chats[i]);
  EXPECT_EQ(file["types"]["images"], "struct<bytes: binary, path: string>");
  EXPECT_EQ(file["compression"], "ZSTD");
  EXPECT_EQ(file["row_groups"], 2);
}

TEST_F(ForeignParquetTest, MetadataTellsHuggingFaceThatThereAreImages) {
  write(folder_ / "vision.parquet");
  int status = 0;
  const Json file =
      parse_json(python("read '" + at("vision.parquet") + "'", status), "parquet_files.py");
  const Json features = file["metadata"]["huggingface"]["info"]["features"];
  EXPECT_EQ(features["images"], parse_json(R"({"_type": "Image"})", ""));
  const Json part = parse_json(R"({"type":  {"dtype": "string", "_type": "Value"},
                                   "text":  {"dtype": "string", "_type": "Value"},
                                   "index": {"dtype": "int64",  "_type": "Value"}})",
                               "");
  EXPECT_EQ(features["output"][0]["content"][0], part);
  EXPECT_EQ(features["output"][0]["role"], part["type"]);
}

TEST_F(VisionParquetTest, TheSameBytesEachTime) {
  write(folder_ / "a.parquet");
  write(folder_ / "b.parquet");
  EXPECT_EQ(read_file(folder_ / "a.parquet"), read_file(folder_ / "b.parquet"));
}

TEST_F(VisionParquetTest, AnEntryMayBeLargerThanWhatIsHeld) {
  VisionGeneratorOptions options = small_options();
  options.entries = 3;
  options.output_tokens = 7'000'000;  // 3.5 million words in each row
  write(folder_ / "large.parquet", options);
  const std::vector<std::string> found = texts(folder_ / "large.parquet");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_THAT(found, ::testing::Each(::testing::SizeIs(::testing::Gt(17'000'000u))));
}

TEST_F(VisionParquetTest, TextOfAChatIsItsTextParts) {
  write(folder_ / "vision.parquet");
  const std::vector<std::string> found = texts(folder_ / "vision.parquet");
  ASSERT_EQ(found.size(), 1500u);
  const Json chats = golden("vision.json")["small"]["chats"];
  for (size_t i = 0; i < chats.size(); ++i) {
    EXPECT_EQ(found[i], chats[i][0]["content"][0]["text"].get<std::string>() + "\n" +
                            chats[i][1]["content"][0]["text"].get<std::string>());
  }
}

TEST_F(VisionParquetTest, ProgressIsToldOfEachEntryAndMayEndTheWork) {
  int64_t last = 0;
  const auto stop = [&last](int64_t done) {
    EXPECT_EQ(done, last + 1);
    last = done;
    if (done == 200) throw std::runtime_error("enough");
  };
  EXPECT_EQ(error_of([&] { write(folder_ / "vision.parquet", small_options(), stop); }), "enough");
  EXPECT_EQ(last, 200);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(VisionParquetTest, DiskThatFillsUpLeavesNothingBehind) {
  std::string message;
  {
    const FileSizeLimit limit(3000);
    message = error_of([&] { write(folder_ / "vision.parquet"); });
  }
  EXPECT_EQ(message, (folder_ / "vision.parquet").string() + ": cannot write: File too large");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(VisionParquetTest, TokensAreCountedAndCached) {
  write(folder_ / "vision.parquet");
  const Tokenizer tokenizer = Tokenizer::builtin();
  const TokenCacheKey key{"tokenizer", "dataset", "output", 1500};
  TokenCountCache cache(folder_, key);
  cache.set(7, 12345);  // known already: not counted again
  const auto reader = library_->read_texts(folder_ / "vision.parquet", "output");
  int64_t last_done = 0;
  const std::vector<int64_t> counts =
      count_tokens(*reader, tokenizer, 2, cache, [&](int64_t done) { last_done = done; });
  EXPECT_EQ(last_done, 1500);
  const std::vector<std::string> found = texts(folder_ / "vision.parquet");
  ASSERT_EQ(counts.size(), found.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto tokens = static_cast<int64_t>(tokenizer.encode(found[i], true).size());
    EXPECT_EQ(counts[i], i == 7 ? 12345 : tokens) << i;
  }
  EXPECT_TRUE(cache.complete());
  // A complete cache answers without the file being read further.
  EXPECT_EQ(count_tokens(*reader, tokenizer, 2, cache), counts);
}

TEST_F(ForeignParquetTest, TextsOfOtherWritersAreRead) {
  const std::vector<std::string> found = texts(folder_ / "text.parquet");
  ASSERT_EQ(found.size(), 1000u);
  EXPECT_EQ(found[0], "text 0");
  EXPECT_EQ(found[999], "text 999");  // behind several row groups
  EXPECT_THAT(texts(folder_ / "large.parquet"), ElementsAre("one\ntwo"));
  EXPECT_THAT(texts(folder_ / "chat.parquet"), ElementsAre("one\ntwo", ""));
  EXPECT_THAT(texts(folder_ / "plain_chat.parquet"), ElementsAre("one\ntwo"));
}

// Old writers of Parquet mark no text as such.
TEST_F(ForeignParquetTest, BytesThatAreUtf8AreTexts) {
  const Entries entries = open_entries(folder_ / "bytes.parquet");
  std::string text;
  Diagnostic problem;
  ASSERT_TRUE(entries.read_text(2, "output", text, problem));
  EXPECT_EQ(text, "zwei \u00e4");
  Json row;
  ASSERT_TRUE(entries.read_object(0, row, problem));
  EXPECT_EQ(row["messages"], Json::parse(R"([{"role": "user", "content": "a"}])"));
  EXPECT_EQ(entries.left_out(0), (std::map<std::string, std::string>{{"picture", "binary"}}));
  EXPECT_EQ(
      error_of([&] { (void)open_entries(folder_ / "late_bytes.parquet"); }),
      at("late_bytes.parquet") +
          ": output: row 401 is not UTF-8, as the first rows are; expected a column of texts");
}

TEST_F(ForeignParquetTest, NullEntriesAreNamed) {
  EXPECT_THAT(texts(folder_ / "nulls.parquet"),
              ElementsAre("one", at("nulls.parquet") + ": output: entry 2 is null; expected text",
                          "three"));
  const auto reader = library_->read_texts(folder_ / "nulls.parquet", "output");
  TokenCountCache cache(folder_, {"tokenizer", "dataset", "output", 3});
  EXPECT_EQ(error_of([&] { count_tokens(*reader, Tokenizer::builtin(), 2, cache); }),
            at("nulls.parquet") + ": output: entry 2 is null; expected text");
}

TEST_F(ForeignParquetTest, ColumnsThatHoldNoTextAreNamed) {
  EXPECT_EQ(error_of_reading("numbers.parquet"),
            at("numbers.parquet") +
                ": output: the column is int64; expected text, or chats of messages with text");
  EXPECT_THAT(error_of_reading("structs.parquet"), HasSubstr("the column is struct<name: string>"));
  EXPECT_EQ(error_of_reading("numbers.parquet", "ouputs"),
            at("numbers.parquet") +
                ": ouputs: no such column; found output, outputs; did you mean 'outputs'?");
}

TEST_F(ForeignParquetTest, FilesThatAreNotWholeAreNamed) {
  EXPECT_EQ(error_of_reading("nowhere.parquet"),
            at("nowhere.parquet") + ": cannot open: No such file or directory");
  EXPECT_EQ(error_of_reading("empty.parquet"),
            at("empty.parquet") + ": the file has no rows; expected one row per entry");
  write_file_atomic(folder_ / "bad.parquet", "{\"output\": \"text\"}\n");
  EXPECT_THAT(error_of_reading("bad.parquet"),
              StartsWith(at("bad.parquet") + ": cannot read as Parquet: Parquet magic bytes not"));
  const std::string whole = read_file(folder_ / "text.parquet");
  write_file_atomic(folder_ / "bad.parquet", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(error_of_reading("bad.parquet"),
              StartsWith(at("bad.parquet") + ": cannot read as Parquet: "));
}

TEST_F(ForeignParquetTest, DamagedPagesAreNamed) {
  std::string content = read_file(folder_ / "text.parquet");
  content.replace(content.size() / 4, 600, 600, '\xff');
  write_file_atomic(folder_ / "bad.parquet", content);
  EXPECT_THAT(error_of([&] { texts(folder_ / "bad.parquet"); }),
              StartsWith(at("bad.parquet") + ": cannot read as Parquet: "));
}

// --- how the library is found --------------------------------------------------------------------

class ParquetLibraryTest : public ::testing::Test {
 protected:
  void TearDown() override { ::unsetenv("SFTBENCH_PARQUET"); }
  std::string error_of_loading(const char* file) {
    ::setenv("SFTBENCH_PARQUET", file, 1);
    try {
      load_parquet_library();
    } catch (const RunError& error) {
      EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
      return error.what();
    }
    return "no error";
  }
};

TEST_F(ParquetLibraryTest, IsLookedForBesideTheProgramAndWhereItIsInstalled) {
  const fs::path program = fs::read_symlink("/proc/self/exe");
  EXPECT_THAT(
      parquet_library_candidates(),
      ElementsAre(program.parent_path() / "libsftbench_parquet.so",
                  program.parent_path().parent_path() / "lib/sftbench/libsftbench_parquet.so"));
}

TEST_F(ParquetLibraryTest, AbsenceNamesThePlaceAndTheCommandThatHelps) {
  EXPECT_EQ(error_of_loading("/nowhere/lib.so"),
            "reading and writing Parquet needs libsftbench_parquet.so, which was not found; looked "
            "for /nowhere/lib.so; build it with: bash experiments/setup.sh sftbench "
            "sftbench_parquet");
}

TEST_F(ParquetLibraryTest, FilesThatAreNoLibraryOfThisProgramAreNamed) {
  const std::string text_file = std::string(SFTBENCH_SOURCE_DIR) + "/CMakeLists.txt";
  EXPECT_THAT(error_of_loading(text_file.c_str()),
              StartsWith("reading and writing Parquet cannot load its library: " + text_file));
  EXPECT_EQ(error_of_loading(SFTBENCH_FAKE_NVML),
            std::string(SFTBENCH_FAKE_NVML) +
                " is no libsftbench_parquet.so of sftbench: it has no function "
                "sftbench_parquet_version");
  EXPECT_THAT(error_of_loading(SFTBENCH_OLD_PARQUET),
              HasSubstr(" is of sftbench 0.0.0, but this is sftbench "));
}

// The version stays the same while headers change.
TEST_F(ParquetLibraryTest, AnOlderBuildOfThisVersionIsNotCalled) {
  for (const char* file : {SFTBENCH_STALE_PARQUET, SFTBENCH_STALE_PARQUET_INTERFACE}) {
    EXPECT_THAT(error_of_loading(file),
                AllOf(StartsWith(std::string(file) + " is of another build of sftbench "),
                      HasSubstr(", whose interface differs from this program's: build both "
                                "together")));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
