// Conversations in the forms that data have, against transformers' ids and assistant mask
// (tests/reference/conversations.py), and what of them is named because nothing reads it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/data/entry_form.h"
#include "sftbench/data/text_dataset.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

Tokenizer small_tokenizer() {
  Tokenizer tokenizer = Tokenizer::from_directory(SFTBENCH_TEST_DATA "/training/tokenizer");
  complete_special_tokens(tokenizer);
  return tokenizer;
}

struct Encoded {
  EncodedEntry entry;
  DataAccount account;
  std::string problem;
};

Encoded encoded(const std::string& lines, const std::string& column,
                const std::string& chat_template, int64_t most = 4096,
                ConversationMask mask = ConversationMask::kAssistant) {
  TextDatasetOptions options;
  options.conversation_field = column;
  options.chat_template = {chat_template, "chat.jinja"};
  options.model_max_length = most;
  options.mask = mask;
  Encoded result;
  try {
    TextDataset dataset(JsonlFile(lines, "own.jsonl"), small_tokenizer(), options);
    std::vector<int64_t> all(static_cast<size_t>(dataset.size()));
    std::iota(all.begin(), all.end(), 0);
    dataset.encode(all, 1);
    result.entry = dataset.entry(0);
    result.account = dataset.account();
  } catch (const InputError& error) {
    result.problem = error.what();
  }
  return result;
}

TEST(Conversations, IdsAndLabelsEqualTransformersWithAndWithoutGenerationBlocks) {
  const Json cases = read_json_file(SFTBENCH_TEST_DATA "/data/conversations.json");
  ASSERT_GT(cases.size(), 20u);
  for (const Json& one : cases) {
    for (const char* form : {"marked", "plain"}) {
      const std::string what = one["name"].get<std::string>() + ", " + form;
      const std::string line = json_text(one["entry"]);
      const Encoded made = encoded(line, one["column"], one[form]);
      EXPECT_EQ(made.problem, "") << what;
      EXPECT_EQ(made.entry.input_ids, one["input_ids"].get<std::vector<int32_t>>()) << what;
      EXPECT_EQ(made.entry.labels, one["labels"].get<std::vector<int32_t>>()) << what;
      EXPECT_EQ(made.account.doubtful_entries, 0) << what;
      EXPECT_THAT(made.account.unused, IsEmpty()) << what;
      FoundForm found;
      Diagnostic problem;
      ASSERT_TRUE(find_entry_form(one["entry"], found, problem)) << what;
      EXPECT_EQ(found.property + " " + found.value,
                "conversation_column " + one["column"].get<std::string>())
          << what;
    }
  }
}

// trl's labels without assistant_only_loss, where completion_only_loss holds for a prompt alone.
TEST(Conversations, AllOfThemBearLossButAPrompt) {
  const Json cases = read_json_file(SFTBENCH_TEST_DATA "/data/conversations.json");
  for (const Json& one : cases) {
    const Encoded made =
        encoded(json_text(one["entry"]), one["column"], one["plain"], 4096, ConversationMask::kAll);
    const char* expected = one["column"] == "completion" ? "labels" : "input_ids";
    EXPECT_EQ(made.entry.labels, one[expected].get<std::vector<int32_t>>()) << one["name"];
  }
}

constexpr const char* kTurns =
    "{% for m in messages %}{% if m.role in ['user', 'assistant'] %}<{{ m.role }}>{{ m.content }}\n"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

TEST(Conversations, WhatNothingReadsIsNamedWithACount) {
  const std::string lines =
      R"({"messages": [{"role": "user", "content": "a", "id": 7}, {"role": "assistant", "content": "b"}], "source": "web", "score": null}
{"messages": [{"role": "narrator", "content": "Once."}, {"role": "user", "content": "a", "id": 8}, {"role": "assistant", "content": "b", "reasoning_content": "why"}], "source": "web", "tools": [{"name": "f"}]}
)";
  EXPECT_THAT(encoded(lines, "messages", kTurns).account.unused,
              UnorderedElementsAre(Pair("column source", 2), Pair("column tools", 1),
                                   Pair("key id of messages", 2), Pair("text of role narrator", 1),
                                   Pair("reasoning of messages", 1)));
}

TEST(Conversations, RolesThatNobodyKnowsAreRemarkedOn) {
  const auto remarks = [](const char* role, ConversationMask mask) {
    const std::string line = R"({"messages": [{"role": ")" + std::string(role) +
                             R"(", "content": "a"}, {"role": "Bot", "content": "b"}]})";
    return encoded(line, "messages", "{{ messages[0].role }}{{ messages }}", 4096, mask)
        .account.remarks;
  };
  EXPECT_THAT(remarks("assistent", ConversationMask::kAssistant),
              ElementsAre(Pair("the role assistent is no assistant's, and bears no loss", 1)));
  EXPECT_THAT(remarks("assistent", ConversationMask::kAll), IsEmpty());
  for (const char* role : {"AI", "user", "developer", "function_call"})
    EXPECT_THAT(remarks(role, ConversationMask::kAssistant), IsEmpty()) << role;
}

// The template reads the name of a call, and keys of parts and of calls nobody.
TEST(Conversations, KeysWithinMessagesAreNamedWhereTheirTextsStandNowhere) {
  const std::string calls =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
      "{{ c.function.name }}{% endfor %}\n{% endfor %}";
  const std::string line =
      R"({"messages": [{"role": "user", "name": "bob", "content": [{"type": "text", "text": "a", "cache": 1}]},)"
      R"( {"role": "assistant", "content": "b", "tool_calls": [{"function": {"name": "f", "strict": true}}]}]})";
  EXPECT_THAT(
      encoded(line, "messages", calls).account.unused,
      UnorderedElementsAre(Pair("key name of messages", 1), Pair("key cache of messages", 1),
                           Pair("key strict of messages", 1)));
}

// Templates read tools of an entry, not of a message, and their name of a variable is no reading of
// it.
TEST(Conversations, ToolsWithinAMessageAreNamed) {
  const std::string of_entry =
      "{% if tools %}{{ tools | tojson }}{% endif %}" + std::string(kTurns);
  const std::string of_message =
      "{% for m in messages %}{{ m.tools | tojson }}{% endfor %}" + std::string(kTurns);
  const std::string line =
      R"({"messages": [{"role": "user", "content": "a", "tools": [{"name": "f"}]}, {"role": "assistant", "content": "b"}]})";
  EXPECT_THAT(encoded(line, "messages", of_entry).account.unused,
              UnorderedElementsAre(Pair("key tools of messages", 1)));
  EXPECT_THAT(encoded(line, "messages", of_message).account.unused, IsEmpty());
}

TEST(Conversations, ArgumentsThatAreNoObjectAreRemarkedOn) {
  const auto remarks = [](const std::string& arguments, const std::string& written) {
    const std::string calls =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ c.function.name }}" +
        written + "{% endfor %}\n{% endfor %}";
    const std::string line =
        R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", )"
        R"("tool_calls": [{"function": {"name": "f", "arguments": )" +
        arguments + "}}]}]}";
    const Encoded made = encoded(line, "messages", calls);
    EXPECT_EQ(made.problem, "");
    return made.account.remarks;
  };
  const std::string as_json = "{{ c.function.arguments | tojson }}";
  const std::string said = "arguments of a tool call are no JSON object and are trained as ";
  EXPECT_THAT(remarks(R"("city=Paris")", as_json),
              UnorderedElementsAre(Pair(said + "a quoted text", 1)));
  EXPECT_THAT(remarks(R"("[1, 2]")", as_json),
              UnorderedElementsAre(Pair(said + "a quoted text", 1)));
  EXPECT_THAT(remarks(R"("city=Paris")", "{{ c.function.arguments }}"),
              UnorderedElementsAre(Pair(said + "they stand", 1)));
  EXPECT_THAT(remarks(R"("{\"city\": \"Paris\"}")", as_json), IsEmpty());
  EXPECT_THAT(remarks(R"({"city": "Paris"})", as_json), IsEmpty());
  DataAccount account;
  account.entries = 2;
  account.remarks = {{said + "they stand", 2}};
  EXPECT_THAT(warnings_about(account, false),
              testing::ElementsAre("in 2 entries, " + said + "they stand"));
}

TEST(Conversations, AnEntrysFormFollowsItsColumns) {
  const auto form = [](const char* entry) {
    FoundForm found;
    Diagnostic problem;
    if (!find_entry_form(Json::parse(entry), found, problem)) return "no: " + problem.key;
    return found.property + " " + found.value;
  };
  const std::string none = " ", template_is = "data_formatter_template ";
  EXPECT_EQ(form(R"({"prompt": "a", "completion": "b"})"), template_is + "prompt_completion");
  EXPECT_EQ(form(R"({"prompt": "a"})"), none);
  EXPECT_EQ(form(R"({"completion": "a", "prompt": null})"), none);
  EXPECT_EQ(form(R"({"instruction": "a", "output": "b"})"), template_is + "alpaca");
  EXPECT_EQ(form(R"({"instruction": "a"})"), none);
  EXPECT_EQ(form(R"({"output": "b"})"), none);
  EXPECT_EQ(form(R"({"messages": "[]", "output": "b"})"), none);
  EXPECT_EQ(form(R"({"input_ids": [1], "messages": []})"), "pretokenized true");
  EXPECT_EQ(form(R"({"chosen": "a", "rejected": "b"})"), "no: chosen");
  EXPECT_EQ(form(R"({"version": 1, "data": [{"instruction": "a", "output": "b"}]})"), "no: data");
  EXPECT_EQ(form(R"({"train": [{"messages": []}], "test": []})"), "no: train");
  EXPECT_EQ(form(R"({"text": "Bob", "entities": [{"text": "Bob"}], "tags": []})"), none);
  EXPECT_EQ(form(R"({"chosen": "a"})"), none);
  EXPECT_EQ(form(R"({"completions": ["a"], "labels": [true]})"), "no: completions");
  EXPECT_EQ(form(R"({"completions": ["a"]})"), none);
  EXPECT_EQ(form(R"({"prompt": "a", "completion": "b", "label": true})"), "no: label");
  EXPECT_EQ(form(R"({"prompt": "a", "completion": "b", "label": 1})"),
            template_is + "prompt_completion");
  EXPECT_EQ(form(R"({"instruction": "a", "output": "b", "history": [["c", "d"]]})"), "no: history");
  EXPECT_EQ(form(R"({"instruction": "a", "output": "b", "history": []})"), template_is + "alpaca");
}

// OpenAI's part of a message that declines, and a column that says what comes first.
TEST(Conversations, RefusalsAndSystemTextsAreRead) {
  const auto ids = [](const std::string& line) {
    const Encoded made = encoded(
        line, "messages", "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}");
    EXPECT_EQ(made.problem, "") << line;
    return made.entry.input_ids;
  };
  const std::string user = R"({"messages": [{"role": "user", "content": "a"}, )",
                    no = R"({"role": "assistant", "content": "no"}]})";
  EXPECT_EQ(
      ids(user + R"({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}]})"),
      ids(user + no));
  const std::string with_system =
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, )" +
      no;
  EXPECT_EQ(ids(R"({"system": "s", )" + user.substr(1) + no), ids(with_system));
  for (const char* other : {"3", "\"\"", "null"})
    EXPECT_EQ(ids(std::string("{\"system\": ") + other + ", " + user.substr(1) + no),
              ids(user + no))
        << other;
}

// A template that knows no parts prints a list of them as Python does.
TEST(Conversations, PartsAreOneTextWhereATemplateReadsTexts) {
  const std::string parts = R"({"messages": [{"role": "user", "content": "a"}, )"
                            R"({"role": "assistant", "content": [{"type": "text", "text": "b"}, )"
                            R"({"type": "text", "text": "c"}]}]})";
  const std::string text = R"({"messages": [{"role": "user", "content": "a"}, )"
                           R"({"role": "assistant", "content": "bc"}]})";
  const std::string reads_parts =
      "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}"
      "{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endif %}\n{% endfor %}";
  EXPECT_EQ(encoded(parts, "messages", kTurns).entry.input_ids,
            encoded(text, "messages", kTurns).entry.input_ids);
  EXPECT_NE(encoded(parts, "messages", reads_parts).entry.input_ids,
            encoded(text, "messages", reads_parts).entry.input_ids);
}

TEST(Conversations, WhatIsNoConversationSaysWhatItIs) {
  const auto problem = [](const std::string& line) {
    return encoded(line, "messages", kTurns).problem;
  };
  const std::string user = R"({"role": "user", "content": "a"})";
  EXPECT_THAT(problem(R"({"messages": [)" + user + R"(], "tools": "get_weather"})"),
              HasSubstr("own.jsonl:1: tools: is a text that is no JSON: "));
  EXPECT_THAT(problem(R"({"messages": [{"role": "function_call", "content": "f"}]})"),
              HasSubstr("own.jsonl:1: messages: message 0 is a text that is no JSON: "));
  EXPECT_THAT(
      problem(
          R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]})"),
      HasSubstr("own.jsonl:1: messages: message 0 has a part of type image_url; expected "
                "parts that are texts"));
  EXPECT_THAT(problem(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]})"),
              HasSubstr("message 0.weight found 0.5; expected 0 or 1"));
  for (const char* content : {"7", "true", R"({"temperature": 21})"}) {
    EXPECT_THAT(
        problem(std::string(R"({"messages": [{"role": "tool", "content": )") + content + "}]}"),
        HasSubstr("own.jsonl:1: messages: message 0 has a content that is "));
  }
}

std::string refused_form(const std::string& entry) {
  FoundForm form;
  Diagnostic problem;
  if (find_entry_form(parse_json(entry, "entry"), form, problem))
    return form.property + " " + form.value;
  return problem.key + ": " + problem.message;
}

TEST(Conversations, FormsAreFoundByTheirColumnsAndForeignOnesRefusedByWhatTheyAre) {
  EXPECT_EQ(refused_form(R"({"prompt": "a", "chosen": "b", "rejected": "c"})"),
            "chosen: the entries are preferences (chosen and rejected)");
  EXPECT_EQ(refused_form(R"({"prompt": "a", "completion": "b", "label": true})"),
            "label: the entries are rated answers (prompt, completion, label)");
  EXPECT_EQ(refused_form(R"({"prompt": "a", "completions": ["b"], "labels": [true]})"),
            "completions: the entries rate the steps of an answer (completions, labels)");
  EXPECT_EQ(refused_form(R"({"instruction": "a", "output": "b", "history": [["c", "d"]]})"),
            "history: the entries have earlier turns beside instruction and output");
  EXPECT_EQ(refused_form(R"({"id": [1], "dialogue": [{"from": "human", "value": "b"}]})"),
            "conversation_column dialogue");
  EXPECT_EQ(refused_form(
                R"({"a": [{"role": "x", "content": "b"}], "b": [{"role": "x", "content": "b"}]})"),
            " ");
  EXPECT_EQ(refused_form(R"({"role": "user", "content": "b"})"),
            "role: each entry is one message (role, content)");
  EXPECT_EQ(refused_form(R"({"instruction": "a", "input": "", "output": "b"})"),
            "data_formatter_template alpaca");
  EXPECT_EQ(refused_form(R"({"prompt": "a", "completion": "b"})"),
            "data_formatter_template prompt_completion");
  EXPECT_EQ(refused_form(R"({"input_ids": [1]})"), "pretokenized true");
  EXPECT_EQ(refused_form(R"({"messages": "[{\"role\": \"user\"}]"})"),
            "conversation_column messages");
  EXPECT_EQ(refused_form(R"({"output": "b"})"), " ");
}

TEST(Conversations, WhereTurnsCannotBeToldTheDoubtfulTokensAreCounted) {
  // What a message says depends on what stands behind it, and so does a mark.
  const std::string odd =
      "{% for m in messages %}<{{ m.role }}>{{ m.content | length }}{{ '.' if loop.last }}"
      "{% endfor %}";
  const std::string turn =
      R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "bc"})";
  const std::string line = R"({"messages": [)" + turn + ", " + turn + "]}";
  const Encoded made = encoded(line, "messages", odd);
  EXPECT_EQ(made.problem, "");
  EXPECT_EQ(made.account.doubtful_entries, 1);
  EXPECT_GT(made.account.doubtful_tokens, 0);
  EXPECT_EQ(made.entry.labels,
            encoded(line, "messages", odd, 4096, ConversationMask::kFms).entry.labels);
  EXPECT_THAT(warnings_about(made.account, false),
              Contains(HasSubstr("in 1 entry, " + std::to_string(made.account.doubtful_tokens) +
                                 " tokens that bear loss are doubtful")));
}

TEST(Conversations, WhatIsCutIsCountedWithItsTokens) {
  const std::string line =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  const Encoded whole = encoded(line, "messages", kTurns);
  EXPECT_EQ(whole.account.cut_entries, 0);
  const Encoded cut = encoded(line, "messages", kTurns, 4);
  EXPECT_EQ(cut.account.tokens, whole.account.tokens);
  EXPECT_EQ(cut.account.cut_entries, 1);
  EXPECT_EQ(cut.account.cut_tokens, whole.account.tokens - 4);
  EXPECT_EQ(cut.account.without_loss, 1);
  EXPECT_EQ(cut.account.without_loss_by_cut, 1);
  EXPECT_THAT(warnings_about(cut.account, false),
              ElementsAre(HasSubstr("1 entry of 1 is cut at model_max_length, which leaves out "),
                          "1 entry bears no loss: what bears it stands behind model_max_length"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
