// Families that are predicted from their shapes and not trained: no class in model/ builds them.
#pragma once

#include "sftbench/families/family.h"

namespace sftbench {

extern const Family kGemma2Family;
extern const Family kGemma3Family;
extern const Family kGptNeoxFamily;
extern const Family kOlmo2Family;
extern const Family kPhi3Family;
extern const Family kSmolLm3Family;
extern const Family kStarcoder2Family;

}  // namespace sftbench
