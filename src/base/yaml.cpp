#include "sftbench/base/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <unordered_set>

#include "sftbench/base/file.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr size_t kMaxBytes = size_t{16} << 20;
constexpr size_t kMaxNodes = 1'000'000;
constexpr size_t kMaxDepth = 100;

constexpr std::string_view kCoreTag = "tag:yaml.org,2002:";

int line_of(const YAML::Mark& mark) {
  return mark.is_null() ? 0 : mark.line + 1;
}

// The parser passes bytes through; everything behind it (JSON, terminals) expects UTF-8.
bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || i + length > text.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xC0) != 0x80) return false;
    }
    // Longer forms than needed, surrogates, and what lies beyond U+10FFFF show in the second byte.
    const auto second = length > 1 ? static_cast<unsigned char>(text[i + 1]) : 0;
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0)) return false;
    if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90)) return false;
    i += length;
  }
  return true;
}

// For messages: of one line, without what a terminal would obey, and no longer than `most` bytes.
std::string shown(const std::string& text, size_t most) {
  std::string line;
  for (char c : text.substr(0, most)) {
    const auto byte = static_cast<unsigned char>(c);
    line += byte < 0x20 || byte == 0x7F ? ' ' : c;
  }
  if (text.size() <= most) return line;
  while (!line.empty() && (static_cast<unsigned char>(text[line.size()]) & 0xC0) == 0x80)
    line.pop_back();  // not within a character
  return line + "...";
}

constexpr size_t kShownValue = 60;
constexpr size_t kShownMessage = 400;

// PyYAML ends a line at CR, CR LF and NEL, too; the library knows the first two only in part.
std::string with_line_feeds(std::string_view text) {
  std::string lines;
  lines.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') {
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
      lines += '\n';
    } else if (text.compare(i, 2, "\xC2\x85") == 0) {
      lines += '\n';
      ++i;
    } else {
      lines += text[i];
    }
  }
  return lines;
}

// Where the parser gives up: one error that ends the reading.
struct Fatal {
  int line;
  std::string message;
};

// In JSON, which is read as YAML, a character beyond the first 65,536 is two escapes, as
// "\ud83d\ude00". YAML has one for it: "\U0001f600".
std::string with_whole_characters(std::string text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || (text[first] != '{' && text[first] != '[')) return text;
  constexpr size_t kEscape = 6;  // characters
  const auto unit = [&](size_t at) {
    unsigned value = 0;
    const bool there = text.compare(at, 2, "\\u") == 0 && at + kEscape <= text.size();
    const char* digits = text.data() + at + 2;
    return there && std::from_chars(digits, digits + 4, value, 16).ptr == digits + 4 ? value : 0U;
  };
  for (size_t at = text.find('\\'); at != std::string::npos; at = text.find('\\', at + 2)) {
    const unsigned high = unit(at), low = unit(at + kEscape);
    if ((high & 0xfc00U) != 0xd800U || (low & 0xfc00U) != 0xdc00U) continue;
    char whole[11];
    std::snprintf(whole, sizeof whole, "\\U%08x",
                  0x10000U + ((high & 0x3ffU) << 10) + (low & 0x3ffU));
    text.replace(at, 2 * kEscape, whole);
  }
  return text;
}

// Builds the tree from the parser's events. The library's own node tree shares what aliases name,
// so that a few lines can stand for billions of nodes; here each copy is paid from a budget.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& origin) : diagnostics_(origin) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node;
    node.line = line_of(mark);
    node.plain = true;
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      throw Fatal{line_of(mark), "an alias stands inside the node that it names"};
    spend(found->second, line_of(mark), open_.size());
    place(YamlNode(found->second));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (!is_utf8(value)) throw Fatal{line_of(mark), "a text is not UTF-8"};
    YamlNode node;
    node.line = line_of(mark);
    node.text = value;
    node.plain = tag == "?";
    node.value = tagged(value, tag, node.line);
    add(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::kSequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::kMapping, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

  YamlNode take() {
    diagnostics_.throw_if_failed();
    return std::move(root_);
  }

 private:
  struct Open {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    bool set = false;                      // !!set {a, b}: a mapping whose keys are what counts
    std::optional<YamlNode> key;           // a mapping's key that waits for its value
    std::unordered_set<std::string> seen;  // a mapping's keys, merged ones not counted
    std::vector<YamlNode> merges;          // values of `<<`
  };

  static Json tagged(const std::string& text, const std::string& tag, int line) {
    if (tag == "?") return resolve_yaml_scalar(text);
    if (tag == "!") return text;
    if (tag.rfind(kCoreTag, 0) == 0) {
      const std::string type = tag.substr(kCoreTag.size());
      if (const std::optional<Json> value = yaml_scalar_of_type(text, type)) return *value;
      if (is_yaml_scalar_type(type))
        throw Fatal{line, "'" + shown(text, kShownValue) + "' is no value of the tag !!" + type};
    }
    throw Fatal{line, "the tag '" + tag.substr(0, 60) + "' is not supported"};
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    const bool set = kind == YamlNode::Kind::kMapping && tag == std::string(kCoreTag) + "set";
    const bool usual = tag == "?" || tag == "!" || tag.empty() || set ||
                       tag == std::string(kCoreTag) + "map" || tag == std::string(kCoreTag) + "seq";
    if (!usual) throw Fatal{line_of(mark), "the tag '" + tag.substr(0, 60) + "' is not supported"};
    if (open_.size() >= kMaxDepth) {
      throw Fatal{line_of(mark), "nested deeper than " + std::to_string(kMaxDepth) + " levels"};
    }
    Open frame;
    frame.node.kind = kind;
    frame.node.line = line_of(mark);
    frame.anchor = anchor;
    frame.set = set;
    open_.push_back(std::move(frame));
  }

  void close() {
    Open frame = std::move(open_.back());
    open_.pop_back();
    merge(frame);
    if (frame.set) frame.node.kind = YamlNode::Kind::kSequence;
    add(std::move(frame.node), frame.anchor);
  }

  // Mappings named by `<<` lend the members that the mapping itself does not have; earlier ones
  // win. They come first, as in PyYAML.
  static void merge(Open& frame) {
    std::vector<YamlMember> lent;
    for (YamlNode& source : frame.merges) {
      for (auto& member : source.members) {
        if (frame.seen.insert(member.key).second) lent.push_back(std::move(member));
      }
    }
    frame.node.members.insert(frame.node.members.begin(), std::make_move_iterator(lent.begin()),
                              std::make_move_iterator(lent.end()));
  }

  void add(YamlNode node, YAML::anchor_t anchor) {
    if (++spent_ > kMaxNodes) too_many(node.line);
    if (anchor != 0) {
      spend(node, node.line, open_.size());
      anchors_[anchor] = node;
    }
    place(std::move(node));
  }

  void place(YamlNode node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& frame = open_.back();
    if (frame.node.is_sequence()) {
      frame.node.items.push_back(std::move(node));
    } else if (!frame.key) {
      if (!node.is_scalar()) throw Fatal{node.line, "a key is a list or a mapping; expected text"};
      frame.key = std::move(node);
    } else {
      YamlNode key = *std::exchange(frame.key, std::nullopt);
      if (frame.set) {
        // PyYAML makes a Python set of the keys; in a list of values each stands as it is written.
        if (frame.seen.insert(key.text).second) frame.node.items.push_back(std::move(key));
      } else if (key.text == "<<" && key.plain) {
        add_merge(frame, std::move(node));
      } else if (frame.seen.insert(key.text).second) {
        frame.node.members.push_back({key.text, std::move(node)});
      } else {
        diagnostics_.error(key, key.text, "this key stands twice in one mapping");
      }
    }
  }

  static void add_merge(Open& frame, YamlNode node) {
    if (node.is_mapping()) {
      frame.merges.push_back(std::move(node));
      return;
    }
    const bool mappings =
        node.is_sequence() && std::all_of(node.items.begin(), node.items.end(),
                                          [](const YamlNode& n) { return n.is_mapping(); });
    if (!mappings) throw Fatal{node.line, "'<<' merges mappings, not " + describe(node)};
    for (YamlNode& item : node.items) frame.merges.push_back(std::move(item));
  }

  void spend(const YamlNode& node, int line, size_t depth) {
    if (depth > kMaxDepth)
      throw Fatal{line, "nested deeper than " + std::to_string(kMaxDepth) + " levels"};
    if (++spent_ > kMaxNodes) too_many(line);
    for (const YamlNode& item : node.items) spend(item, line, depth + 1);
    for (const auto& member : node.members) spend(member.node, line, depth + 1);
  }

  [[noreturn]] static void too_many(int line) {
    throw Fatal{line,
                "more than " + std::to_string(kMaxNodes) + " nodes, copies by alias included"};
  }

  Diagnostics diagnostics_;
  YamlNode root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, YamlNode> anchors_;
  size_t spent_ = 0;
};

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const auto& [name, node] : members) {
    if (name == key) return &node;
  }
  return nullptr;
}

std::vector<std::string> YamlNode::keys() const {
  std::vector<std::string> names;
  for (const auto& member : members) names.push_back(member.key);
  return names;
}

std::string describe(const YamlNode& node) {
  if (node.is_mapping()) return "a mapping";
  if (node.is_sequence()) {
    return node.items.empty() ? "an empty list" : "a list of " + std::to_string(node.items.size());
  }
  if (node.value.is_null()) return "nothing";
  if (node.value.is_string()) return "'" + shown(node.text, kShownValue) + "'";
  return shown(node.text, kShownValue);
}

Json to_json(const YamlNode& node) {
  if (node.is_scalar()) return node.value;
  Json json = node.is_sequence() ? Json::array() : Json::object();
  for (const YamlNode& item : node.items) json.push_back(to_json(item));
  for (const auto& [key, member] : node.members) json[key] = to_json(member);
  return json;
}

YamlNode parse_yaml(std::string_view text, const std::string& origin) {
  Diagnostics diagnostics(origin);
  TreeBuilder builder(origin);
  if (text.size() > kMaxBytes) {
    diagnostics.error(0, {}, "larger than " + std::to_string(kMaxBytes >> 20) + " MiB");
  } else {
    std::istringstream stream{with_whole_characters(with_line_feeds(text))};
    try {
      YAML::Parser parser(stream);
      parser.HandleNextDocument(builder);
      TreeBuilder rest(origin);
      if (parser.HandleNextDocument(rest))
        diagnostics.error(0, {}, "several YAML documents; expected one");
    } catch (const Fatal& fatal) {
      diagnostics.error(fatal.line, {}, fatal.message);
    } catch (const YAML::Exception& error) {
      diagnostics.error(line_of(error.mark), {}, "not YAML: " + error.msg);
    }
  }
  diagnostics.throw_if_failed();
  return builder.take();
}

YamlNode read_yaml_file(const std::string& path) {
  return parse_yaml(read_file(path, kMaxBytes), path);
}

void Diagnostics::error(int line, const std::string& key, const std::string& message,
                        std::string expected, std::string nearest) {
  if (full()) {
    ++dropped_;
    return;
  }
  errors_.push_back({file_, line, shown(key, kShownMessage), shown(message, kShownMessage),
                     std::move(expected), std::move(nearest)});
}

void Diagnostics::warning(int line, const std::string& key, const std::string& message,
                          std::string expected, std::string nearest) {
  if (warnings_.size() >= kMaxKept) return;
  warnings_.push_back({file_, line, shown(key, kShownMessage), shown(message, kShownMessage),
                       std::move(expected), std::move(nearest)});
}

void Diagnostics::add_errors(const Diagnostics& other) {
  for (const Diagnostic& found : other.errors_)
    error(found.line, found.key, found.message, found.expected, found.nearest);
  dropped_ += other.dropped_;
}

void Diagnostics::unknown_keys(const YamlNode& mapping, const std::string& path,
                               const std::vector<std::string>& known) {
  for (const auto& [key, node] : mapping.members) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    error(node, path.empty() ? key : path + "." + key, "unknown key", "one of " + join(known),
          full() ? std::string() : nearest_spelling(key, known));
  }
}

void Diagnostics::throw_if_failed() const {
  if (!failed()) return;
  std::vector<Diagnostic> shown = errors_;
  if (dropped_ > 0) {
    Diagnostic rest;
    rest.file = file_;
    rest.message = "and " + std::to_string(dropped_) + " more errors";
    shown.push_back(std::move(rest));
  }
  throw InputError(std::move(shown));
}

}  // namespace sftbench
