// What a file is, told by its keys, so that one of a kind in the place of another is named for what
// it is.
#pragma once

#include <optional>
#include <string>

#include "sftbench/base/yaml.h"

namespace sftbench {

struct FileKind {
  const char* noun;    // "a DeepSpeed configuration"
  const char* option;  // that takes it: "--deepspeed"
  const char* right;   // how it is given: "--deepspeed FILE"
};

// nullptr: none that is known.
const FileKind* kind_of(const YamlNode& root);

// InputError, named `where`, for a file of a kind that another option than `option` takes, and for
// entries to train on where `option` is not --data. Other files, and very large ones, pass: their
// reader says what is wrong with them. `option` empty: no known kind is right.
void refuse_other_kind(const std::string& where, const std::string& path,
                       const std::string& option = {});

}  // namespace sftbench
