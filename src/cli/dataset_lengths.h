// The lengths of a dataset's entries, for commands that decide.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace sftbench {

struct DatasetLengths {
  std::string dataset;  // JSONL file, or name of a generated dataset; empty: none
  std::string text_field = "output";
  std::string tokenizer;  // folder; empty: the tokenizer that ships
};

// Commands that read a space have training arguments of these names.
struct DatasetOptionNames {
  const char* dataset = "--dataset,--data";  // the second as `run` names it
  const char* text_field = "--text-field";
  const char* tokenizer = "--tokenizer";
};

void add_dataset_length_options(CLI::App& command, DatasetLengths& options,
                                const DatasetOptionNames& names = {});

// Tokens of each entry in their order, counted once and then cached. InputError.
std::vector<int64_t> lengths_of(const DatasetLengths& options);

}  // namespace sftbench
