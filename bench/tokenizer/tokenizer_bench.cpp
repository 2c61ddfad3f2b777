// One side of bench/tokenizer/compare.py: encodes the texts of a JSONL file once, with a fresh
// tokenizer.
//
//   tokenizer_bench texts DATASET ENTRIES FILE   writes the first entries of a named synthetic
//   dataset tokenizer_bench encode TOKENIZER.json FILE   prints {"load_s", "encode_s", "bytes",
//   "tokens", "ids_hash"}
//
// Seconds are those of the processor: one thread works, and other work on the machine should not
// count.
#include <xxhash.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>

#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/data/dataset_catalog.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace {

using namespace sftbench;

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::vector<std::string> read_texts(const std::string& path) {
  const std::string lines = read_file(path);
  std::vector<std::string> texts;
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = std::min(lines.find('\n', begin), lines.size());
    texts.push_back(parse_json(std::string_view(lines).substr(begin, end - begin), path)["output"]);
    begin = end + 1;
  }
  return texts;
}

int write_texts(const std::string& id, int entries, const std::string& path) {
  TextGenerator generator = named_text_generator(named_dataset(id));
  std::string lines;
  for (int i = 0; i < entries; ++i) generator.append_entry(lines);
  std::ofstream(path, std::ios::binary) << lines;
  return 0;
}

int encode_texts(const std::string& tokenizer_path, const std::string& text_path) {
  const std::vector<std::string> texts = read_texts(text_path);
  const double load_begin = cpu_seconds();
  const Tokenizer tokenizer = Tokenizer::from_json(read_file(tokenizer_path), tokenizer_path);
  const double encode_begin = cpu_seconds();
  size_t bytes = 0, tokens = 0;
  XXH64_hash_t hash = 0;
  std::vector<int32_t> ids;
  for (const std::string& text : texts) {
    ids.clear();
    tokenizer.encode(text, true, ids);
    bytes += text.size();
    tokens += ids.size();
    hash = XXH64(ids.data(), ids.size() * sizeof(ids[0]), hash);
  }
  const double end = cpu_seconds();
  std::cout << Json{{"load_s", encode_begin - load_begin},
                    {"encode_s", end - encode_begin},
                    {"bytes", bytes},
                    {"tokens", tokens},
                    {"ids_hash", hash}}
            << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 5 && std::strcmp(argv[1], "texts") == 0)
      return write_texts(argv[2], std::atoi(argv[3]), argv[4]);
    if (argc == 4 && std::strcmp(argv[1], "encode") == 0) return encode_texts(argv[2], argv[3]);
    std::cerr << "usage: tokenizer_bench texts DATASET ENTRIES FILE | encode TOKENIZER.json FILE\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return 2;
}
