#include "sftbench/results/leftovers.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/folder_names.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// Logs and samples that grew, and results that had only their temporary name (base/file.h:
// AtomicFile).
bool unfinished(std::string_view name, const std::string& key) {
  return (name.starts_with(key + ".") &&
          (name.ends_with(".growing.log") || name.ends_with(".growing.series.json.gz"))) ||
         (name.starts_with("." + key + ".") && name.ends_with(".tmp"));
}

// Without results, which most are: none of them is a leftover.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for_each_name(folder, [&names](std::string_view name, uint64_t) {
    if (!name.ends_with(".json")) names.emplace_back(name);
  });
  return names;
}

// "KEY" of "KEY.2.growing.log" and of ".KEY.json.77.tmp".
std::string key_of(std::string_view name) {
  if (name.starts_with('.')) name.remove_prefix(1);
  return std::string(name.substr(0, name.find('.')));
}

void remove_unfinished(const fs::path& folder, const std::string& key,
                       const std::vector<std::string>& names) {
  std::error_code ignored;
  for (const std::string& name : names) {
    if (unfinished(name, key)) fs::remove(folder / name, ignored);
  }
}

}  // namespace

void remove_unfinished(const fs::path& folder, const std::string& key) {
  remove_unfinished(folder, key, names_in(folder));
}

std::set<std::string> keys_of_unfinished(const fs::path& folder) {
  std::set<std::string> keys;
  for (const std::string& name : names_in(folder)) {
    if (const std::string key = key_of(name); unfinished(name, key)) keys.insert(key);
  }
  return keys;
}

void remove_leftovers(const fs::path& folder) {
  const std::vector<std::string> names = names_in(folder);
  for (const std::string& lock_name : names) {
    if (!lock_name.ends_with(".lock")) continue;
    try {
      // Its destructor removes the lock file itself.
      const std::optional<KeyLock> lock = KeyLock::try_acquire(folder / lock_name);
      if (lock) remove_unfinished(folder, fs::path(lock_name).stem().string(), names);
    } catch (const InputError&) {
      continue;  // somebody else's file: not ours to judge
    }
  }
}

}  // namespace sftbench
