// A library of this program's own that is loaded when it is first needed, because what it brings
// along (libtorch, Apache Arrow) would cost every start of the program, or is not on every machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sftbench {

struct CompanionLibrary {
  const char* file_name;          // libsftbench_engine.so
  const char* override_variable;  // environment variable that names a file to load in its place
  const char* purpose;            // "training", as the subject of messages
  const char*
      version_symbol;   // function () -> const char*: the version of sftbench that it was built for
  const char* version;  // of this program
  const char*
      interface_symbol;   // function () -> const char*: the digest of the headers between both
  const char* interface;  // of this program (src/interfaces.cmake)
  const char* advice;     // "; ...": what to do when it is not there or cannot be loaded
};

// Where it is looked for: the file that the environment names, else beside the executable (build
// tree), else in
// ../lib/sftbench (installed).
std::vector<std::filesystem::path> candidates_of(const CompanionLibrary& library);

// Loads the first candidate that exists and checks its version; it is never unloaded: threads and
// static objects of what it brought live until the process ends. RunError(kUnsupported) naming the
// places when there is none, in the loader's own words when it cannot be loaded, naming both
// versions when it belongs to another version, and when another build of the same version has other
// headers: a call would then go to the wrong function.
class LoadedCompanion {
 public:
  LoadedCompanion(const CompanionLibrary& library,
                  const std::vector<std::filesystem::path>& candidates);

  // RunError(kUnsupported) naming the file and the function that it lacks.
  template <typename Function>
  Function function(const char* symbol) const {
    return reinterpret_cast<Function>(find(symbol));
  }

 private:
  void* find(const char* symbol) const;

  CompanionLibrary library_;
  std::filesystem::path path_;
  void* handle_ = nullptr;
};

}  // namespace sftbench
