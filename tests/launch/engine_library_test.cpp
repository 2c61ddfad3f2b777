#include "sftbench/launch/engine_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sftbench/base/build_info.h"
#include "sftbench/base/error.h"
#include "temporary_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

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
  const std::vector<std::filesystem::path> candidates = {"/nowhere/libsftbench_engine.so",
                                                         SFTBENCH_FAKE_ENGINE};
  const auto engine = load_engine(candidates);
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

// Of the same version, but with other virtual functions or structs.
TEST(EngineLibraryTest, AnotherInterfaceIsAnotherBuild) {
  setenv("FAKE_ENGINE_INTERFACE", "0123456789ab", 1);
  const std::string message = message_of_load({SFTBENCH_FAKE_ENGINE});
  unsetenv("FAKE_ENGINE_INTERFACE");
  EXPECT_EQ(message, std::string(SFTBENCH_FAKE_ENGINE) + " is of another build of sftbench " +
                         build_info().version +
                         ", whose interface differs from this program's: build both together");
}

// site-packages, as pip fills it.
TEST(EngineLibraryTest, AnEngineOfAWheelTakesTheTorchThatItWasBuiltFor) {
  const std::filesystem::path packages = temporary_file("site-packages");
  const std::filesystem::path folder = packages / "sftbench_engine";
  std::filesystem::create_directories(folder);
  const std::filesystem::path engine = folder / "libsftbench_engine.so";
  std::filesystem::copy_file(SFTBENCH_FAKE_ENGINE, engine);
  std::ofstream(folder / "torch") << "2.11\n";
  const std::string needs =
      engine.string() + " needs torch 2.11, and the torch of " + packages.string() + " is ";
  const std::string advice = ": pip install 'torch==2.11.*'";

  EXPECT_EQ(message_of_load({engine}), needs + "none" + advice);
  std::filesystem::create_directory(packages / "torch-2.1.2+cpu.dist-info");
  EXPECT_EQ(message_of_load({engine}), needs + "2.1.2+cpu" + advice);
  std::filesystem::create_directory(packages / "torch-2.11.0+cpu.dist-info");
  EXPECT_EQ(load_engine(std::vector{engine})->environment()["libtorch"], "0.0-fake");
}

TEST(EngineLibraryTest, TheEnvironmentVariableReplacesTheSearch) {
  setenv("SFTBENCH_ENGINE", "/some/engine.so", 1);
  EXPECT_THAT(engine_library_candidates("cpu"), testing::ElementsAre("/some/engine.so"));
  EXPECT_THAT(engine_library_candidates("cuda"), testing::ElementsAre("/some/engine.so"));
  unsetenv("SFTBENCH_ENGINE");
}

TEST(EngineLibraryTest, EachDeviceHasALibraryAndTakesTheOtherWhereItIsMissing) {
  unsetenv("SFTBENCH_ENGINE");
  const auto names = [](const std::string& device) {
    std::vector<std::string> found;
    for (const auto& path : engine_library_candidates(device)) found.push_back(path.filename());
    return found;
  };
  const std::string cpu = "libsftbench_engine.so", cuda = "libsftbench_engine_cuda.so";
  EXPECT_THAT(names("cpu"), testing::ElementsAre(cpu, cpu, cuda, cuda));
  EXPECT_THAT(names("cuda"), testing::ElementsAre(cuda, cuda, cpu, cpu));
}

TEST(BuildInfoTest, TheVersionTextNamesAllThatMatters) {
  const BuildInfo& info = build_info();
  EXPECT_THAT(version_text(), StartsWith("sftbench " + info.version + " (commit " + info.commit));
  EXPECT_THAT(version_text(), HasSubstr(info.build_type));
  EXPECT_THAT(version_text(), HasSubstr(info.compiler));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
