// YAML documents as plain trees in which every node knows its line.
// Scalars are resolved by YAML 1.1 as PyYAML does it (`no` is false, `1e-5` is text, `0x10` is 16),
// because that is how ado reads the same files; the text as written is kept beside the value.
// Aliases are copied, `<<` merges, and the keys of a !!set are a list. A budget of nodes and
// nesting makes hostile files an error instead of a hang.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"

namespace sftbench {

struct YamlMember;

struct YamlNode {
  enum class Kind { kScalar, kSequence, kMapping };

  Kind kind = Kind::kScalar;
  int line = 0;      // 1-based; 0: not from a file
  Json value;        // scalars: null, bool, integer, float or string
  std::string text;  // scalars: as written
  bool plain =
      false;  // scalars: not quoted, so that `no` or 1e3 may mean something else than their text
  std::vector<YamlNode> items;      // sequences
  std::vector<YamlMember> members;  // mappings, in file order

  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_sequence() const { return kind == Kind::kSequence; }
  bool is_mapping() const { return kind == Kind::kMapping; }
  bool is_null() const { return is_scalar() && value.is_null(); }

  // The member of this name; nullptr when there is none or this is no mapping.
  const YamlNode* find(std::string_view key) const;
  std::vector<std::string> keys() const;
};

struct YamlMember {
  std::string key;
  YamlNode node;
};

// "text 'abc'", "the list [1, 2]", "nothing": how error messages name what was found (shortened).
std::string describe(const YamlNode& node);

// The node without lines: scalars as resolved, lists and mappings as JSON.
Json to_json(const YamlNode& node);

// The one document of `text`. InputError (origin, line) for a syntax error, several documents, a
// key that stands twice, an alias of itself, more than 1,000,000 nodes or nesting deeper than 100.
YamlNode parse_yaml(std::string_view text, const std::string& origin);
YamlNode read_yaml_file(const std::string& path);

// A plain scalar's value by YAML 1.1; what --set uses, too.
Json resolve_yaml_scalar(const std::string& text);

// The value of a scalar with a tag, as PyYAML constructs it: !!float 2 is 2.0, !!int '0x10' is 16.
// Nothing when the text is none of the type: str, int, float, bool, null.
std::optional<Json> yaml_scalar_of_type(const std::string& text, const std::string& type);
bool is_yaml_scalar_type(const std::string& type);

// Collects everything that is wrong with one input, so that all of it can be shown at once.
class Diagnostics {
 public:
  explicit Diagnostics(std::string file) : file_(std::move(file)) {}

  // Keys and messages may hold what a stranger wrote: they are kept on one line and shortened.
  void error(int line, const std::string& key, const std::string& message,
             std::string expected = {}, std::string nearest = {});
  void error(const YamlNode& node, const std::string& key, const std::string& message,
             std::string expected = {}, std::string nearest = {}) {
    error(node.line, key, message, std::move(expected), std::move(nearest));
  }
  void warning(int line, const std::string& key, const std::string& message,
               std::string expected = {}, std::string nearest = {});

  // An error for each member of `mapping` that is not among `known`.
  void unknown_keys(const YamlNode& mapping, const std::string& path,
                    const std::vector<std::string>& known);

  // Those of `other`, as if they had been found here.
  void add_errors(const Diagnostics& other);

  const std::string& file() const { return file_; }
  bool failed() const { return !errors_.empty(); }
  // Enough is enough: errors and warnings beyond the first hundred are counted, not kept.
  bool full() const { return errors_.size() >= kMaxKept; }
  const std::vector<Diagnostic>& errors() const { return errors_; }
  const std::vector<Diagnostic>& warnings() const { return warnings_; }

  // InputError with all errors, if there is one.
  void throw_if_failed() const;

 private:
  static constexpr size_t kMaxKept = 100;

  std::string file_;
  std::vector<Diagnostic> errors_;
  std::vector<Diagnostic> warnings_;
  size_t dropped_ = 0;
};

}  // namespace sftbench
