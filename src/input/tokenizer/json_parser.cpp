#include "tokenizer/json_parser.h"

#include <algorithm>
#include <limits>

namespace sftbench {
namespace {

constexpr size_t kDeepest = 64;
// Json looks members up one by one; outside the vocabulary no object of a tokenizer.json has many.
constexpr size_t kMostMembers = 4096;

// Receives nlohmann's parser events.
class Events final : public nlohmann::json_sax<Json> {
 public:
  Events(std::string_view text, TokenizerJson& result, TokenizerProblems& problems)
      : text_(text), result_(result), problems_(problems) {}

  bool null() override { return value(nullptr, "null"); }
  bool boolean(bool v) override { return value(v, "a boolean"); }
  bool number_integer(number_integer_t v) override { return value(v, "a negative number"); }
  bool number_float(number_float_t v, const string_t&) override { return value(v, "a fraction"); }
  bool binary(binary_t&) override { return false; }  // not in JSON text

  bool number_unsigned(number_unsigned_t v) override {
    if (place_ != Place::kVocabulary) return value(v, "a number");
    if (v > static_cast<uint64_t>(std::numeric_limits<int32_t>::max() - 1)) {
      problems_.add("model.vocab." + key_, "has id " + std::to_string(v), "an id below 2147483647");
    } else {
      result_.vocabulary.insert(key_, static_cast<int32_t>(v));
    }
    return true;
  }

  bool string(string_t& v) override {
    switch (place_) {
      case Place::kMerges:
        legacy_merge(v);
        return true;
      case Place::kMergePair:
        if (pair_size_++ < 2) result_.merge_pairs.add(v);
        return true;
      default:
        return value(std::move(v), "a string");
    }
  }

  bool key(string_t& v) override {
    key_.swap(v);
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kElsewhere && in_model() && key_ == "vocab") {
      result_.vocabulary = TokenTable();
      result_.has_vocabulary = true;
      place_ = Place::kVocabulary;
      return true;
    }
    if (place_ != Place::kElsewhere) return misplaced("an object");
    return open(Json::object());
  }

  bool end_object() override {
    if (place_ == Place::kVocabulary) {
      place_ = Place::kElsewhere;
      return true;
    }
    open_.pop_back();
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::kElsewhere && in_model() && key_ == "merges") {
      result_.merge_pairs.clear();
      result_.has_merges = true;
      merges_ = 0;
      place_ = Place::kMerges;
      return true;
    }
    if (place_ == Place::kMerges) {
      place_ = Place::kMergePair;
      pair_size_ = 0;
      return true;
    }
    if (place_ != Place::kElsewhere) return misplaced("a list");
    return open(Json::array());
  }

  bool end_array() override {
    if (place_ == Place::kMergePair) {
      place_ = Place::kMerges;
      if (pair_size_ != 2) {
        problems_.add(merge_path(), "is a list of " + std::to_string(pair_size_), "two tokens");
        if (pair_size_ < 2) return false;
      }
      ++merges_;
      return true;
    }
    if (place_ == Place::kMerges) {
      place_ = Place::kElsewhere;
      return true;
    }
    open_.pop_back();
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    throw InputError({json_diagnostic(problems_.file(), text_, position, error)});
  }

 private:
  enum class Place { kElsewhere, kVocabulary, kMerges, kMergePair };

  std::string merge_path() const { return "model.merges[" + std::to_string(merges_) + "]"; }

  // Right inside the object that stands under the top-level key "model".
  bool in_model() const { return open_.size() == 2 && in_model_; }

  // A container in the vocabulary or in a merge: nothing behind it can be placed, so reading ends.
  bool misplaced(const std::string& what) {
    if (place_ == Place::kVocabulary) {
      problems_.add("model.vocab." + key_, "is " + what, "an id");
    } else {
      problems_.add(merge_path(), "holds " + what, "a string or two strings");
    }
    return false;
  }

  bool open(Json container) {
    if (open_.size() == kDeepest) {
      problems_.add(key_, "is nested too deep");
      return false;
    }
    if (open_.size() == 1) in_model_ = key_ == "model";
    open_.push_back(place(std::move(container)));
    return open_.back() != nullptr;
  }

  template <typename Value>
  bool value(Value&& v, const char* what) {
    if (place_ != Place::kElsewhere) return misplaced(what);
    return place(Json(std::forward<Value>(v))) != nullptr;
  }

  Json* place(Json v) {
    if (open_.empty()) {
      result_.rest = std::move(v);
      return &result_.rest;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(v));
      return &parent.back();
    }
    if (parent.size() == kMostMembers) {
      problems_.add(key_, "stands in an object with too many members");
      return nullptr;
    }
    Json& member = parent[key_];  // a key that comes again replaces its value
    member = std::move(v);
    return &member;
  }

  void legacy_merge(const std::string& text) {
    if (merges_ == 0 && text.starts_with("#version")) return;
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      problems_.add(merge_path(), "is '" + text.substr(0, 100) + "'",
                    "two tokens with a space between");
    } else {
      result_.merge_pairs.add(std::string_view(text).substr(0, space));
      result_.merge_pairs.add(std::string_view(text).substr(space + 1));
    }
    ++merges_;
  }

  std::string_view text_;
  TokenizerJson& result_;
  TokenizerProblems& problems_;
  std::vector<Json*> open_;  // the containers around the current value
  std::string key_;
  Place place_ = Place::kElsewhere;
  bool in_model_ = false;
  size_t pair_size_ = 0;
  size_t merges_ = 0;
};

}  // namespace

TokenizerJson parse_tokenizer_json(std::string_view text, TokenizerProblems& problems) {
  TokenizerJson result;
  Events events(text, result, problems);
  Json::sax_parse(text.begin(), text.end(), &events);
  problems.throw_if_any();
  return result;
}

}  // namespace sftbench
