// Typed access to the members of one YAML mapping. What is missing, of the wrong type or not asked
// for becomes a diagnostic, and reading goes on, so that a file shows all its errors at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/yaml.h"

namespace sftbench {

enum class Presence { kRequired, kOptional };

class Fields {
 public:
  // `path` is the dotted key of the mapping itself; empty for a whole document.
  // `node` and `diagnostics` must outlive this object.
  Fields(const YamlNode& node, std::string path, Diagnostics& diagnostics);

  // The member, marked as known; nullptr when it is absent (or, for typed ones, of another type).
  const YamlNode* any(const std::string& key, Presence presence = Presence::kRequired);
  const YamlNode* mapping(const std::string& key, Presence presence = Presence::kRequired);
  const YamlNode* sequence(const std::string& key, Presence presence = Presence::kRequired);

  std::string text(const std::string& key, Presence presence = Presence::kRequired);
  std::vector<std::string> texts(const std::string& key, Presence presence = Presence::kRequired);
  std::optional<double> number(const std::string& key, Presence presence = Presence::kRequired);
  std::optional<int64_t> integer(const std::string& key, Presence presence = Presence::kRequired);
  bool boolean(const std::string& key, bool otherwise);

  // An error for each member that none of the calls above asked for.
  void reject_unknown();

  std::string path(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

 private:
  void wrong_type(const std::string& key, const YamlNode& found, const std::string& expected);

  const YamlNode& node_;
  std::string path_;
  Diagnostics& diagnostics_;
  std::vector<std::string> known_;
};

}  // namespace sftbench
