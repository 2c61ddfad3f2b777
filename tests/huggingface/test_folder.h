// A folder for the running test alone: tests run side by side.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace sftbench {

inline std::filesystem::path test_folder() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) /
      (std::string("sftbench_") + test->test_suite_name() + "_" + test->name());
  std::filesystem::remove_all(folder);
  return folder;
}

}  // namespace sftbench
