#include "sftbench/base/json_builder.h"

#include <unordered_map>
#include <utility>
#include <vector>

namespace sftbench {
namespace {

constexpr size_t kMostLevels = 500;
constexpr size_t kLookedThrough = 16;  // members; a larger object has an index of its names

// Receives the parser's events. An open value is the last one of its parent, which does not grow
// meanwhile: pointers to it stay good.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const RepeatedName& repeated) : repeated_(repeated) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in JSON text

  bool key(string_t& name) override {
    open_.back().name = std::move(name);
    return true;
  }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    if (const auto* syntax = dynamic_cast<const Json::parse_error*>(&error)) throw *syntax;
    throw Json::out_of_range(dynamic_cast<const Json::out_of_range&>(error));
  }

  Json take() { return std::move(root_); }

 private:
  struct Open {
    Json* value;
    std::string name;                                // of the member that comes next
    std::unordered_multimap<size_t, size_t> places;  // by a name's hash, of all or of no members
  };

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json empty) {
    if (open_.size() == kMostLevels) {
      throw Json::out_of_range::create(
          408, "nested deeper than " + std::to_string(kMostLevels) + " levels", nullptr);
    }
    Json* value = place(std::move(empty));
    open_.push_back({value, {}, {}});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Open& parent = open_.back();
    if (!parent.value->is_object()) {
      auto& items = parent.value->get_ref<Json::array_t&>();
      return &items.emplace_back(std::move(value));
    }
    Json& member = this->member(parent);
    member = std::move(value);
    return &member;
  }

  // The member of the name that was read last, made if the object has none.
  Json& member(Open& object) {
    auto& members = object.value->get_ref<Json::object_t&>();
    if (Json* known = find(object, members)) {
      repeated_(open_.size(), object.name);
      return *known;
    }
    members.emplace_back(std::move(object.name), Json());
    if (!object.places.empty()) index(object, members, members.size() - 1);
    return members.back().second;
  }

  static Json* find(Open& object, Json::object_t& members) {
    if (members.size() < kLookedThrough) {
      for (auto& [name, value] : members) {
        if (name == object.name) return &value;
      }
      return nullptr;
    }
    for (size_t i = object.places.empty() ? 0 : members.size(); i < members.size(); ++i)
      index(object, members, i);
    const auto [begin, end] = object.places.equal_range(std::hash<std::string>()(object.name));
    for (auto candidate = begin; candidate != end; ++candidate) {
      auto& [name, value] = members.data()[candidate->second];
      if (name == object.name) return &value;
    }
    return nullptr;
  }

  static void index(Open& object, const Json::object_t& members, size_t place) {
    object.places.emplace(std::hash<std::string>()(members.data()[place].first), place);
  }

  const RepeatedName& repeated_;
  Json root_;
  std::vector<Open> open_;
};

}  // namespace

Json build_json(std::string_view text, const RepeatedName& repeated) {
  Builder builder(repeated);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

}  // namespace sftbench
