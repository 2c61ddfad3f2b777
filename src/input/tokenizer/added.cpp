#include "tokenizer/added.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#if defined(__SSE2__)
#include <emmintrin.h>

#include <bit>
#endif

#include "tokenizer/unicode.h"

namespace sftbench {
namespace {

uint8_t classes_before(std::string_view text, size_t at) {
  return CharClasses::instance()[decode_utf8_before(text.data(), text.data() + at).code_point];
}
uint8_t classes_at(std::string_view text, size_t at) {
  return CharClasses::instance()[decode_utf8(text.data() + at).code_point];
}

#if defined(__SSE2__)
// The first of up to four bytes, 16 at a time; text.size() when there is none.
size_t find_any_of(std::string_view text, size_t from, std::string_view bytes) {
  __m128i wanted[4];
  for (size_t i = 0; i < 4; ++i) wanted[i] = _mm_set1_epi8(bytes[std::min(i, bytes.size() - 1)]);
  for (; from + 16 <= text.size(); from += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + from));
    const __m128i found = _mm_or_si128(
        _mm_or_si128(_mm_cmpeq_epi8(block, wanted[0]), _mm_cmpeq_epi8(block, wanted[1])),
        _mm_or_si128(_mm_cmpeq_epi8(block, wanted[2]), _mm_cmpeq_epi8(block, wanted[3])));
    const auto mask = static_cast<uint32_t>(_mm_movemask_epi8(found));
    if (mask != 0) return from + static_cast<size_t>(std::countr_zero(mask));
  }
  return std::min(text.find_first_of(bytes, from), text.size());
}
#endif

}  // namespace

void TokenFinder::build(std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& left, const Entry& right) { return left.text < right.text; });
  entries_.clear();
  for (Entry& entry : entries) {
    if (entry.text.empty()) continue;
    if (!entries_.empty() && entries_.back().text == entry.text) entries_.pop_back();
    entries_.push_back(std::move(entry));
  }
  choose_anchor();
}

// The place in the tokens whose bytes are the rarest in text: few, and neither letters nor the
// bytes that begin most characters and words.
void TokenFinder::choose_anchor() {
  const auto commonness = [](unsigned char byte) {
    if (byte == ' ' || (byte >= 'a' && byte <= 'z')) return 100;
    return byte >= 0x80 ? 50 : std::isalnum(byte) ? 20 : 1;
  };
  constexpr size_t kFurthest = 8;
  size_t shortest = entries_.empty() ? 0 : kFurthest;
  for (const Entry& entry : entries_) shortest = std::min(shortest, entry.text.size());
  int best = std::numeric_limits<int>::max();
  for (size_t place = 0; place < shortest; ++place) {
    bool seen[256] = {};
    std::string bytes;
    int cost = 0;
    for (const Entry& entry : entries_) {
      const char byte = entry.text[place];
      if (std::exchange(seen[static_cast<unsigned char>(byte)], true)) continue;
      bytes += byte;
      cost += commonness(static_cast<unsigned char>(byte));
    }
    if (cost >= best) continue;
    best = cost;
    anchor_ = place;
    anchor_bytes_ = bytes;
    std::copy(std::begin(seen), std::end(seen), is_anchor_byte_);
  }
}

size_t TokenFinder::candidate(std::string_view text, size_t from) const {
  from += anchor_;
  if (from >= text.size()) return text.size();
#if defined(__SSE2__)
  if (anchor_bytes_.size() <= 4) {
    const size_t found = find_any_of(text, from, anchor_bytes_);
    return found == text.size() ? found : found - anchor_;
  }
#endif
  while (from < text.size() && !is_anchor_byte_[static_cast<unsigned char>(text[from])]) ++from;
  return from == text.size() ? from : from - anchor_;
}

const TokenFinder::Entry* TokenFinder::longest_at(std::string_view text, size_t at) const {
  const Entry* longest = nullptr;
  auto first = entries_.begin();
  auto last = entries_.end();
  for (size_t depth = 0; at + depth < text.size() && first != last; ++depth) {
    const auto byte = static_cast<unsigned char>(text[at + depth]);
    const auto byte_of = [depth](const Entry& entry) {
      return static_cast<unsigned char>(entry.text[depth]);
    };
    if (last - first == 1) {  // one is left: compare what remains of it at once
      const bool whole =
          text.substr(at + depth).starts_with(std::string_view(first->text).substr(depth));
      return whole ? &*first : longest;
    }
    first = std::partition_point(first, last,
                                 [&](const Entry& entry) { return byte_of(entry) < byte; });
    last = std::partition_point(first, last,
                                [&](const Entry& entry) { return byte_of(entry) == byte; });
    if (first != last && first->text.size() == depth + 1) longest = &*first++;
  }
  return longest;
}

bool TokenFinder::accepts(const Entry& entry, std::string_view text, size_t start, size_t& begin,
                          size_t& end, SpaceRun& spaces) {
  if (entry.single_word) {
    const bool word_before = begin > 0 && (classes_before(text, begin) & kWord);
    const bool word_behind = end < text.size() && (classes_at(text, end) & kWord);
    if (word_before || word_behind) return false;
  }
  if (entry.lstrip) {
    while (begin > start && (classes_before(text, begin) & kSpace)) {
      begin -= decode_utf8_before(text.data(), text.data() + begin).size_bytes;
    }
    begin = std::max(begin, start);
  }
  if (entry.rstrip) {
    const size_t from = end;
    if (end >= spaces.begin && end < spaces.end) end = spaces.end;
    while (end < text.size() && (classes_at(text, end) & kSpace)) {
      end += decode_utf8(text.data() + end).size_bytes;
    }
    spaces = {from, end};
  }
  return true;
}

int32_t AddedVocabulary::find(const std::string& text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? -1 : found->second;
}

void AddedVocabulary::start_batch(int64_t model_size) {
  next_id_ = std::max(model_size, int64_t{largest_id_} + 1);
}

int32_t AddedVocabulary::add(AddedToken token, int32_t model_id) {
  int32_t id = find(token.content);
  if (id < 0) id = model_id;
  if (id < 0) {
    if (next_id_ >= std::numeric_limits<int32_t>::max())
      throw InputError("no id is left for another token");
    id = static_cast<int32_t>(next_id_++);
  }
  largest_id_ = std::max(largest_id_, id);
  ids_[token.content] = id;
  tokens_[id] = std::move(token);
  return id;
}

void AddedVocabulary::refresh(const NormalizerChain& normalizer) {
  std::vector<TokenFinder::Entry> raw, normalized;
  for (const auto& [id, token] : tokens_) {
    TokenFinder::Entry entry{token.content, id, token.single_word, token.lstrip, token.rstrip};
    if (token.normalized) normalizer.run(entry.text);
    (token.normalized ? normalized : raw).push_back(std::move(entry));
  }
  raw_.build(std::move(raw));
  normalized_.build(std::move(normalized));
}

}  // namespace sftbench
