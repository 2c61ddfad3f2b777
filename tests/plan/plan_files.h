// A temporary folder, environment variables that are put back, and small requests, for the tests of
// plan/.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "sftbench/base/file.h"
#include "sftbench/plan/resolve.h"
#include "sftbench/space/space.h"

namespace sftbench {

// HOME and all that points to models and settings lead into an empty temporary folder.
class PlanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::temp_directory_path() /
              ("sftbench-plan-" + std::to_string(::getpid()) + "-" + name);
    std::filesystem::create_directories(folder_);
    for (const char* variable : {"HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME",
                                 "SFTTRAINER_PARAMETERS_FILE"}) {
      set(variable, nullptr);
    }
    set("HOME", folder_.c_str());
  }

  void TearDown() override {
    for (const auto& [name, value] : before_) {
      value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
    }
    std::filesystem::remove_all(folder_);
  }

  void set(const char* name, const char* value) {
    const char* old = std::getenv(name);
    before_.emplace(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
    value != nullptr ? ::setenv(name, value, 1) : ::unsetenv(name);
  }

  std::string file(const std::string& name, const std::string& content) {
    write_file_atomic(folder_ / name, content);
    return (folder_ / name).string();
  }

  // A model folder as Hugging Face saves it.
  std::string model_folder(const std::string& name, const std::string& model_type = "llama") {
    file(name + "/config.json", R"({"model_type": ")" + model_type + R"(", "hidden_size": 8,
         "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16, "vocab_size": 9})");
    file(name + "/model.safetensors", "");
    file(name + "/tokenizer.json", "{}");
    return (folder_ / name).string();
  }

  // The whole message of the error: "CODE: message [evidence]"; "no error" when there is none.
  template <typename Body>
  static std::string error_of(const Body& body) {
    try {
      body();
    } catch (const RunError& error) {
      const std::string evidence = error.evidence().empty() ? "" : " [" + error.evidence() + "]";
      return std::string(to_string(error.code())) + ": " + error.what() + evidence;
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  }

  static MeasurementRequest request(
      const std::vector<std::string>& more = {},
      const std::string& experiment = "finetune_full_benchmark-v1.0.0") {
    SpaceOptions options;
    options.experiment = experiment;
    options.extra_models = {"my-3b", "ai21labs/Jamba-v0.1", "Qwen/Qwen2.5-3B",
                            "mistralai/Mixtral-8x7B-v0.1", "meta-llama/Llama-3.1-8B"};
    options.assignments = more;
    for (const char* required :
         {"model_name=smollm2-135m", "number_gpus=0", "model_max_length=512", "batch_size=6"}) {
      const std::string name = std::string(required).substr(0, std::string(required).find('=') + 1);
      bool given = false;
      for (const std::string& text : more) given = given || text.rfind(name, 0) == 0;
      if (!given) options.assignments.emplace_back(required);
    }
    const Space space = space_from_assignments(Catalog::shipped(), options);
    return make_request(space.entity(0), space.experiments.front());
  }

  std::filesystem::path folder_;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace sftbench
