#include "data/chat_turns.h"

#include <gtest/gtest.h>

#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using Damage = std::function<void(std::string&)>;

// What an assistant says to `question`, where the template refuses beginnings, so that only marks
// tell.
std::vector<Turn> turns(const std::string& question, const Damage& damage) {
  const Json messages = {{{"role", "user"}, {"content", question}},
                         {{"role", "assistant"}, {"content", "yes"}}};
  const RenderMessages render = [&damage](const Json& some, bool) {
    if (some.size() < 2) throw InputError({{{}, 0, {}, "refused", {}, {}}});
    std::string text;
    for (const Json& message : some) text += "<" + message["content"].get<std::string>() + ">";
    damage(text);
    return text;
  };
  const std::string whole = "<" + question + "><yes>";
  return ChatTurns(render, messages, whole).turns(1);
}

void replace(std::string& text, const std::string& old, const std::string& by) {
  const size_t at = text.find(old);
  if (at != std::string::npos) text.replace(at, old.size(), by);
}

TEST(ChatTurnsTest, MarksTellWhereATurnIsAndDamagedOnesTellNothing) {
  for (const std::string question : {"so?", "zQ7k1W?", "zQ7"}) {
    const std::vector<Turn> found = turns(question, [](std::string&) {});
    ASSERT_EQ(found.size(), 1u) << question;
    const size_t begin = question.size() + 3;
    EXPECT_EQ(found[0].begin, begin);
    EXPECT_EQ(found[0].words_end, begin + 3);
    EXPECT_EQ(found[0].end, begin + 4);
  }
  EXPECT_EQ(turns("so?", [](std::string& text) { replace(text, "k1W", "k1V"); }).size(), 0u);
  EXPECT_EQ(turns("so?", [](std::string& text) { replace(text, "k1W", "k99999999W"); }).size(), 0u);
  EXPECT_EQ(turns("so?", [](std::string& text) { replace(text, "k1W", "k2W"); }).size(), 0u);
  EXPECT_EQ(
      turns("so?",
            [](std::string& text) { text.resize(std::min(text.find("k1W"), text.size() - 2) + 2); })
          .size(),
      0u);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
