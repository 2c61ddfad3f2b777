#include "sftbench/data/token_count.h"

#include <mutex>
#include <utility>

#include "data/entry_errors.h"
#include "data/encode_threads.h"

namespace sftbench {

std::vector<int64_t> count_tokens(const JsonlFile& file, const std::string& text_field,
                                  const Tokenizer& tokenizer, int threads, TokenCountCache& cache,
                                  const std::function<void(int64_t entries)>& progress) {
  std::vector<int64_t> missing;
  for (int64_t entry = 0; entry < file.size(); ++entry) {
    if (!cache.tokens(entry)) missing.push_back(entry);
  }
  EntryErrors errors;
  std::mutex mutex;
  int64_t done = file.size() - static_cast<int64_t>(missing.size());
  for_each_in_parallel(missing, threads, tokenizer, [&](int64_t entry, const Tokenizer& own) {
    std::string text;
    Diagnostic error;
    if (!file.read_text(entry, text_field, text, error)) return errors.add(entry, std::move(error));
    const auto tokens = static_cast<int64_t>(own.encode(text, true).size());
    const std::lock_guard lock(mutex);
    cache.set(entry, tokens);
    if (progress) progress(++done);
  });
  errors.throw_if_any();

  std::vector<int64_t> counts;
  for (int64_t entry = 0; entry < file.size(); ++entry)
    counts.push_back(cache.tokens(entry).value());
  return counts;
}

}  // namespace sftbench
