// Keys of other programs' files, and what each is here: the one place where a key is described.
#pragma once

#include <string>
#include <vector>

namespace sftbench {

enum class ArgumentUse {
  kProperty,  // `what`: the property; empty: the one of the key's own name
  kChoice,    // its value is one of argument_choices()
  kRead,      // argument_readers.cpp reads it; `what`: what it says something about
  kFixed,     // no value but `neutral` has an equal; `what`: what works instead
  kIdle,      // changes nothing that is measured; `what`: why
};

// One row for all keys that are the same thing, with spaces between them. `neutral`: values, with |
// between them, that say nothing here: those that a library writes where nobody has chosen. So does
// no value.
struct ArgumentRow {
  const char* keys;
  ArgumentUse use;
  const char* what = "";
  const char* neutral = "";
};

// What a value of a key sets; no property: nothing. Several rows of one value set several things.
struct ArgumentChoice {
  const char* keys;
  const char* value;
  const char* property;  // or one of what is no property: "tuning", "padding", "use_cpu"
  const char* set;
};

// Of accelerate, transformers, trl, the alignment handbook and fms-hf-tuning.
const std::vector<ArgumentRow>& huggingface_arguments();
// Of LLMForge, LLaMA-Factory and axolotl, where they have other keys.
const std::vector<ArgumentRow>& other_arguments();
const std::vector<ArgumentChoice>& argument_choices();

}  // namespace sftbench
