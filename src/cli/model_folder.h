// A model of one's own, and what the files in its folder say that arguments leave to them or
// require of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/translate/argument_file.h"

namespace sftbench {

struct OwnModel {
  std::string name;    // in results: a folder's name, or a hub id; empty: none
  std::string place;   // that find_model() looks at
  std::string folder;  // whole path; empty: on the hub
};

// A folder with config.json, or a hub id as ORG/NAME. InputError naming `option` for anything else.
OwnModel own_model(const std::string& option, const std::string& given);

// The most positions that config.json names; 0: it names none.
int64_t most_positions(const std::string& folder);

// torch_dtype, or dtype as transformers 5 writes it; empty: config.json has none.
std::string dtype_of_model(const std::string& folder);

// InputError: a token that arguments ask for, and that the tokenizer of `folder` has not.
void require_special_tokens(const std::vector<ArgumentFile::SpecialToken>& tokens,
                            const std::string& folder);

}  // namespace sftbench
