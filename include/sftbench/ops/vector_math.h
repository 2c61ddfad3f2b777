// libtorch's wheels compute exp, tanh and the like on CPUs by Intel MKL.
#pragma once

namespace sftbench::ops {

// Calls each function of MKL's vector mathematics once on this thread. MKL chooses the code of a
// function at its first call, and a thread that calls it at that moment may be given code of low
// accuracy (4e-5 relative in float32, for that call; github.com/pytorch/pytorch/issues/188792). Do
// it before several threads compute. Nothing where libtorch has no MKL, as Debian's.
void settle_vector_math();

}  // namespace sftbench::ops
