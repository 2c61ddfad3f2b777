// Asks the kernel to back tensors with huge pages before they are first written: filling gigabytes
// of fresh memory 4 KiB at a time costs several times what the copy itself does.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace sftbench {

inline constexpr uintptr_t kHugePageBytes = uintptr_t{2} << 20;

// A hint: without effect for devices, for small tensors far from others, and where the kernel has
// no huge pages.
void advise_huge_pages(const torch::Tensor& tensor);

}  // namespace sftbench
