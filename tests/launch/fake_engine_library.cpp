// The fake engine as a library, for tests that load one.
#include "launch/fake_engine.h"
#include "sftbench_interfaces.h"

extern "C" {

sftbench::Engine* sftbench_create_engine() {
  return new sftbench::FakeEngine;
}

const char* sftbench_engine_version() {
  const char* other = std::getenv("FAKE_ENGINE_VERSION");
  return other != nullptr ? other : SFTBENCH_VERSION;
}

const char* sftbench_engine_interface() {
  const char* other = std::getenv("FAKE_ENGINE_INTERFACE");
  return other != nullptr ? other : SFTBENCH_ENGINE_INTERFACE;
}

}  // extern "C"
