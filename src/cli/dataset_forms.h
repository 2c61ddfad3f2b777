// What the entries of a dataset are, for commands that look at them as a run does.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "sftbench/data/entries.h"
#include "sftbench/data/text_dataset.h"

namespace sftbench {

struct DatasetForms {
  std::string dataset, tokenizer;  // folder; empty: the tokenizer that ships
  std::string response_template = "\\n### Response:";
  std::string entry_template, chat_template, mask = "assistant";
  TextDatasetOptions options;
  const CLI::Option* text_field = nullptr;  // whether it is given
};

// `dataset`: the names of the option, or of the argument that is required, that takes the dataset.
void add_dataset_form_options(CLI::App& command, DatasetForms& forms, const std::string& dataset);

// As a run finds them from the first entry where nothing says it. InputError.
TextDatasetOptions options_of(const DatasetForms& forms, const Entries& file);

// With the special tokens that training adds.
Tokenizer tokenizer_of(const DatasetForms& forms);

// Says on stderr what a run would say of the data.
void tell_account(const EncodedEntries& entries);

}  // namespace sftbench
