// A snapshot: the links that show a commit's blobs under their names, and the name of the commit.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "huggingface/listing.h"
#include "sftbench/huggingface/cache.h"

namespace sftbench {

// Where somebody copied the cache without links, the snapshot's own file of the right size; else
// empty.
std::filesystem::path copy_in_snapshot(const HubRepository& repository, const std::string& commit,
                                       const HubFile& file);

// True when `file` can be read through the snapshot already: a link to its blob, and to nothing
// else, or a copy. Sizes are compared, not content.
bool is_linked(const HubRepository& repository, const std::string& commit, const HubFile& file);

// Makes what is_linked() misses, then refs/<revision> = commit. REQUIRES: the blobs are there.
// Each step is whole or not done at all. RunError(kWeights) when the file system refuses.
void write_snapshot(const HubRepository& repository, const std::string& revision,
                    const std::string& commit, const std::vector<HubFile>& files);

// Tells backup programs that this folder can be had again (bford.info/cachedir); best effort.
void tag_cache_folder(const std::filesystem::path& cache);

}  // namespace sftbench
