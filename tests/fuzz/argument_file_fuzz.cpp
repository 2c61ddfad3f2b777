// --arguments: a file as training arguments, and as the data configuration that arguments name. Whatever stands in it, it
// is read, or refused with errors that name a file.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "cli/argument_file.h"
#include "sftbench/base/error.h"

namespace {

void write(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

// In memory: a file is written anew many times a second.
struct Folder {
  std::filesystem::path path = "/dev/shm/sftbench-fuzz-" + std::to_string(getpid());
  std::string of_data =
      path / "of_data.yaml";  // arguments that name `fuzzed` as data configuration
  std::string fuzzed = path / "fuzzed.yaml";

  Folder() {
    std::filesystem::create_directories(path);
    write(of_data, "data_config_path: " + fuzzed + "\n");
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

void read(const std::string& arguments) {
  try {
    (void)sftbench::read_argument_files({arguments});
  } catch (const sftbench::InputError& error) {
    if (error.diagnostics().empty()) std::abort();
    for (const auto& finding : error.diagnostics()) {
      if (finding.message.empty() || finding.file.empty()) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder kFolder;
  write(kFolder.fuzzed, {reinterpret_cast<const char*>(data), size});
  read(kFolder.fuzzed);
  read(kFolder.of_data);
  return 0;
}
