// What the keys of argument files say, as it is gathered: values of properties, each once, and all
// that is wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/yaml.h"
#include "sftbench/translate/argument_file.h"
#include "translate/data_configuration.h"

namespace sftbench {

class ArgumentValues {
 public:
  // From here on keys are of this file, which outlives the reading, and come before those of files
  // before it.
  void begin_file(Diagnostics& diagnostics);
  // The same, except that it has to agree with all of them.
  void begin_beside(Diagnostics& diagnostics);

  // The errors of a file, beside those of all others.
  void collect(const Diagnostics& diagnostics);

 protected:
  // A property's value. Errors: no experiment takes it, or the file says another one elsewhere.
  void put(const std::string& property, YamlNode value, const std::string& path);
  void put_text(const std::string& property, const std::string& value, const std::string& path);
  TakeValue taker();
  const GivenValue* find(const std::string& property) const;
  // What was put under a name that is no property, which is gone then; empty: nothing was.
  std::string taken(const std::string& name);

  std::string text(const YamlNode& node, const std::string& path);
  std::optional<int64_t> count(const YamlNode& node, const std::string& path);  // at least 1
  void error(const YamlNode& node, const std::string& path, const std::string& message,
             std::string expected, std::string nearest = {});
  void note(std::string text) { file_.notes.push_back(std::move(text)); }
  // Where a key stands, for people.
  std::string place(const YamlNode& node, const std::string& path) const;

  ArgumentFile file_;
  Diagnostics* diagnostics_ = nullptr;  // of the file that is read
  int line_ = 0;                        // of the key, for values that have no line of their own
  std::vector<Diagnostic> problems_;

 private:
  void check_domain(const std::string& property, const YamlNode& value, int line,
                    const std::string& path);

  size_t of_earlier_files_ = 0;  // so many of the values give way
};

}  // namespace sftbench
