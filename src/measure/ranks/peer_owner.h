// Whose process is at the other end of a connection over loopback.
#pragma once

namespace sftbench {

// False when it is known to be another user's. What cannot be told counts as one's own.
bool may_be_own_process(int connected_fd);

}  // namespace sftbench
