// Models that read images.
#pragma once

#include "sftbench/families/family.h"

namespace sftbench {

extern const Family kLlavaNextFamily;

}  // namespace sftbench
