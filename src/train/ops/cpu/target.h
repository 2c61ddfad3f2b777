// The instructions of what follows in a file, up to SFTBENCH_END_TARGET. What stands before, other
// headers too, is compiled for any processor. Each compiler has a pragma of its own.
#pragma once

#define SFTBENCH_PRAGMA(...) _Pragma(#__VA_ARGS__)
#ifdef __clang__
#define SFTBENCH_TARGET(features) \
  SFTBENCH_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define SFTBENCH_END_TARGET SFTBENCH_PRAGMA(clang attribute pop)
#else
#define SFTBENCH_TARGET(features) SFTBENCH_PRAGMA(GCC target(features ",prefer-vector-width=512"))
#define SFTBENCH_END_TARGET
#endif
