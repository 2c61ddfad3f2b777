// Where in a rendered conversation stands what assistants say.
//
// A turn is what a model has to write: from behind the prompt that asks for it
// (add_generation_prompt) up to where the template would end a conversation that ends with it. So
// it has the words, and the end of turn that the template writes behind them. Beginnings of the
// conversation, rendered alone, tell both where the whole begins with them. Templates render
// beginnings otherwise, or refuse them: then marks in the messages' texts tell where these stand in
// the whole, and the text behind the last mark of a beginning is looked for there.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench {

// Bytes of the whole text.
struct Turn {
  size_t begin = 0, end = 0;
  size_t words_end = 0;  // where what the message holds ends
};

// The text of some messages. InputError where the template refuses them.
using RenderMessages = std::function<std::string(const Json& messages, bool add_generation_prompt)>;

class ChatTurns {
 public:
  // REQUIRES: all of them outlive the object; `whole` is render(messages, false).
  ChatTurns(const RenderMessages& render, const Json& messages, const std::string& whole);

  // Of a message that an assistant says, in one piece or two. None where it cannot be told.
  std::vector<Turn> turns(size_t message);

  // Messages with a text of which nothing stands in the whole.
  std::vector<size_t> unseen();

 private:
  // Of a message's text, and of what it calls: some templates render the first call alone.
  enum class Place { kEnd, kMiddle, kBegin, kCall, kFirstCall };
  static constexpr Place kPlaces[] = {Place::kEnd, Place::kMiddle, Place::kBegin, Place::kCall,
                                      Place::kFirstCall};
  using Positions = std::vector<std::optional<size_t>>;  // of each message's mark

  std::string mark(size_t message) const;
  std::optional<Json> marked(size_t message, Place place) const;
  // The text without the marks, and where each stood first; nothing where one is damaged.
  std::optional<std::string> without_marks(const std::string& text, Positions& positions) const;
  const std::optional<std::string>& beginning(size_t messages, bool add_generation_prompt);
  const Positions& positions(Place place);
  std::optional<size_t> position(size_t message, Place place);
  // Renders the beginning that ends with message `last`. Returns its text behind the mark of
  // `message`.
  std::optional<std::string> behind_mark(size_t message, Place place, size_t last,
                                         bool add_generation_prompt);
  std::optional<size_t> begin_of(size_t message);
  std::optional<size_t> end_behind(size_t message, Place place);
  std::optional<std::pair<size_t, size_t>> end_of(size_t message, size_t begin);
  // Whether what others say stands between these bytes.
  bool has_others(size_t begin, size_t end);

  const RenderMessages& render_;
  const Json& messages_;
  const std::string& whole_;
  std::string nonce_;
  std::map<std::pair<size_t, bool>, std::optional<std::string>> beginnings_;
  std::map<Place, Positions> positions_;
  std::map<std::pair<size_t, Place>, std::optional<size_t>> single_;
};

}  // namespace sftbench
