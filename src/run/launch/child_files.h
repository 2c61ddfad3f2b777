// Descriptors that a process and its child share.
#pragma once

#include <filesystem>
#include <string>

#include "sftbench/base/owned_fd.h"

namespace sftbench {

// A file in memory, with `content`, at its begin. std::system_error when there is none to be had.
OwnedFd anonymous_file(const char* name, const std::string& content = {});

// A log that begins anew. InputError when it cannot be written.
OwnedFd open_log(const std::filesystem::path& path);

// Both are closed in children that do not inherit them by number. std::system_error.
struct Pipe {
  OwnedFd read_end;  // does not block
  OwnedFd write_end;
};
Pipe make_pipe();

struct SocketPair {
  OwnedFd parents;
  OwnedFd childs;
};
SocketPair make_socket_pair();

}  // namespace sftbench
