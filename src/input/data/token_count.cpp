#include "sftbench/data/token_count.h"

#include <mutex>
#include <utility>

#include "data/encode_threads.h"
#include "data/entry_errors.h"

namespace sftbench {

std::vector<int64_t> count_tokens(ParquetTexts& texts, const Tokenizer& tokenizer, int threads,
                                  TokenCountCache& cache,
                                  const std::function<void(int64_t entries)>& progress) {
  // They come in the file's order only: whoever is free takes the next one.
  const std::vector<int64_t> entries(cache.complete() ? 0 : static_cast<size_t>(texts.size()));
  std::mutex reading, counting;
  int64_t next = 0, done = cache.known();
  EntryErrors errors;
  for_each_in_parallel(entries, threads, tokenizer, [&](int64_t, const Tokenizer& own) {
    std::string text;
    Diagnostic error;
    std::unique_lock read(reading);
    const int64_t entry = next++;
    if (!texts.read_next(text, error)) return errors.add(entry, std::move(error));
    read.unlock();
    {
      const std::lock_guard lock(counting);
      if (cache.tokens(entry)) return;
    }
    const auto tokens = static_cast<int64_t>(own.encode(text, true).size());
    const std::lock_guard lock(counting);
    cache.set(entry, tokens);
    if (progress) progress(++done);
  });
  errors.throw_if_any();

  std::vector<int64_t> counts;
  for (int64_t entry = 0; entry < texts.size(); ++entry)
    counts.push_back(cache.tokens(entry).value());
  return counts;
}

}  // namespace sftbench
