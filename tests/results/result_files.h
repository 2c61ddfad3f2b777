// Directories of results for tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sftbench/base/json.h"
#include "sftbench/results/measurement.h"

namespace sftbench {

// An empty place for a directory of results; tests run side by side, each in a process of its own.
inline std::filesystem::path fresh_results(const std::string& name) {
  const auto directory = std::filesystem::path(testing::TempDir()) /
                         ("results_test_" + name + "_" + std::to_string(::getpid()));
  std::filesystem::remove_all(directory);
  return directory;
}

// `file` below `directory`, folders made as needed. Unlike the store it syncs nothing.
inline void put(const std::filesystem::path& directory, const std::string& file,
                const std::string& content) {
  std::filesystem::create_directories((directory / file).parent_path());
  std::ofstream(directory / file) << content;
}

// As the store writes it.
inline Json stored(Measurement measurement, const std::string& key) {
  measurement.key = key;
  return to_json(measurement);
}

// As sample `sample` of `key`.
inline void put(const std::filesystem::path& directory, const Measurement& measurement,
                const std::string& key, int sample = 1) {
  const std::string name = sample == 1 ? key : key + "." + std::to_string(sample);
  put(directory, measurement.experiment + "/" + name + ".json", stored(measurement, key).dump(2));
}

}  // namespace sftbench
