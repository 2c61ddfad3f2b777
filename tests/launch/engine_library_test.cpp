#include "sftbench/launch/engine_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "sftbench/base/error.h"
#include "sftbench/base/build_info.h"

namespace sftbench {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string message_of_load(const std::vector<std::filesystem::path>& candidates) {
  try {
    load_engine(candidates);
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
    return error.what();
  }
  return "no error";
}

TEST(EngineLibraryTest, LoadsTheFirstCandidateThatExists) {
  const auto engine = load_engine({"/nowhere/libsftbench_engine.so", SFTBENCH_FAKE_ENGINE});
  EXPECT_EQ(engine->environment()["libtorch"], "0.0-fake");
}

TEST(EngineLibraryTest, AMissingLibraryNamesThePlaces) {
  EXPECT_EQ(message_of_load({"/nowhere/a.so", "/nowhere/b.so"}),
            "training needs libsftbench_engine.so, which was not found; looked for /nowhere/a.so, "
            "/nowhere/b.so; `sftbench doctor` tells what is missing");
}

TEST(EngineLibraryTest, ALibraryThatCannotBeLoadedGivesTheLoadersReason) {
  const std::string source = std::string(SFTBENCH_SOURCE_DIR) + "/CMakeLists.txt";
  const std::string message = message_of_load({source});
  EXPECT_THAT(message, StartsWith("training cannot load its library: " + source + ": "));
  EXPECT_THAT(message, HasSubstr("sftbench doctor"));
}

TEST(EngineLibraryTest, ALibraryThatIsNoEngineIsNamed) {
  EXPECT_EQ(message_of_load({SFTBENCH_FAKE_NVML}),
            std::string(SFTBENCH_FAKE_NVML) +
                " is no libsftbench_engine.so of sftbench: it has no function "
                "sftbench_engine_version");
}

TEST(EngineLibraryTest, AnotherVersionNamesBoth) {
  setenv("FAKE_ENGINE_VERSION", "9.9.9", 1);
  const std::string message = message_of_load({SFTBENCH_FAKE_ENGINE});
  unsetenv("FAKE_ENGINE_VERSION");
  EXPECT_EQ(message, std::string(SFTBENCH_FAKE_ENGINE) +
                         " is of sftbench 9.9.9, but this is sftbench " + build_info().version +
                         ": build both together");
}

TEST(EngineLibraryTest, TheEnvironmentVariableReplacesTheSearch) {
  setenv("SFTBENCH_ENGINE", "/some/engine.so", 1);
  EXPECT_THAT(engine_library_candidates(), testing::ElementsAre("/some/engine.so"));
  unsetenv("SFTBENCH_ENGINE");
  ASSERT_EQ(engine_library_candidates().size(), 2u);
  EXPECT_EQ(engine_library_candidates()[0].filename(), "libsftbench_engine.so");
}

TEST(BuildInfoTest, TheVersionTextNamesAllThatMatters) {
  const BuildInfo& info = build_info();
  EXPECT_THAT(version_text(), StartsWith("sftbench " + info.version + " (commit " + info.commit));
  EXPECT_THAT(version_text(), HasSubstr(info.build_type));
  EXPECT_THAT(version_text(), HasSubstr(info.compiler));
}

}  // namespace
}  // namespace sftbench
