// A permutation of 0 .. count-1 as a function: no list is held, so counts of billions cost nothing.
// A Feistel network over the next even number of bits; what falls outside is sent through again
// until it falls inside. Source: J. Black, P. Rogaway, "Ciphers with Arbitrary Finite Domains"
// (CT-RSA 2002), cycle walking. Not for secrets.
#pragma once

#include <cstdint>

namespace sftbench {

// REQUIRES: 0 <= index < count. The same seed gives the same permutation on every machine.
int64_t shuffled(int64_t index, int64_t count, uint64_t seed);

}  // namespace sftbench
