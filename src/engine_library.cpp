// The engine library's face: what launch/engine_library.cpp looks up by name.
#include "sftbench/engine/engine.h"
#include "sftbench/engine/make_engine.h"
#include "sftbench_interfaces.h"  // written at build time

extern "C" {

sftbench::Engine* sftbench_create_engine() {
  return sftbench::make_engine().release();
}

const char* sftbench_engine_version() {
  return SFTBENCH_VERSION;
}

const char* sftbench_engine_interface() {
  return SFTBENCH_ENGINE_INTERFACE;
}

}  // extern "C"
