// Copies and fills between host and device memory, in the order of a stream.
#pragma once

#include <cstddef>

#include "phantom/streams.h"

namespace sftbench::phantom {

void copy(void* to, const void* from, size_t bytes, Streams::Id stream);
void fill_bytes(void* address, int value, size_t bytes, Streams::Id stream);

}  // namespace sftbench::phantom
