// Apart from accesses.cpp, because kernels on the host have a dim3 of their own.
#pragma once

namespace sftbench::traffic {

bool is_on_device(const void* address);

}  // namespace sftbench::traffic
