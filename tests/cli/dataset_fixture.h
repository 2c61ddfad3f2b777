// `sftbench dataset` called in this process, with folders of its own instead of the user's.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/dataset.h"

namespace sftbench {

namespace fs = std::filesystem;

class DatasetCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "tests", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
    ::setenv("XDG_DATA_HOME", (folder_ / "data").c_str(), 1);
    ::setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("XDG_DATA_HOME");
    ::unsetenv("XDG_CACHE_HOME");
    fs::remove_all(folder_);
  }

  // What the command prints to stdout.
  std::string run(std::vector<std::string> words) {
    CLI::App app;
    int exit_code = -1;
    const CommonOptions common;
    add_dataset_command(app, common, exit_code);
    words.insert(words.begin(), "dataset");
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    ::testing::internal::CaptureStdout();
    try {
      app.parse(words);
    } catch (...) {
      ::testing::internal::GetCapturedStdout();
      throw;
    }
    EXPECT_EQ(exit_code, 0);
    return ::testing::internal::GetCapturedStdout();
  }

  std::string error_of(const std::vector<std::string>& words) {
    try {
      run(words);
    } catch (const std::runtime_error& error) {  // InputError, RunError
      return error.what();
    }
    return "no error";
  }

  fs::path folder_ =
      fs::path(::testing::TempDir()) / ("sftbench-dataset-" + std::to_string(::getpid()));
};

}  // namespace sftbench
