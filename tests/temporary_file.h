// A path for a file of one test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace sftbench {

// Named after the running test. Nothing is there.
inline std::filesystem::path temporary_file(const std::string& name) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  std::string prefix = std::string(test->test_suite_name()) + "." + test->name();
  for (char& c : prefix) c = c == '/' ? '_' : c;
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / (prefix + "." + name);
  std::filesystem::remove_all(path);
  return path;
}

}  // namespace sftbench
