#include "campaign/kubernetes_settings.h"

#include <charconv>
#include <map>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

using Text = std::string KubernetesSettings::*;

const std::map<std::string, Text>& texts() {
  static const std::map<std::string, Text> all = {
      {"namespace", &KubernetesSettings::namespace_name},
      {"image", &KubernetesSettings::image},
      {"claim", &KubernetesSettings::claim},
      {"queue", &KubernetesSettings::queue},
      {"gpu-resource", &KubernetesSettings::gpu_resource},
      {"gpu-label", &KubernetesSettings::gpu_label},
      {"roce-resource", &KubernetesSettings::roce_resource},
      {"network", &KubernetesSettings::network},
      {"service-account", &KubernetesSettings::service_account},
      {"memory", &KubernetesSettings::memory}};
  return all;
}

constexpr const char* kRoceDevices = "roce-devices";

std::vector<std::string> keys() {
  std::vector<std::string> names = {kRoceDevices};
  for (const auto& entry : texts()) names.push_back(entry.first);
  return names;
}

}  // namespace

KubernetesSettings read_kubernetes_settings(const std::vector<std::string>& assignments) {
  KubernetesSettings settings;
  std::vector<Diagnostic> wrong;
  const auto fail = [&wrong](std::string message, std::string expected, std::string nearest = {}) {
    wrong.push_back(
        {{}, 0, "--kubernetes", std::move(message), std::move(expected), std::move(nearest)});
  };
  for (const std::string& assignment : assignments) {
    const size_t equals = assignment.find('=');
    const std::string key = assignment.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : assignment.substr(equals + 1);
    if (equals == std::string::npos || value.empty()) {
      fail("found '" + assignment + "'", "KEY=VALUE");
    } else if (const auto found = texts().find(key); found != texts().end()) {
      settings.*found->second = value;
    } else if (key != kRoceDevices) {
      fail("unknown key '" + key + "'", join(keys()), nearest_spelling(key, keys()));
    } else {
      const char* end = value.data() + value.size();
      const auto [stop, error] = std::from_chars(value.data(), end, settings.roce_devices);
      if (error != std::errc() || stop != end || settings.roce_devices < 1)
        fail(key + ": found '" + value + "'", "a number of devices, 1 or more");
    }
  }
  if (!wrong.empty()) throw InputError(std::move(wrong));
  return settings;
}

}  // namespace sftbench
