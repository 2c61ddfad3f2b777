// Reads typed fields of one JSON object and collects what is wrong with them, so that all of it is
// told at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"

namespace sftbench {

// Sizes above this are typing errors; below it, no product of two of them overflows.
inline constexpr int64_t kMaxExtent = int64_t{1} << 31;

inline constexpr const char* kQuantizationConfig = "quantization_config";

class ConfigFields {
 public:
  // `prefix` stands before keys in messages ("rope_scaling."). Both references must outlive this.
  ConfigFields(const Json& object, std::string origin, std::string prefix,
               std::vector<Diagnostic>& findings)
      : object_(object),
        origin_(std::move(origin)),
        prefix_(std::move(prefix)),
        findings_(findings) {}

  // The fields of an object inside this one, which must outlive the result.
  ConfigFields of(const Json& inner, const std::string& prefix) const {
    return {inner, origin_, prefix_ + prefix, findings_};
  }

  // The value, or nullptr when absent or null: Hugging Face writes null for "not set".
  const Json* find(const std::string& key) const;
  bool is_null(const std::string& key) const;

  // Each returns the default when absent, and also, with a finding, when the value is unusable.
  // Those without default add a finding when absent.
  int64_t extent(const std::string& key);
  int64_t extent(const std::string& key, int64_t otherwise);
  double number(const std::string& key, double otherwise, double above,
                const std::string& expected);
  double positive(const std::string& key, double otherwise);
  std::optional<double> optional_positive(const std::string& key);
  double required_positive(const std::string& key);
  bool boolean(const std::string& key, bool otherwise);
  std::string text(const std::string& key, const std::string& otherwise);

  void add(const std::string& key, std::string message, std::string expected = {},
           std::string nearest = {});

 private:
  const Json& object_;
  std::string origin_;
  std::string prefix_;
  std::vector<Diagnostic>& findings_;
};

// A value as it goes into a message: at most one short line.
std::string shown(const Json& value);

}  // namespace sftbench
