// A folder with a tiny model and files of data, in which the executable is called as a user would.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cli/program.h"
#include "sftbench/base/json.h"

namespace sftbench {

namespace fs = std::filesystem;

class OwnTrainingTest : public testing::Test {
 protected:
  OwnTrainingTest() {
    fs::create_directory(folder_ / "my-llama");
    for (const char* source : {"/training/llama", "/training/tokenizer"})
      fs::copy(std::string(SFTBENCH_TEST_DATA) + source, folder_ / "my-llama");
    write("pairs.json",
          "[{\"input\": \"a\", \"output\": \"b\"},\n {\"input\": \"c\", \"output\": "
          "\"d\"}]\n");
    write("tokens.jsonl", "{\"input_ids\": [5, 6], \"labels\": [-100, 6]}\n");
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
  }

  ProgramResult program(std::vector<std::string> words, const char* command = "run") const {
    words.insert(words.begin(), command);
    return run_program(words, {{"CUDA_VISIBLE_DEVICES", ""}}, folder_);
  }

  // Of --dry-run.
  Json job(std::vector<std::string> words) const {
    words.emplace_back("--dry-run");
    const ProgramResult result = program(words);
    if (result.status != 0) throw std::runtime_error(result.err);
    return Json::parse(result.out);
  }
  Json own_job(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"--model", "my-llama", "--data", "pairs.json"});
    return job(more);
  }

  std::string refusal(std::vector<std::string> words) const {
    const ProgramResult result = program(words);
    EXPECT_EQ(result.status, 2) << result.out << result.err;
    return result.err;
  }
  std::string refusal_of_file(const std::string& text) const {
    write("arguments.yaml", text);
    return refusal({"--arguments", "arguments.yaml", "--dry-run"});
  }

  fs::path folder_ =
      fs::canonical(fresh_folder(testing::UnitTest::GetInstance()->current_test_info()->name()));
};

}  // namespace sftbench
