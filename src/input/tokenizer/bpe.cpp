#include "tokenizer/bpe.h"

#include <algorithm>
#include <cstring>

#include "sftbench/base/error.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/unicode.h"

namespace sftbench {
namespace {

// Up to here, looking for the lowest rank anew after each merge beats keeping a heap.
constexpr size_t kShortWord_symbols = 40;

// Merges `count` symbols in place; returns how many are left.
size_t merge_short(const MergeTable& merges, int32_t* symbols, size_t count) {
  Merge pairs[kShortWord_symbols];
  for (size_t i = 0; i + 1 < count; ++i) pairs[i] = merges.find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].id < 0) break;
    symbols[best] = pairs[best].id;
    std::copy(symbols + best + 2, symbols + count, symbols + best + 1);
    std::copy(pairs + best + 1, pairs + count - 1, pairs + best);
    --count;
    if (best > 0) pairs[best - 1] = merges.find(symbols[best - 1], symbols[best]);
    if (best + 1 < count) pairs[best] = merges.find(symbols[best], symbols[best + 1]);
  }
  return count;
}

// The same for long words with a heap of candidates, O(n log n). Candidates are not taken out when
// one of their symbols changes; they are recognized as stale when they come up.
class LongMerge {
 public:
  LongMerge(const MergeTable& merges, BpeScratch& scratch) : merges_(merges), s_(scratch) {
    s_.symbols.clear();
    s_.heap.clear();
    const auto count = static_cast<int32_t>(s_.ids.size());
    for (int32_t i = 0; i < count; ++i) {
      s_.symbols.push_back(
          {s_.ids[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1, true});
    }
    for (int32_t i = 0; i + 1 < count; ++i) push(i);
  }

  void run(std::vector<int32_t>& ids) {
    while (!s_.heap.empty()) {
      std::pop_heap(s_.heap.begin(), s_.heap.end(), later);
      const BpeScratch::Candidate top = s_.heap.back();
      s_.heap.pop_back();
      merge(static_cast<int32_t>(top.rank_and_position & 0xFFFFFFFF), top.id);
    }
    for (const auto& symbol : s_.symbols) {
      if (symbol.alive) ids.push_back(symbol.id);
    }
  }

 private:
  static bool later(const BpeScratch::Candidate& left, const BpeScratch::Candidate& right) {
    return left.rank_and_position > right.rank_and_position;
  }
  BpeScratch::Symbol& at(int32_t position) { return s_.symbols[static_cast<size_t>(position)]; }

  void push(int32_t position) {
    const auto& left = at(position);
    const Merge merge = merges_.find(left.id, at(left.next).id);
    if (merge.id < 0) return;
    s_.heap.push_back(
        {static_cast<uint64_t>(merge.rank) << 32 | static_cast<uint32_t>(position), merge.id});
    std::push_heap(s_.heap.begin(), s_.heap.end(), later);
  }

  void merge(int32_t position, int32_t id) {
    auto& left = at(position);
    if (!left.alive || left.next < 0) return;
    auto& right = at(left.next);
    if (merges_.find(left.id, right.id).id != id) return;
    left.id = id;
    left.next = right.next;
    right.alive = false;
    if (left.next >= 0) at(left.next).previous = position;
    if (left.previous >= 0) push(left.previous);
    if (left.next >= 0) push(position);
  }

  const MergeTable& merges_;
  BpeScratch& s_;
};

}  // namespace

BpeModel::BpeModel(TokenTable vocabulary, BpeConfig config)
    : vocabulary_(std::move(vocabulary)), config_(std::move(config)) {
  constexpr const char* kHex = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    byte_chars_[byte] = vocabulary_.find(byte_level_char(static_cast<unsigned char>(byte)));
    all_bytes_ &= byte_chars_[byte] >= 0;
    byte_fallbacks_[byte] =
        vocabulary_.find(std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">");
  }
  all_bytes_ &= config_.continuing_subword_prefix.empty() && config_.end_of_word_suffix.empty();
}

std::optional<std::string> BpeModel::add_merge(std::string_view left, std::string_view right) {
  const auto missing = [](std::string_view token) {
    return "token '" + std::string(token) + "' is not in the vocabulary";
  };
  const int32_t left_id = vocabulary_.find(left);
  const int32_t right_id = vocabulary_.find(right);
  if (left_id < 0) return missing(left);
  if (right_id < 0) return missing(right);
  const size_t prefix_bytes = config_.continuing_subword_prefix.size();
  if (right.size() < prefix_bytes)
    return "token '" + std::string(right) + "' lacks the subword prefix";
  std::string merged(left);
  merged += right.substr(prefix_bytes);
  const int32_t id = vocabulary_.find(merged);
  if (id < 0) return missing(merged);
  merges_.insert(left_id, right_id, {next_rank_++, id});
  if (!left.empty() && !right.empty()) {
    const uint32_t first = decode_utf8(right.data()).code_point;
    const uint32_t last = decode_utf8_before(left.data(), left.data() + left.size()).code_point;
    if (first != last && first < joined_behind_other_.size()) joined_behind_other_[first] = true;
  }
  return std::nullopt;
}

bool BpeModel::separable_at(std::string_view mark) const {
  const uint32_t code_point = decode_utf8(mark.data()).code_point;
  // Unknown and fallback tokens end in ASCII, whatever character they stand for: a mark beyond
  // ASCII is none.
  return code_point >= 0x80 && code_point < joined_behind_other_.size() &&
         !joined_behind_other_[code_point] && !config_.ignore_merges &&
         config_.continuing_subword_prefix.empty() && config_.end_of_word_suffix.empty() &&
         vocabulary_.find(mark) >= 0 && !(config_.unk_token && config_.unk_token->ends_with(mark));
}

int32_t BpeModel::unknown() const {
  const int32_t id = vocabulary_.find(*config_.unk_token);
  if (id < 0) throw InputError("unk_token '" + *config_.unk_token + "' is not in the vocabulary");
  return id;
}

bool BpeModel::append_byte_fallbacks(std::string_view text, std::vector<int32_t>& symbols) const {
  const auto id = [&](char c) { return byte_fallbacks_[static_cast<unsigned char>(c)]; };
  if (!std::all_of(text.begin(), text.end(), [&](char c) { return id(c) >= 0; })) return false;
  for (const char c : text) symbols.push_back(id(c));
  return true;
}

void BpeModel::append_chars(std::string_view text, std::vector<int32_t>& symbols) const {
  const bool decorated =
      !config_.continuing_subword_prefix.empty() || !config_.end_of_word_suffix.empty();
  int32_t pending_unknown = -1;  // written before the next known character: unknown ones may fuse
  std::string decoration;
  for (size_t i = 0; i < text.size();) {
    const size_t size = decode_utf8(text.data() + i).size_bytes;
    std::string_view symbol = text.substr(i, size);
    if (decorated) {
      decoration = i == 0 ? "" : config_.continuing_subword_prefix;
      decoration += symbol;
      if (i + size == text.size()) decoration += config_.end_of_word_suffix;
      symbol = decoration;
    }
    i += size;
    const int32_t id = vocabulary_.find(symbol);
    if (id >= 0) {
      if (pending_unknown >= 0) symbols.push_back(pending_unknown);
      pending_unknown = -1;
      symbols.push_back(id);
    } else if (!(config_.byte_fallback && append_byte_fallbacks(symbol, symbols)) &&
               config_.unk_token) {
      if (pending_unknown >= 0 && !config_.fuse_unk) symbols.push_back(pending_unknown);
      pending_unknown = unknown();
    }
  }
  if (pending_unknown >= 0) symbols.push_back(pending_unknown);
}

void BpeModel::encode(std::string_view piece, bool bytes, BpeScratch& scratch,
                      std::vector<int32_t>& ids) const {
  std::string written;
  if (bytes && (config_.ignore_merges || !all_bytes_)) {
    written = byte_level_text(piece);
    if (!all_bytes_) bytes = false;
  }
  if (config_.ignore_merges) {
    const int32_t whole = vocabulary_.find(written.empty() ? piece : written);
    if (whole >= 0) return ids.push_back(whole);
  }
  scratch.ids.clear();
  if (bytes) {
    for (const char c : piece) scratch.ids.push_back(byte_chars_[static_cast<unsigned char>(c)]);
  } else {
    append_chars(written.empty() ? piece : written, scratch.ids);
  }
  if (scratch.ids.size() > kShortWord_symbols) return LongMerge(merges_, scratch).run(ids);
  const size_t count = merge_short(merges_, scratch.ids.data(), scratch.ids.size());
  ids.insert(ids.end(), scratch.ids.begin(),
             scratch.ids.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace sftbench
