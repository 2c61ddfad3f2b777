// Files whose names anybody can foretell, in folders that others may write to: locks, logs,
// temporary files. A link that somebody planted at such a name is never followed, so that no file
// elsewhere is overwritten, and nothing but a regular file is ever opened.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "sftbench/base/error.h"
#include "sftbench/base/owned_fd.h"

namespace sftbench {

// Something else stands at such a name: a link, a folder, a pipe. It is in the way of this one
// file, and says nothing about the others of the folder.
class NameTaken : public InputError {
 public:
  // "PATH: cannot `what`: `cause`"
  NameTaken(const std::filesystem::path& path, const std::string& what, const std::string& cause);
};

// A new and empty file to append to. What stood at `path` loses that name before: a link goes, its
// target stays; whoever still writes to an older file does not write to this one. InputError
// ("PATH: cannot `what`: ...") when that is impossible, NameTaken where a folder stands there.
OwnedFd make_new_file(const std::filesystem::path& path, const std::string& what);

// The file, to read and write, made when it is not there. InputError and NameTaken, as above.
OwnedFd open_or_make_file(const std::filesystem::path& path, const std::string& what);

// The file, to append to, made when it is not there. InputError and NameTaken, as above.
OwnedFd open_to_append(const std::filesystem::path& path, const std::string& what);

// Appends to a file that is there. InputError, as above.
void append_to_file(const std::filesystem::path& path, std::string_view text,
                    const std::string& what);

// Writes all of it. False, with errno, when it cannot be written.
bool write_whole(int fd, std::string_view text);

// Whether `path` itself, and no link of that name, is the open file.
bool is_name_of(const std::filesystem::path& path, int fd);

}  // namespace sftbench
