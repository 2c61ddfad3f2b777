// Makes the engine; called by the engine library's exported function, and by tests that link the
// engine directly.
#pragma once

#include <memory>

#include "sftbench/engine/engine.h"

namespace sftbench {

std::unique_ptr<Engine> make_engine();

}  // namespace sftbench
