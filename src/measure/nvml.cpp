#include "sftbench/measure/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "measure/nvml_library.h"

namespace sftbench {
namespace {

using Handle = Nvml::Library::Handle;
using Status = Nvml::Library::Status;
constexpr Status kSuccess = Nvml::Library::kSuccess;

constexpr unsigned kTemperatureOfTheChip = 0;
constexpr size_t kNameLength = 96;

}  // namespace

std::unique_ptr<Nvml> Nvml::load(std::string* why_not, const std::string& library) {
  std::string ignored;
  std::string& reason = why_not != nullptr ? *why_not : ignored;
  auto loaded = std::make_unique<Library>();
  loaded->file = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded->file == nullptr) {
    reason = dlerror();
    return nullptr;
  }
  if (const char* missing = loaded->bind(); missing != nullptr) {
    reason = library + " has no function " + missing;
    return nullptr;
  }
  if (const Status status = loaded->init(); status != kSuccess) {
    reason = library + ": " + loaded->error_string(status);
    return nullptr;
  }
  loaded->initialized = true;
  return std::unique_ptr<Nvml>(new Nvml(std::move(loaded)));
}

Nvml::Nvml(std::unique_ptr<Library> library) : library_(std::move(library)) {
  std::array<char, kNameLength> text{};
  if (library_->driver_version(text.data(), text.size()) == kSuccess) driver_version_ = text.data();
  find_devices();
}

Nvml::~Nvml() = default;

void Nvml::find_devices() {
  unsigned count = 0;
  if (library_->count(&count) != kSuccess) return;
  std::vector<GpuIdentity> all;
  std::vector<std::string> uuids;
  std::vector<Handle> handles;
  for (unsigned index = 0; index < count; ++index) {
    Handle handle = nullptr;
    // A device that was lost, or that this container may not see.
    if (library_->by_index(index, &handle) != kSuccess) continue;
    GpuIdentity identity;
    std::array<char, kNameLength> text{};
    if (library_->name(handle, text.data(), text.size()) == kSuccess) identity.name = text.data();
    if (library_->uuid(handle, text.data(), text.size()) == kSuccess) identity.uuid = text.data();
    Nvml::Library::Memory memory{};
    if (library_->memory(handle, &memory) == kSuccess) {
      identity.memory_bytes = static_cast<int64_t>(memory.total);
    }
    uuids.push_back(identity.uuid);
    all.push_back(std::move(identity));
    handles.push_back(handle);
  }
  for (const size_t index : visible_devices(std::getenv("CUDA_VISIBLE_DEVICES"), uuids)) {
    gpus_.push_back(all[index]);
    handles_.push_back(handles[index]);
  }
}

GpuReading Nvml::read(size_t index) const {
  const Handle handle = handles_.at(index);
  GpuReading reading;
  if (Nvml::Library::Utilization rates{}; library_->utilization(handle, &rates) == kSuccess) {
    reading.utilization_percent = rates.gpu;
  }
  if (Nvml::Library::Memory memory{};
      library_->memory(handle, &memory) == kSuccess && memory.total > 0) {
    reading.memory_percent =
        100.0 * static_cast<double>(memory.used) / static_cast<double>(memory.total);
  }
  unsigned value = 0;
  if (library_->power_milliwatts(handle, &value) == kSuccess) reading.power_watts = value / 1e3;
  if (library_->power_limit_milliwatts != nullptr &&
      library_->power_limit_milliwatts(handle, &value) == kSuccess) {
    reading.power_limit_watts = value / 1e3;
  }
  if (library_->temperature(handle, kTemperatureOfTheChip, &value) == kSuccess) {
    reading.temperature_celsius = value;
  }
  unsigned long long millijoules = 0;
  if (library_->energy_millijoules != nullptr &&
      library_->energy_millijoules(handle, &millijoules) == kSuccess) {
    reading.energy_joules = static_cast<double>(millijoules) / 1e3;
  }
  return reading;
}

std::vector<size_t> visible_devices(const char* text, const std::vector<std::string>& uuids) {
  std::vector<size_t> devices(uuids.size());
  std::iota(devices.begin(), devices.end(), size_t{0});
  if (text == nullptr) return devices;
  devices.clear();
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    size_t index = uuids.size();
    const auto parsed = std::from_chars(entry.data(), entry.data() + entry.size(), index);
    if (parsed.ec != std::errc() || parsed.ptr != entry.data() + entry.size()) {
      const auto match = [entry](const std::string& uuid) {
        return !entry.empty() && uuid.compare(0, entry.size(), entry) == 0;
      };
      const auto found = std::find_if(uuids.begin(), uuids.end(), match);
      const bool unique = std::count_if(uuids.begin(), uuids.end(), match) == 1;
      index = unique ? static_cast<size_t>(found - uuids.begin()) : uuids.size();
    }
    if (index >= uuids.size()) break;
    devices.push_back(index);
  }
  return devices;
}

}  // namespace sftbench
