// `sftbench run` with the real engine: a tiny Llama on one CPU rank, eight short entries.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "cli/program.h"

namespace sftbench {

class TrainedRunTest : public ::testing::Test {
 protected:
  TrainedRunTest() {
    const std::filesystem::path model = folder_ / "model";
    std::filesystem::create_directory(model);
    for (const std::filesystem::path& source :
         {std::filesystem::path(SFTBENCH_TEST_DATA) / "models" / "llama_plain",
          std::filesystem::path(SFTBENCH_SOURCE_DIR) / "datasets/tokenizer"}) {
      std::filesystem::copy(source, model);
    }
    std::filesystem::create_directory(folder_ / "data");
    std::ofstream dataset(folder_ / "data" / "news-tokens-16384plus-entries-4096.jsonl");
    for (int i = 0; i < 8; ++i) {
      dataset << R"({"output": "### Input:\n word )" << i
              << R"( \n\n### Response: words of the day"})"
              << "\n";
    }
    std::ofstream(folder_ / "config.yaml")
        << "parameters:\n  data_directory: " << (folder_ / "data").string()
        << "\n  model_map: {tiny: " << model.string() << "}\n";
  }

  ProgramResult run(const std::vector<std::string>& more, int steps,
                    const std::string& command = "run",
                    std::map<std::string, std::string> environment = {}) const {
    std::vector<std::string> words = {command, "--experiment", "finetune_full_benchmark-v1.0.0"};
    for (const std::string& setting :
         {std::string("model_name=tiny"), std::string("model_max_length=32"),
          std::string("batch_size=2"), std::string("gradient_accumulation_steps=1"),
          std::string("number_gpus=0"), "max_steps=" + std::to_string(steps)}) {
      words.insert(words.end(), {"--set", setting});
    }
    words.insert(words.end(), {"--config", (folder_ / "config.yaml").string(), "--threads", "1",
                               "--format", "json", "-o", results_.string()});
    words.insert(words.end(), more.begin(), more.end());
    environment["SFTBENCH_ENGINE"] = "";
    return run_program(words, environment);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  std::filesystem::path folder_ =
      fresh_folder(::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name());
  std::filesystem::path results_ = folder_ / "results";  // of -o
};

}  // namespace sftbench
