// What a hub says about one revision of a model or dataset (GET
// /api/models/ID/revision/REV?blobs=true, or /api/datasets/...), and which of its files a run
// needs. All of it comes from a server and is checked before it names anything on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/huggingface/cache.h"
#include "sftbench/huggingface/fetch.h"

namespace sftbench {

struct HubFile {
  std::string path;  // relative, inside the repository; "/" between folders
  uint64_t size_bytes = 0;
  std::string oid;  // sha256 of a large file, git's sha1 of a small one
};

struct HubListing {
  std::string commit;
  std::vector<HubFile> files;

  const HubFile* find(const std::string& path) const;
};

// The address of the listing, and of a file of one commit.
std::string listing_url(const HubEndpoint& endpoint, const FetchRequest& request);
std::string file_url(const HubEndpoint& endpoint, const HubRepository& repository,
                     const std::string& commit, const std::string& path);
// The page that shows a repository to people.
std::string page_url(const HubEndpoint& endpoint, const HubRepository& repository);

// HttpError: not the answer of a hub, a file without size and hash, sizes that no model has (more
// than 1 PiB a file or 1 EiB together), a name that stands twice, a name that leads out of the
// repository's folder ("../x", "/x", "a//b", control characters).
HubListing parse_listing(const std::string& text, const HubRepository& repository);

// The index that names the shards, when the weights of `listing` come in several files.
const HubFile* shard_index(const HubListing& listing);

struct FileSelection {
  std::vector<HubFile> files;
  std::string
      warning;  // about weights that transformers can read and this program cannot, and the like
};

// Configuration and tokenizer of `listing`: what describes a model. Folders below are left out.
FileSelection select_descriptions(const HubListing& listing);
// The same and the weights; `index` is the content of shard_index(), if there is one. Other formats
// of the same weights are left out. HttpError: no weights, an index that is none or that names a
// file which the repository does not have.
FileSelection select_files(const HubListing& listing, const std::string& index,
                           const std::string& hub_id);

// The card of a dataset, which says what its files are; nullptr when it has none.
const HubFile* dataset_card(const HubListing& listing);

// The card and the files of `part`; `card` is the card's content. HttpError: a dataset that only a
// script reads, and what find_train_files() finds wrong.
FileSelection select_dataset_files(const HubListing& listing, const std::string& card,
                                   const DatasetPart& part, const std::string& hub_id);

}  // namespace sftbench
