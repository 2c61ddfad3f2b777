// libtorch's wheels compute exp, tanh and the like on CPUs by Intel MKL.
#pragma once

namespace sftbench::ops {

// Calls each function of MKL's vector mathematics once on this thread. Call it before several
// threads compute: MKL chooses the code of a function at its first call. Another thread that calls
// the function meanwhile may get code of low accuracy, for that call (1.5e-4 relative in float32,
// github.com/pytorch/pytorch/issues/188792). Does nothing where libtorch has no MKL, as Debian's.
void settle_vector_math();

}  // namespace sftbench::ops
