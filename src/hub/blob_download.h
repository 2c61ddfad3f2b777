// One blob, from the hub to its place in the cache.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "hub/http.h"
#include "hub/listing.h"
#include "sftbench/hub/cache.h"

namespace sftbench {

struct BlobTask {
  HubRepository repository;
  HubFile file;
  std::string url;
};

// The bytes of the blob that are on this disk already, whole or in part.
uint64_t bytes_at_hand(const HubRepository& repository, const HubFile& file);

// Makes repository.blob(oid): continues what <oid>.incomplete has, verifies size and hash, renames.
// `on_bytes` gets the bytes that are done, less those that turn out wrong. Returns the bytes that
// came over the net. HttpError, FetchCancelled, RunError(kWeights) when the disk does not take it.
uint64_t fetch_blob(HttpSession& session, const BlobTask& task, const FetchSettings& settings,
                    const std::function<void(int64_t)>& on_bytes);

}  // namespace sftbench
