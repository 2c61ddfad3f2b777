#include "sftbench/base/build_info.h"

#include "sftbench_commit.h"  // written at build time: SFTBENCH_COMMIT

namespace sftbench {
namespace {

std::string compiler() {
#if defined(__clang__)
  return std::string("Clang ") + __clang_version__;
#else
  return std::string("GCC ") + __VERSION__;
#endif
}

}  // namespace

const BuildInfo& build_info() {
  static const BuildInfo kInfo = {.version = SFTBENCH_VERSION,
                                  .commit = SFTBENCH_COMMIT,
                                  .build_type = SFTBENCH_BUILD_TYPE,
                                  .compiler = compiler(),
                                  .sanitizers = SFTBENCH_SANITIZERS};
  return kInfo;
}

std::string version_text() {
  const BuildInfo& info = build_info();
  std::string text = "sftbench " + info.version + " (commit " + info.commit + ", " +
                     info.build_type + ", " + info.compiler;
  if (!info.sanitizers.empty()) text += ", sanitizers: " + info.sanitizers;
  return text + ")";
}

std::string version_and_commit() {
  return build_info().version + " (commit " + build_info().commit + ")";
}

std::string unfit_for_measuring() {
  const BuildInfo& info = build_info();
  if (!info.sanitizers.empty()) return "built with sanitizers (" + info.sanitizers + ")";
#ifndef NDEBUG
  return "built with assertions (" + info.build_type + ")";
#else
  return {};
#endif
}

}  // namespace sftbench
