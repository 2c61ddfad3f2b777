// What the processes that this program starts for itself have in common (`sftbench measure`,
// `sftbench rank`): how they get their task, share the machine, and end with their parent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sftbench {

std::string read_standard_input();

// What comes after must not find the request there.
void empty_standard_input();

// When the last process that reads the pipe, whose write end `pipe_fd` is, is gone, nobody waits
// for this one: its whole group ends, also the processes that it has started.
void end_with_parent(int pipe_fd);

// Private memory beyond the limit is refused: an error with a name, where the kernel's own way of
// making room would be SIGKILL for whoever is largest. 0: no limit. To be set only once libtorch is
// loaded: there are BLAS libraries that try for ever to get the buffers that they want at their
// start. RunError(kOomHost) when more is taken already.
void limit_memory(int64_t limit_bytes);

// Empty: nothing changes.
void pin_to_cores(const std::vector<int>& cores);

// Should the host run out of memory, the kernel takes this process rather than its parent, which
// has the results of all others still to come.
void prefer_to_be_killed();

}  // namespace sftbench
