#include "phantom/settings.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace sftbench::phantom {
namespace {

Settings parsed(const nlohmann::json& given) {
  Settings settings;
  settings.count = given.value("count", settings.count);
  settings.name = given.value("name", settings.name);
  settings.memory_bytes = given.value("memory_bytes", settings.memory_bytes);
  settings.multiprocessors = given.value("multiprocessors", settings.multiprocessors);
  settings.major = given.value("major", settings.major);
  settings.minor = given.value("minor", settings.minor);
  settings.seed = given.value("seed", settings.seed);
  settings.illegal_access_at = given.value("illegal_access_at", settings.illegal_access_at);
  settings.operators = given.value("operators", settings.operators);
  return settings;
}

Settings read() {
  const char* text = std::getenv("SFTBENCH_PHANTOM");
  if (text == nullptr || *text == '\0') return {};
  try {
    return parsed(nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception& error) {
    std::fprintf(stderr, "SFTBENCH_PHANTOM is not a description of a device: %s\n", error.what());
    std::_Exit(2);
  }
}

}  // namespace

const Settings& settings() {
  static const Settings read_once = read();
  return read_once;
}

}  // namespace sftbench::phantom
