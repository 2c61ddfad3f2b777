// The fields of a struct, named once: `fields(visitor, value)` beside the struct calls
// visitor("key", value.member, tags...) for each of them. FieldWriter and FieldReader carry them to
// JSON and back. Other visitors check what people edited (plan/training_job.cpp) or pick fields by
// their tags (engine/job_identity.cpp). A member that has fields itself is an object in JSON.
//
// `fields` is a template in namespace sftbench, found by the type of its second argument.
#pragma once

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench {

struct AnyVisitor {
  template <typename Value, typename... Tags>
  void operator()(const char*, Value&, const Tags&...) {}
};

template <typename Value>
concept HasFields = requires(AnyVisitor& visitor, Value& value) {
  fields(visitor, value);
};

// JSON has no numbers that are not finite: they become "nan", "inf" and "-inf".
class FieldWriter {
 public:
  template <typename Value, typename... Tags>
  void operator()(const char* key, Value& value, const Tags&...) {
    json_[key] = written(value);
  }

  Json take() { return std::move(json_); }

 private:
  template <typename Value>
  static Json written(std::vector<Value>& values) {
    Json list = Json::array();
    for (auto&& value : values) list.push_back(written(value));
    return list;
  }

  template <typename Value>
  static Json written(Value& value) {
    if constexpr (HasFields<Value>) {
      FieldWriter writer;
      fields(writer, value);
      return writer.take();
    } else {
      return value;
    }
  }

  static Json written(double& value) {
    if (std::isfinite(value)) return value;
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }

  Json json_ = Json::object();
};

// Reads what FieldWriter wrote. Throws Json::exception for a field that is missing or of the wrong
// type. Ignores unknown keys.
class FieldReader {
 public:
  explicit FieldReader(const Json& json) : json_(json) {}

  template <typename Value, typename... Tags>
  void operator()(const char* key, Value& value, const Tags&...) {
    read(json_.at(key), value);
  }

 private:
  template <typename Value>
  static void read(const Json& json, std::vector<Value>& values) {
    values.resize(json.get_ref<const Json::array_t&>().size());
    for (size_t i = 0; i < values.size(); ++i) read(json[i], values[i]);
  }

  template <typename Value>
  static void read(const Json& json, Value& value) {
    if constexpr (HasFields<Value>) {
      FieldReader reader(json);
      fields(reader, value);
    } else {
      json.get_to(value);
    }
  }

  static void read(const Json& json, double& value) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (json == "nan") {
      value = std::numeric_limits<double>::quiet_NaN();
    } else if (json == "inf" || json == "-inf") {
      value = json == "inf" ? kInfinity : -kInfinity;
    } else {
      json.get_to(value);
    }
  }

  const Json& json_;
};

// Takes the value by copy: one `fields` serves both ways, and names members that can be written.
template <typename Value>
Json json_of_fields(Value value) {
  FieldWriter writer;
  fields(writer, value);
  return writer.take();
}

template <typename Value>
void read_fields(const Json& json, Value& value) {
  FieldReader reader(json);
  fields(reader, value);
}

}  // namespace sftbench
