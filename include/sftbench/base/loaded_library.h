// A shared library of the system that is loaded when it is first needed: libcurl and libcrypto
// would cost every start of the program 3.5 ms for what few commands use.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

#include "sftbench/base/error.h"

namespace sftbench {

class LoadedLibrary {
 public:
  // The first of `names` that can be loaded. It stays until the process ends. RunError(code) saying
  // which package has it.
  LoadedLibrary(ReasonCode code, std::initializer_list<const char*> names,
                const std::string& package)
      : code_(code), package_(package) {
    for (const char* name : names) {
      file_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (file_ != nullptr) return;
    }
    const char* reason = ::dlerror();
    throw RunError(code, std::string(*names.begin()) + " cannot be loaded; install " + package,
                   reason == nullptr ? "" : reason);
  }

  template <typename Function>
  void find(Function& function, const char* symbol) const {
    function = reinterpret_cast<Function>(::dlsym(file_, symbol));
    if (function == nullptr) {
      throw RunError(code_, std::string("the library at hand has no ") + symbol +
                                "; install a current " + package_);
    }
  }

 private:
  ReasonCode code_;
  std::string package_;
  void* file_ = nullptr;
};

}  // namespace sftbench
