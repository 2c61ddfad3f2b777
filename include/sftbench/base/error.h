// Errors, in the three kinds that the program tells apart:
//   InputError  what the user gave cannot be used (exit status 2, nothing was measured);
//   RunError    a measurement ended without a result; its ReasonCode goes into the result file;
//   check()     a broken promise inside the program: a bug, reported with file and line.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sftbench {

// Why a measurement has no properties. Stable: the names stand in result files.
enum class ReasonCode {
  kOomGpu,
  kOomHost,
  kHang,
  kNccl,
  kRule1,  // kRule1..kRule7: the static rules of the experiments, in the documents' order
  kRule2,
  kRule3,
  kRule4,
  kRule5,
  kRule6,
  kRule7,
  kData,
  kWeights,
  kUnsupported,
  kTimeout,
  kKilled,
  kInternal,
};

// "OOM_GPU", "RULE_3", ... as result files spell it.
std::string_view to_string(ReasonCode code);

// One thing that is wrong with an input. Empty fields are left out of the text.
struct Diagnostic {
  std::string file;      // path as the user gave it; empty for the command line
  int line = 0;          // 1-based; 0 when unknown
  std::string key;       // dotted path of the key, e.g. entitySpace[2].propertyDomain.values
  std::string message;   // what is wrong: what was found
  std::string expected;  // what would be right
  std::string nearest;   // the nearest valid spelling
};

// What is wrong with a file, or with a key of it that has no line.
Diagnostic finding(const std::filesystem::path& file, std::string key, std::string message,
                   std::string expected = {});

// "space.yaml:12: entitySpace[2].identifier: unknown property 'batchsize'; expected ...; did you
// mean 'batch_size'?"
std::string to_string(const Diagnostic& diagnostic);

// Everything that is wrong with what the user gave, all of it at once. what() is one line each.
class InputError : public std::runtime_error {
 public:
  explicit InputError(std::vector<Diagnostic> diagnostics);
  explicit InputError(std::string message);

  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

// A measurement cannot give a result. `evidence` is the raw line that proves the reason.
class RunError : public std::runtime_error {
 public:
  RunError(ReasonCode reason_code, const std::string& message, std::string evidence_line = {});

  ReasonCode code() const { return code_; }
  const std::string& evidence() const { return evidence_; }

 private:
  ReasonCode code_;
  std::string evidence_;
};

// RunError(kUnsupported): "WHAT 'NAME' is not implemented; there are A, B; did you mean 'A'?" For
// registries.
RunError unsupported_choice(std::string_view what, const std::string& name,
                            const std::vector<std::string>& known);

// Throws std::logic_error naming the caller when a promise inside the program is broken.
// For invariants only, never for input. (std::source_location is not in clang 14, which builds the
// fuzz targets.)
void check(bool promise, std::string_view text, const char* file = __builtin_FILE(),
           int line = __builtin_LINE(), const char* function = __builtin_FUNCTION());

}  // namespace sftbench
