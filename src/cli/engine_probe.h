// Loads the engine in a child process and asks what it runs on: a library that crashes while it is
// loaded (built for another CPU, for example) then costs doctor a line, not its life.
#pragma once

#include <string>

#include "sftbench/base/json.h"

namespace sftbench {

struct EngineProbe {
  Json environment = Json::object();
  std::string problem;  // why not; empty when it could
};

// The engine that trains on `device`, "cpu" or "cuda". Gives up after `timeout_s`.
EngineProbe probe_engine(const std::string& device, double timeout_s = 60);

// What the engine for CPUs measures of this machine (Engine::probe()), in `environment`.
EngineProbe probe_constants(double timeout_s = 300);

}  // namespace sftbench
