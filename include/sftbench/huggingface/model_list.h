// Which models to fetch: by a models.yaml as ado's sfttrainer_download_hf_weights reads it, or by
// name.
#pragma once

#include <string>
#include <vector>

#include "sftbench/catalog/models.h"
#include "sftbench/huggingface/fetch.h"

namespace sftbench {

// "HuggingFaceTB/SmolLM2-135M", optionally "@REVISION" behind it.
struct HubName {
  std::string id;
  std::string revision = "main";
};

// Why `text` is no such name, for a message; empty when it is one. A hub id and a revision become
// names of folders and parts of an address: what could lead elsewhere is none.
std::string hub_name_problem(const std::string& text);
HubName hub_name(const std::string& text);  // REQUIRES: hub_name_problem(text) is empty

// The models of the file at `path`, of either form:
//   NAME: {Vanilla: ID, GPTQ-Quantized: ID}   ado's ("QPTQ-Quantized", as its documents spell it,
//                                             and a bare ID for Vanilla are understood)
//   models: {NAME: {weights: {...}}}          config/models.yaml
// Every weight type that is on the hub is fetched; `notes` says what is a folder and so is not.
// InputError with all that is wrong with the file.
std::vector<FetchRequest> read_model_list(const std::string& path, std::vector<std::string>& notes);

// Those of `listed` (all when `names` is empty). InputError: every name that is not there.
std::vector<FetchRequest> choose_models(const std::vector<FetchRequest>& listed,
                                        const std::vector<std::string>& names,
                                        const std::string& path);

// Models of the catalog (the first of their places that is on the hub) and hub ids. InputError:
// every name that is neither, every model that is not on the hub.
std::vector<FetchRequest> find_models(const std::vector<std::string>& names,
                                      const ModelCatalog& catalog);

}  // namespace sftbench
