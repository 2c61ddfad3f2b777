#include "sftbench/plan/tracker_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "sftbench/base/error.h"
#include "temporary_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;

std::vector<TrackerSpec> parsed(const std::vector<std::string>& texts, bool several = false) {
  std::vector<GivenTracker> given;
  for (const std::string& text : texts) given.push_back({text, "--track"});
  return parse_trackers(given, several);
}

std::string problem_of(const std::vector<std::string>& texts, bool several = false) {
  try {
    parsed(texts, several);
  } catch (const InputError& error) {
    return error.what();
  }
  return "none";
}

TEST(TrackerSpecTest, HasAKindAndATarget) {
  const fs::path folder = temporary_file("folder");
  const auto specs =
      parsed({"tensorboard=" + folder.string(), "mlflow=http://user:secret@host:5000/",
              "aim-info=" + (folder / "a=b.json").string(), "jsonl=" + (folder / "x").string()});
  ASSERT_EQ(specs.size(), 4);
  EXPECT_EQ(specs[0].kind, TrackerKind::kTensorboard);
  EXPECT_EQ(specs[1].shown(), "mlflow=http://host:5000/");
  EXPECT_EQ(specs[2].target, (folder / "a=b.json").string());
  for (const TrackerSpec& spec : specs) {
    const TrackerSpec again = tracker_of(spec.text());
    EXPECT_EQ(again.kind, spec.kind);
    EXPECT_EQ(again.target, spec.target);
  }
  EXPECT_FALSE(fs::exists(folder)) << "nothing is made before a run begins";
}

TEST(TrackerSpecTest, NamesWhatIsNearAndWhatWorksInstead) {
  EXPECT_EQ(problem_of({"tensorbord=/tmp/x"}),
            "--track: unknown tracker 'tensorbord'; expected tensorboard=DIR, "
            "mlflow=http://HOST:PORT, aim-info=FILE, jsonl=FILE; did you mean 'tensorboard'?");
  EXPECT_EQ(problem_of({"wandb=project"}),
            "--track: this program does not write to 'wandb'; expected tensorboard=DIR, which "
            "`wandb sync DIR` takes");
  EXPECT_EQ(problem_of({"jsonl"}), "--track: 'jsonl' does not say where to; expected jsonl=FILE");
  EXPECT_EQ(problem_of({"mlflow="}),
            "--track: 'mlflow=' does not say where to; expected mlflow=http://HOST:PORT");
}

TEST(TrackerSpecTest, RefusesAnAddressThatIsNone) {
  for (const char* address : {"mlruns", "sqlite:///mlflow.db", "file:///tmp/x", "http://"}) {
    EXPECT_THAT(
        problem_of({std::string("mlflow=") + address}),
        testing::HasSubstr("is no address of a tracking server; expected http://HOST:PORT"));
  }
}

TEST(TrackerSpecTest, RefusesTwoThatWriteToOnePlace) {
  const std::string folder = temporary_file("folder").string();
  EXPECT_EQ(problem_of({"jsonl=" + folder + "/x", "aim-info=" + folder + "/y/../x"}),
            "--track: aim-info=" + folder + "/y/../x writes where jsonl=" + folder +
                "/x writes; expected a place for each tracker");
  EXPECT_THAT(problem_of({"mlflow=http://h:1", "mlflow=http://u:p@h:1/"}),
              testing::HasSubstr("writes where mlflow=http://h:1 writes"));
}

TEST(TrackerSpecTest, WantsAFileForEachOfManyMeasurements) {
  const std::string file = temporary_file("file").string();
  EXPECT_EQ(problem_of({"jsonl=" + file}, /*several=*/true),
            "--track: jsonl=" + file +
                " is one file, and there is a measurement for each cell; expected a name with "
                "{key}, which becomes that of the cell");
  EXPECT_EQ(problem_of({"jsonl=" + file + ".{key}"}, /*several=*/true), "none");
  EXPECT_EQ(problem_of({"jsonl=" + file + ".{entity}"}),
            "--track: " + file + ".{entity} has {entity}; expected {key}");
}

TEST(TrackerSpecTest, RefusesWhatCannotBeWritten) {
  const fs::path file = temporary_file("file");
  std::ofstream(file) << "x";
  EXPECT_EQ(problem_of({"tensorboard=" + file.string()}),
            "--track: cannot write to " + file.string() +
                "; expected a folder that can be made or written to");
  EXPECT_EQ(problem_of({"jsonl=" + (file / "below").string()}),
            "--track: cannot write " + (file / "below").string() +
                "; expected a file in a folder that can be made or written to");
  const fs::path folder = temporary_file("folder");
  fs::create_directory(folder);
  EXPECT_THAT(problem_of({"aim-info=" + folder.string()}), testing::HasSubstr("cannot write"));
  fs::create_symlink(file, folder / "link");
  EXPECT_EQ(
      problem_of({"jsonl=" + (folder / "link").string()}),
      "--track: " + (folder / "link").string() + " is a link; expected the file that it leads to");
}

TEST(TrackerSpecTest, SaysAllThatIsWrongAtOnce) {
  const std::string problems = problem_of({"wandb=x", "jsonl", "mlflow=here"});
  EXPECT_EQ(std::count(problems.begin(), problems.end(), '\n'), 2);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
