// Attention of the phantom device.
#pragma once

#include <torch/library.h>

namespace sftbench::phantom {

// Registers what takes the place of libtorch's flash and memory-efficient attention.
void register_attention(torch::Library& library);

}  // namespace sftbench::phantom
