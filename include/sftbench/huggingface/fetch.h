// Downloads models and datasets from a Hugging Face-compatible hub into the libraries' cache
// (huggingface/cache.h). A blob gets its name only when its hash is right, a snapshot its links and
// "main" its commit only when all its blobs are there: a reader of the cache sees all that was
// asked for or nothing. What was interrupted stays as <oid>.incomplete and is continued by the next
// call, on any machine that shares the cache; two that fetch the same file wait for each other
// (flock, as huggingface_hub).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "sftbench/base/train_files.h"
#include "sftbench/huggingface/cache.h"
#include "sftbench/huggingface/endpoint.h"

namespace sftbench {

struct FetchRequest {
  std::string name;               // as the user calls it: "smollm2-135m", or the hub id itself
  std::string hub_id;             // "HuggingFaceTB/SmolLM2-135M"
  std::string revision = "main";  // branch, tag or commit
  RepositoryKind kind = RepositoryKind::kModel;
  DatasetPart part = {};  // of a dataset
  bool weights = true;    // of a model; else the configuration and the tokenizer alone
};

struct FetchProgress {
  uint64_t done_bytes = 0;  // of the files to fetch, what earlier calls left included
  uint64_t total_bytes = 0;
  int done_files = 0;
  int total_files = 0;
  std::string now;  // the largest file that is on its way; may be empty
};

enum class FetchLog { kTrace, kInfo, kWarning };

struct FetchSettings {
  HubEndpoint endpoint;
  std::filesystem::path cache;
  int connections = 8;
  int retries = 5;          // of one request, in a row and without a byte gained
  double first_wait_s = 1;  // before the first of them; doubles, up to a minute
  double stall_s = 30;      // without a byte: the connection counts as lost
  double progress_s = 0.1;  // between two calls of `progress`
  std::function<bool()> cancelled = [] { return false; };  // asked from several threads
  std::function<void(FetchLog, const std::string&)> log = [](FetchLog, const std::string&) {};
  std::function<void(const FetchProgress&)> progress = [](const FetchProgress&) {};
};

struct FetchedRepository {
  FetchRequest request;
  std::string commit;              // empty when it could not be resolved
  int files = 0;                   // of the snapshot
  uint64_t size_bytes = 0;         // of all of them
  uint64_t transferred_bytes = 0;  // by this call
  std::filesystem::path snapshot;  // empty when not all is there
  std::string problem;             // why not; empty when it is
};

struct FetchOutcome {
  std::vector<FetchedRepository> repositories;  // in the order of the requests
  bool interrupted = false;
};

// Fetches what is missing. Of each model: config, tokenizer, and weights as safetensors (as
// pytorch_model*.bin only where there are no safetensors). Of each dataset: its card and the files
// of the part that is asked for (base/train_files.h). What cannot be had does not keep the others
// from coming. `log` and `progress` are called from one thread at a time. RunError (kWeights): the
// disk has not enough room for all, libcurl is missing.
FetchOutcome fetch_repositories(const std::vector<FetchRequest>& requests,
                                const FetchSettings& settings);

}  // namespace sftbench
