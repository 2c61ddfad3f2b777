// --arguments: a file as training arguments, and as the data configuration that arguments name.
// Whatever stands in it, it is read, or refused with errors that name a file, in their place or in
// their words.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "file_in_memory.h"
#include "sftbench/base/error.h"
#include "sftbench/translate/argument_file.h"

namespace {

void read(const std::string& arguments) {
  try {
    (void)sftbench::read_argument_files({arguments});
  } catch (const sftbench::InputError& error) {
    if (error.diagnostics().empty()) std::abort();
    for (const auto& finding : error.diagnostics()) {
      const bool names_file =
          !finding.file.empty() || finding.message.find(".yaml") != std::string::npos;
      if (finding.message.empty() || !names_file) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const sftbench::FolderInMemory kFolder;
  const std::string fuzzed =
      kFolder.write("fuzzed.yaml", {reinterpret_cast<const char*>(data), size});
  static const std::string kOfData =
      kFolder.write("of_data.yaml", "data_config_path: " + fuzzed + "\n");
  read(fuzzed);
  read(kOfData);
  return 0;
}
