// Which files of a cache were hashed and found right, so that a cache of 100 GB is not read again
// by every fetch. <cache>/.locks/models--<org>--<name>/<oid>.verified holds size, times and inode
// of the file as it was then: whoever writes to the file changes them. A disk that loses bits by
// itself does not; `weights check` trusts no record and reads everything.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "huggingface/listing.h"
#include "sftbench/huggingface/cache.h"

namespace sftbench {

// What a write to the file at `path` changes; empty when there is no regular file.
std::string file_stamp(const std::filesystem::path& path);

// True when `path` was found to be the content of `oid` and was not written to since.
bool is_remembered(const HubRepository& repository, const std::string& oid,
                   const std::filesystem::path& path);

// Keeps that `path` was found right. `stamp` is from before its content was hashed, or empty when
// this process wrote it. Best effort: a cache may be read-only.
void remember(const HubRepository& repository, const std::string& oid,
              const std::filesystem::path& path, const std::string& stamp = {});
void forget(const HubRepository& repository, const std::string& oid);

// True when `path` is a regular file with the size and the hash of `file`. Reads it only if it is
// not remembered, and remembers it then; `on_piece` gets the bytes of each piece and may throw.
bool is_right(const HubRepository& repository, const HubFile& file,
              const std::filesystem::path& path, const std::function<void(uint64_t)>& on_piece);

}  // namespace sftbench
