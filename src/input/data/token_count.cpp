#include "sftbench/data/token_count.h"

#include <mutex>
#include <numeric>
#include <utility>

#include "data/encode_threads.h"
#include "data/entry_errors.h"

namespace sftbench {
namespace {

using CountProgress = std::function<void(int64_t entries)>;

// read(entry, text, error) gets the text of `entry`, or of another one that it puts there instead:
// true, or false and what is wrong with it. It is called from several threads.
template <typename Read>
std::vector<int64_t> count_texts(int64_t size, const std::vector<int64_t>& entries,
                                 const Tokenizer& tokenizer, int threads, TokenCountCache& cache,
                                 const CountProgress& progress, const Read& read) {
  EntryErrors errors;
  std::mutex mutex;
  int64_t done = cache.known();
  for_each_in_parallel(entries, threads, tokenizer, [&](int64_t entry, const Tokenizer& own) {
    std::string text;
    Diagnostic error;
    if (!read(entry, text, error)) return errors.add(entry, std::move(error));
    if (cache.tokens(entry)) return;
    const auto tokens = static_cast<int64_t>(own.encode(text, true).size());
    const std::lock_guard lock(mutex);
    cache.set(entry, tokens);
    if (progress) progress(++done);
  });
  errors.throw_if_any();

  std::vector<int64_t> counts;
  for (int64_t entry = 0; entry < size; ++entry) counts.push_back(cache.tokens(entry).value());
  return counts;
}

// Of a file, or of entries.
template <typename File>
std::vector<int64_t> count_fields(const File& file, const std::string& text_field,
                                  const Tokenizer& tokenizer, int threads, TokenCountCache& cache,
                                  const CountProgress& progress) {
  std::vector<int64_t> missing;
  for (int64_t entry = 0; entry < file.size(); ++entry) {
    if (!cache.tokens(entry)) missing.push_back(entry);
  }
  return count_texts(file.size(), missing, tokenizer, threads, cache, progress,
                     [&](int64_t entry, std::string& text, Diagnostic& error) {
                       return file.read_text(entry, text_field, text, error);
                     });
}

}  // namespace

std::vector<int64_t> count_tokens(const JsonlFile& file, const std::string& text_field,
                                  const Tokenizer& tokenizer, int threads, TokenCountCache& cache,
                                  const CountProgress& progress) {
  return count_fields(file, text_field, tokenizer, threads, cache, progress);
}

std::vector<int64_t> count_tokens(const Entries& entries, const std::string& text_field,
                                  const Tokenizer& tokenizer, int threads, TokenCountCache& cache,
                                  const CountProgress& progress) {
  return count_fields(entries, text_field, tokenizer, threads, cache, progress);
}

std::vector<int64_t> count_tokens(ParquetTexts& texts, const Tokenizer& tokenizer, int threads,
                                  TokenCountCache& cache, const CountProgress& progress) {
  // They come in the file's order only: whoever is free takes the next one.
  std::vector<int64_t> entries(cache.complete() ? 0 : static_cast<size_t>(texts.size()));
  std::mutex mutex;
  int64_t next = 0;
  return count_texts(texts.size(), entries, tokenizer, threads, cache, progress,
                     [&](int64_t& entry, std::string& text, Diagnostic& error) {
                       const std::lock_guard lock(mutex);
                       entry = next++;
                       return texts.read_next(text, error);
                     });
}

}  // namespace sftbench
