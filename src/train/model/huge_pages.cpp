#include "model/huge_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include "sftbench/base/torch.h"

namespace sftbench {

void advise_huge_pages(const torch::Tensor& tensor) {
  if (!tensor.is_cpu() || !tensor.is_contiguous() || tensor.nbytes() == 0) return;
  // Rounded outwards: tensors smaller than a huge page usually lie side by side and share one.
  static const auto kPageBytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data_ptr()) / kPageBytes * kPageBytes;
  const uintptr_t end = reinterpret_cast<uintptr_t>(tensor.data_ptr()) + tensor.nbytes();
  const uintptr_t rounded_end = (end + kPageBytes - 1) / kPageBytes * kPageBytes;
  ::madvise(reinterpret_cast<void*>(begin), rounded_end - begin, MADV_HUGEPAGE);
}

}  // namespace sftbench
