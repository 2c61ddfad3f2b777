// A shared library that is loaded when it is first needed: libcurl and libcrypto would cost every
// start of the program 3.5 ms for what only `weights` uses.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

#include "sftbench/base/error.h"

namespace sftbench {

class LoadedLibrary {
 public:
  // The first of `names` that can be loaded; it stays until the process ends. RunError(kWeights)
  // saying which package has it.
  LoadedLibrary(std::initializer_list<const char*> names, const std::string& package) {
    for (const char* name : names) {
      file_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (file_ != nullptr) return;
    }
    const char* reason = ::dlerror();
    throw RunError(ReasonCode::kWeights,
                   std::string(*names.begin()) + " cannot be loaded; install " + package,
                   reason == nullptr ? "" : reason);
  }

  template <typename Function>
  void find(Function& function, const char* symbol) const {
    function = reinterpret_cast<Function>(::dlsym(file_, symbol));
    if (function == nullptr) {
      throw RunError(ReasonCode::kWeights, std::string("the library at hand has no ") + symbol +
                                               "; install a current libcurl4 and libssl3");
    }
  }

 private:
  void* file_ = nullptr;
};

}  // namespace sftbench
