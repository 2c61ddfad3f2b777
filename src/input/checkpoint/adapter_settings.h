// What adapter_config.json says about merging: which LoRA it is, and by how much each linear's
// delta is scaled. Everything that is wrong is found before a byte is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/checkpoint/module_pattern.h"

namespace sftbench {

inline constexpr const char* kAdapterConfig = "adapter_config.json";

// All that is wrong with an adapter and its base, to be said at once; of very many the first ones.
class MergeFindings {
 public:
  void add(const std::filesystem::path& file, const std::string& key, const std::string& message,
           const std::string& expected = {}) {
    constexpr size_t kMost = 20;
    if (all_.size() < kMost) all_.push_back(finding(file, key, message, expected));
  }
  // Nothing where the key has a finding already: what is wrong with a setting is so for all
  // linears.
  void add_once(const std::filesystem::path& file, const std::string& key,
                const std::string& message, const std::string& expected) {
    for (const Diagnostic& known : all_) {
      if (known.file == file.string() && known.key == key) return;
    }
    add(file, key, message, expected);
  }
  void throw_if_any() {
    if (!all_.empty()) throw InputError(std::move(all_));
  }

 private:
  std::vector<Diagnostic> all_;
};

// A number for the linears whose name ends in what `pattern` matches.
struct PatternNumber {
  std::string expression;
  ModulePattern pattern;
  double value = 0;
};

struct AdapterSettings {
  std::filesystem::path file;  // adapter_config.json
  double rank = 0, alpha = 0;
  bool rank_stabilized = false;
  bool magnitudes = false;                   // DoRA: each linear has one for each output
  bool transposed = false;                   // linears of the base are [in, out] (GPT-2)
  std::vector<std::string> modules_to_save;  // that the adapter has whole
  std::vector<PatternNumber> rank_pattern, alpha_pattern;  // the first that matches counts
};

// Adds what it finds. InputError where there is no adapter_config.json of a LoRA.
AdapterSettings read_adapter_settings(const std::filesystem::path& folder, MergeFindings& findings);

// What B A of the linear is multiplied by, in float32. Adds a finding, and returns 0, where the
// rank is not the one of the settings, the scaling is no finite number, or a pattern cannot be
// matched.
float scaling_of(const AdapterSettings& settings, const std::string& linear, int64_t rank,
                 MergeFindings& findings);

}  // namespace sftbench
