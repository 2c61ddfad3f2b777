// One blob, from the hub to its place in the cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "huggingface/http.h"
#include "huggingface/listing.h"
#include "sftbench/huggingface/cache.h"

namespace sftbench {

struct BlobTask {
  HubRepository repository;
  HubFile file;
  std::string url;
  bool linked = true;                         // a link to the blob is there or will be made
  std::vector<std::filesystem::path> copies;  // files of a snapshot that are the content itself
};

// The bytes of the blob that are on this disk already, whole or in part.
uint64_t bytes_at_hand(const BlobTask& task);

// Verifies the blob and the copies, as far as nobody remembers them as right, and removes what is
// wrong. Then makes repository.blob(oid) where it is missing: continues what <oid>.incomplete has,
// verifies size and hash, renames. `on_bytes` gets the bytes that are done, less those that turn
// out wrong. Returns the bytes that came over the net. HttpError, FetchCancelled,
// RunError(kWeights) when the disk does not take it.
uint64_t fetch_blob(HttpSession& session, const BlobTask& task, const FetchSettings& settings,
                    const std::function<void(int64_t)>& on_bytes);

}  // namespace sftbench
