#include "data/chat_turns.h"

#include <algorithm>
#include <string_view>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";

size_t common_length(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  const auto end = a.begin() + static_cast<std::ptrdiff_t>(most);
  return static_cast<size_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

// Not within a character of UTF-8.
size_t character_boundary(const std::string& text, size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U)
    --at;
  return at;
}

// The name of what a message calls first or last.
std::string* call_of(Json& message, bool first = false) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array() || calls->empty()) return nullptr;
  Json& name = (first ? calls->front() : calls->back())["function"]["name"];
  return name.is_string() ? name.get_ptr<std::string*>() : nullptr;
}

// The content, or its first or last part; null where there is none.
std::string* words_of(Json& message, bool first) {
  const auto content = message.find("content");
  if (content == message.end()) return nullptr;
  if (!content->is_array() || content->empty()) return content->get_ptr<std::string*>();
  Json& part = first ? content->front() : content->back();
  const auto text = part.find("text");
  return text == part.end() ? nullptr : text->get_ptr<std::string*>();
}

// The text of a message that marks go to: its content, or the call of one without words.
std::string* text_of(Json& message, bool first = false) {
  std::string* words = words_of(message, first);
  std::string* call = call_of(message);
  return words != nullptr && (call == nullptr || !words->empty()) ? words : call;
}

// How much of what would end a turn stands in front of other text: not a part of a tag.
size_t common_ending(std::string_view rest, std::string_view ending) {
  size_t same = common_length(rest, ending);
  if (same == ending.size()) return same;
  const auto ends = [](char c) { return c == '>' || c == ']' || c == '\n' || c == ' '; };
  while (same > 0 && !ends(rest[same - 1])) --same;
  return same;
}

// "<|end|>" of "<|end|><|start|>user": the end of a turn that is not the last one may have a tag of
// its own, in front of the next turn's.
size_t tag_before_tag(std::string_view rest) {
  if (!rest.starts_with('<')) return 0;
  const size_t end = rest.find('>');
  if (end == std::string_view::npos) return 0;
  const size_t next = rest.find_first_not_of(" \n", end + 1);
  return next != std::string_view::npos && rest[next] == '<' ? next : 0;
}

}  // namespace

ChatTurns::ChatTurns(const RenderMessages& render, const Json& messages, const std::string& whole)
    : render_(render), messages_(messages), whole_(whole), nonce_("zQ7") {
  while (whole_.find(nonce_) != std::string::npos) nonce_ += "vX";
}

std::string ChatTurns::mark(size_t message) const {
  return nonce_ + "k" + std::to_string(message) + "W";
}

// Blanks at the ends of a text stay at its ends: templates cut them off.
std::optional<Json> ChatTurns::marked(size_t message, Place place) const {
  Json copy = messages_[message];
  const bool of_call = place == Place::kCall || place == Place::kFirstCall;
  std::string* text =
      of_call ? call_of(copy, place == Place::kFirstCall) : text_of(copy, place == Place::kBegin);
  if (text == nullptr) return std::nullopt;
  const size_t last = text->find_last_not_of(kBlanks);
  const size_t end = last == std::string::npos ? 0 : last + 1;
  const size_t first = text->find_first_not_of(kBlanks);
  const size_t begin = first == std::string::npos ? 0 : first;
  const size_t at = place == Place::kEnd || of_call ? end
                    : place == Place::kBegin        ? begin
                                             : character_boundary(*text, begin + (end - begin) / 2);
  text->insert(at, mark(message));
  return copy;
}

std::optional<std::string> ChatTurns::without_marks(const std::string& text,
                                                    Positions& positions) const {
  positions.assign(messages_.size(), std::nullopt);
  std::string plain;
  plain.reserve(text.size());
  size_t from = 0;
  const std::string head = nonce_ + "k";
  for (size_t at = text.find(head); at != std::string::npos; at = text.find(head, from)) {
    plain.append(text, from, at - from);
    size_t message = 0;
    size_t end = at + head.size();
    for (; text[end] >= '0' && text[end] <= '9'; ++end)  // a null byte stands at the end
      message = 10 * message + static_cast<size_t>(text[end] - '0');
    if (text[end] != 'W' || message >= messages_.size()) return std::nullopt;
    // A call's name may stand with its answer, too.
    if (!positions[message]) positions[message] = plain.size();
    from = end + 1;
  }
  plain.append(text, from);
  return plain;
}

const std::optional<std::string>& ChatTurns::beginning(size_t messages,
                                                       bool add_generation_prompt) {
  const auto key = std::make_pair(messages, add_generation_prompt);
  const auto known = beginnings_.find(key);
  if (known != beginnings_.end()) return known->second;
  std::optional<std::string>& text = beginnings_[key];
  if (messages == messages_.size() && !add_generation_prompt) return text = whole_;
  Json first = Json::array();
  for (size_t i = 0; i < messages; ++i) first.push_back(messages_[i]);
  try {
    text = render_(first, add_generation_prompt);
  } catch (const InputError&) {  // a template may refuse a part of a conversation
  }
  return text;
}

// Empty where the template renders marked messages otherwise.
const ChatTurns::Positions& ChatTurns::positions(Place place) {
  const auto known = positions_.find(place);
  if (known != positions_.end()) return known->second;
  Positions& found = positions_[place];
  Json all = Json::array();
  for (size_t i = 0; i < messages_.size(); ++i)
    all.push_back(marked(i, place).value_or(messages_[i]));
  try {
    Positions read;
    const auto plain = without_marks(render_(all, false), read);
    if (plain && *plain == whole_) found = std::move(read);
  } catch (const InputError&) {
  }
  return found;
}

// Where one message's mark changes what the template makes of it, those of others may not.
std::optional<size_t> ChatTurns::position(size_t message, Place place) {
  const Positions& all = positions(place);
  if (!all.empty()) return all[message];
  const auto key = std::make_pair(message, place);
  const auto known = single_.find(key);
  if (known != single_.end()) return known->second;
  std::optional<size_t>& found = single_[key];
  const auto copy = marked(message, place);
  if (!copy) return found;
  Json messages = messages_;
  messages[message] = *copy;
  try {
    Positions read;
    const auto plain = without_marks(render_(messages, false), read);
    if (plain && *plain == whole_) found = read[message];
  } catch (const InputError&) {
  }
  return found;
}

std::optional<std::string> ChatTurns::behind_mark(size_t message, Place place, size_t last,
                                                  bool add_generation_prompt) {
  const auto copy = marked(message, place);
  if (!copy) return std::nullopt;
  Json first = Json::array();
  for (size_t i = 0; i <= last; ++i) first.push_back(i == message ? *copy : messages_[i]);
  try {
    const std::string text = render_(first, add_generation_prompt);
    const size_t at = text.rfind(mark(message));
    if (at == std::string::npos) return std::nullopt;
    return text.substr(at + mark(message).size());
  } catch (const InputError&) {
    return std::nullopt;
  }
}

std::optional<size_t> ChatTurns::begin_of(size_t message) {
  const auto& before = beginning(message, true);
  if (before && whole_.starts_with(*before)) return before->size();
  const std::optional<size_t> words = position(message, Place::kBegin);
  std::optional<size_t> partial;
  // The message in front of it, or where nothing of that is rendered, the one before.
  for (size_t from = message; from-- > 0 && !partial;) {
    for (const Place place : kPlaces) {
      const auto at = position(from, place);
      if (!at) continue;
      const auto prompt = behind_mark(from, place, message - 1, true);
      if (!prompt) continue;
      const std::string_view rest = std::string_view(whole_).substr(*at);
      if (rest.starts_with(*prompt)) return *at + prompt->size();
      // A prompt that goes on otherwise than the whole: "<think>", say, which earlier turns lack.
      const size_t same = common_length(rest, *prompt);
      if (same > 0 && !partial) partial = *at + same;
    }
  }
  return partial && words ? std::min(*partial, *words) : partial ? partial : words;
}

// Where a turn ends behind the mark of its message.
std::optional<size_t> ChatTurns::end_behind(size_t message, Place place) {
  const auto at = position(message, place);
  if (!at) return std::nullopt;
  const auto ending = behind_mark(message, place, message, false);
  if (!ending) return std::nullopt;
  const std::string_view rest = std::string_view(whole_).substr(*at);
  const size_t same = common_ending(rest, *ending);
  const bool has_tag = rest.substr(0, same).find('>') != std::string_view::npos;
  const bool other_tag = !has_tag && same < ending->size() && (*ending)[same] == '<';
  return *at + same + (other_tag ? tag_before_tag(rest.substr(same)) : 0);
}

// Of the turn, and of its words.
std::optional<std::pair<size_t, size_t>> ChatTurns::end_of(size_t message, size_t begin) {
  const std::optional<size_t> words = position(message, Place::kEnd);
  const auto& upto = beginning(message + 1, false);
  if (upto && whole_.starts_with(*upto)) return {{upto->size(), words.value_or(upto->size())}};
  for (const Place place : kPlaces) {
    const auto end = end_behind(message, place);
    if (!end || (words && *end < *words)) continue;
    return {{*end, words.value_or(*end)}};
  }
  if (words) return {{*words, *words}};
  const size_t same = upto ? common_ending(whole_, *upto) : 0;
  if (same < begin) return std::nullopt;
  return {{same, same}};
}

bool ChatTurns::has_others(size_t begin, size_t end) {
  for (size_t i = 0; i < messages_.size(); ++i) {
    if (messages_[i]["role"] == "assistant") continue;
    const auto at = position(i, Place::kEnd);
    if (at && *at > begin && *at < end) return true;
  }
  return false;
}

std::vector<Turn> ChatTurns::turns(size_t message) {
  const auto begin = begin_of(message);
  if (!begin) return {};
  const auto end = end_of(message, *begin);
  if (!end || end->first < *begin) return {};
  if (!has_others(*begin, end->first))
    return {{*begin, end->first, std::min(end->second, end->first)}};
  // A tool's answer may stand between the call and the words of one message.
  const auto called = end_behind(message, Place::kCall);
  const auto words = position(message, Place::kBegin);
  if (!called || !words || *called <= *begin || *words < *called) return {};
  if (has_others(*begin, *called) || has_others(*words, end->first)) return {};
  return {{*begin, *called, *called}, {*words, end->first, std::min(end->second, end->first)}};
}

std::vector<size_t> ChatTurns::unseen() {
  std::vector<size_t> messages;
  Json all = Json::array();
  for (size_t i = 0; i < messages_.size(); ++i)
    all.push_back(marked(i, Place::kEnd).value_or(messages_[i]));
  std::string text;
  try {
    text = render_(all, false);
  } catch (const InputError&) {
    return messages;
  }
  for (size_t i = 0; i < messages_.size(); ++i) {
    Json copy = messages_[i];
    const std::string* own = text_of(copy);
    if (own == nullptr || trimmed(*own).empty() || text.find(mark(i)) != std::string::npos)
      continue;
    // A template that reads thoughts out of a text may lose a mark and not the text.
    if (whole_.find(trimmed(*own)) == std::string::npos) messages.push_back(i);
  }
  return messages;
}

}  // namespace sftbench
