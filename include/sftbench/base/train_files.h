// Which files of a dataset's repository are its split `train`, as load_dataset() of the package
// datasets finds them: by what the dataset's card (README.md) says, else by names. Source: the
// package datasets, data_files.py and load.py; hub documentation, "Manual Configuration".
#pragma once

#include <string>
#include <vector>

#include "sftbench/base/dataset_part.h"

namespace sftbench {

struct TrainFiles {
  std::vector<std::string>
      files;  // of one kind, in the order of reading, each once; empty: see `problem`
  std::string problem;
  std::string expected;
  std::string
      warning;  // shards that count themselves (train-00000-of-00002) are fewer than they say
  // Files may be missing: another list of paths could have them. False where the card is the
  // problem.
  bool incomplete = false;
};

// `paths` are those of the whole repository, or of as much of it as is there: relative, "/" between
// folders. `card` is the content of README.md, and may be empty. Files are JSON, JSON Lines, CSV,
// Parquet or Arrow, whichever kind most are of, and the first three may be packed with gzip or
// zstd. What is of another kind is refused by its name. InputError: a card that is no YAML, or
// whose `configs` have another form.
TrainFiles find_train_files(const std::vector<std::string>& paths, const std::string& card,
                            const DatasetPart& part);

// Whether the card says of files which split they are. One that cannot be read says nothing.
bool names_data_files(const std::string& card);

}  // namespace sftbench
