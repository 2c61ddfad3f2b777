#include "plan/lora_targets.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/families/lora_fit.h"

namespace sftbench {
namespace {

constexpr uint32_t kMostMatchSteps = 1'000'000;

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

class ModulePattern {
 public:
  explicit ModulePattern(const std::string& source) : source_(source) {
    int error = 0;
    PCRE2_SIZE at = 0;
    code_.reset(
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(),
                      PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C,
                      &error, &at, nullptr));
    if (!code_) {
      refuse("is no regular expression: " + message_of(error) + " at character " +
             std::to_string(at + 1));
    }
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    context_.reset(pcre2_match_context_create(nullptr));
    pcre2_set_match_limit(context_.get(), kMostMatchSteps);
  }

  bool matches(const std::string& name) const {
    const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(name.data()),
                                  name.size(), 0, 0, match_.get(), context_.get());
    if (found >= 0) return true;
    if (found != PCRE2_ERROR_NOMATCH) refuse("cannot be matched: " + message_of(found));
    return false;
  }

  [[noreturn]] void refuse(const std::string& problem) const {
    throw RunError(ReasonCode::kUnsupported, "target_modules '" + source_ + "' " + problem);
  }

 private:
  std::string source_;
  std::unique_ptr<pcre2_code, FreeCode> code_;
  std::unique_ptr<pcre2_match_data, FreeMatch> match_;
  std::unique_ptr<pcre2_match_context, FreeContext> context_;
};

}  // namespace

std::vector<std::string> linears_that_match(const Json& hf_config, const std::string& expression) {
  const ModulePattern pattern(expression);
  std::vector<std::string> matching;
  std::set<std::string> leaves;
  const ModelConfig config = parse_model_config(hf_config);
  for (const AdaptedLinear& linear : linears_of(config, shape_of(config))) {
    leaves.insert(linear.name.substr(linear.name.rfind('.') + 1));
    if (pattern.matches(linear.name)) matching.push_back(linear.name);
  }
  if (matching.empty()) {
    pattern.refuse("matches no linear of the model from end to end; it has " +
                   join({leaves.begin(), leaves.end()}));
  }
  return matching;
}

std::vector<std::string> usual_targets(const std::string& model, const std::string& family) {
  static const std::map<std::string, std::vector<std::string>> kTargets = {
      {"bloom", {"query_key_value"}},    {"gpt_bigcode", {"c_attn"}},
      {"granite", {"q_proj", "v_proj"}}, {"granitemoe", {"q_proj", "v_proj"}},
      {"llama", {"q_proj", "v_proj"}},   {"mistral", {"q_proj", "v_proj"}},
      {"mixtral", {"q_proj", "v_proj"}}, {"qwen2", {"q_proj", "v_proj"}},
      {"qwen3", {"q_proj", "v_proj"}}};
  const auto found = kTargets.find(family);
  if (found != kTargets.end()) return found->second;
  throw RunError(ReasonCode::kUnsupported,
                 "model_name " + model +
                     ": neither config/models.yaml nor peft says which linears " + "of family " +
                     family + " adapters go to; --lora-targets all-linear, or their names, works");
}

}  // namespace sftbench
