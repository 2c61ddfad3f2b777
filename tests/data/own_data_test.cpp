// Data of one's own: forms of an entry against fms-hf-tuning's handlers
// (tests/reference/own_data.py), JSON arrays, templates, and what each refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <numeric>

#include "data/file_size_limit.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/data/conversation.h"
#include "sftbench/data/entry_file.h"
#include "sftbench/data/entry_template.h"
#include "sftbench/data/micro_batch.h"
#include "sftbench/data/text_dataset.h"
#include "sftbench/data/token_count.h"
#include "temporary_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kFolder = SFTBENCH_TEST_DATA "/own_data/";

Tokenizer small_tokenizer() {
  Tokenizer tokenizer = Tokenizer::from_directory(SFTBENCH_TEST_DATA "/training/tokenizer");
  complete_special_tokens(tokenizer);
  return tokenizer;
}

std::vector<int64_t> all_entries_of(const TextDataset& dataset) {
  std::vector<int64_t> entries(static_cast<size_t>(dataset.size()));
  std::iota(entries.begin(), entries.end(), 0);
  return entries;
}

struct Form {
  const char* name;
  const char* file;
  TextDatasetOptions options;
};

void PrintTo(const Form& form, std::ostream* out) {
  *out << form.name;
}

class OwnDataForms : public testing::TestWithParam<Form> {};

TEST_P(OwnDataForms, IdsAndLabelsEqualTheReferenceEntryByEntry) {
  const bool chats = GetParam().name == std::string("chats");
  const Json golden = read_json_file(kFolder + (chats ? "chats.json" : "golden.json"));
  const Json& entries = golden["forms"][GetParam().name]["entries"];
  TextDatasetOptions options = GetParam().options;
  options.model_max_length = golden["model_max_length"];
  TextDataset dataset(open_entries(kFolder + GetParam().file), small_tokenizer(), options);
  ASSERT_EQ(dataset.size(), static_cast<int64_t>(entries.size()));
  dataset.encode(all_entries_of(dataset), 2);
  const int64_t pad = *small_tokenizer().token_id(small_tokenizer().special_tokens().pad);
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const Json& expected = entries[static_cast<size_t>(i)];
    const MicroBatch batch = make_micro_batch(dataset, {i}, Padding::kLongest, pad);
    EXPECT_EQ(batch.input_ids, expected["input_ids"].get<std::vector<int64_t>>()) << "entry " << i;
    EXPECT_EQ(batch.labels, expected["labels"].get<std::vector<int64_t>>()) << "entry " << i;
  }
}

const std::string kTemplate = "### Input: {{input}} \n\n## Label: {{output}}";

#ifdef SFTBENCH_PARQUET_BUILT
INSTANTIATE_TEST_SUITE_P(
    OfArrow, OwnDataForms,
    testing::Values(
        Form{"template",
             "pairs.parquet",
             {.entry_template = kTemplate, .response_template = "\n## Label:"}},
        Form{"columns", "pairs.arrow", {.input_field = "input", .output_field = "output"}},
        Form{"tokens", "tokens.parquet", {.pretokenized = true, .vocabulary = 384}},
        Form{"tokens", "tokens.arrow", {.pretokenized = true, .vocabulary = 384}}),
    [](const auto& form) {
      std::string name = form.param.file;
      return name.replace(name.find('.'), 1, "_");
    });

TEST(ArrowFiles, DamageIsNamed) {
  const auto problem_of_file = [](const std::string& name, const std::string& text) {
    const fs::path path = fs::path(testing::TempDir()) / name;
    std::ofstream(path) << text;
    try {
      open_entries(path);
      return std::string("none");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(problem_of_file("bad.parquet", "no Parquet"),
              HasSubstr("bad.parquet: cannot read as Parquet: "));
  EXPECT_THAT(problem_of_file("bad.arrow", "no Arrow at all"),
              HasSubstr("bad.arrow: cannot read as Arrow: "));
  EXPECT_EQ(open_entries(kFolder + "pairs.arrow", 1).line(0).find("{\"input\""), 0u)
      << "a column of times is left out";
}

TEST(ArrowFiles, ColumnsOfOtherTypesAreNamedWithTheirType) {
  for (const std::string ending : {".parquet", ".arrow"}) {
    const auto problem = [&](TextDatasetOptions options) {
      options.response_template = "";
      options.model_max_length = 16;
      try {
        TextDataset dataset(open_entries(kFolder + "odd" + ending), small_tokenizer(), options);
        dataset.encode({0}, 1);
      } catch (const InputError& error) {
        return std::string(error.what());
      }
      return std::string("none");
    };
    const std::string expected = ", which is not read here; expected a column of texts or of lists";
    EXPECT_EQ(problem({.text_field = "bytes"}), "none") << "they are UTF-8";
    EXPECT_THAT(
        problem({.entry_template = "{{made}}"}),
        HasSubstr("odd" + ending + ": made: the column is of type timestamp[us]" + expected));
    EXPECT_THAT(problem({.input_field = "pairs", .output_field = "made"}),
                HasSubstr(": pairs: the column is of type map<string, string"));
    EXPECT_THAT(problem({.text_field = "none"}),
                HasSubstr("none: no such field; found bytes; columns that are not read here: "
                          "made (timestamp[us]), pairs (map<string, string"));
  }
}

TEST(ArrowFiles, TwoColumnsOfOneNameAreRefused) {
  for (const std::string name : {"twice.parquet", "twice.arrow"}) {
    try {
      open_entries(kFolder + name);
      FAIL() << name;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(name + ": output: 2 columns have this name; expected one "
                                                 "column of each name"));
    }
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(
    , OwnDataForms,
    testing::Values(
        Form{"template",
             "pairs.json",
             {.entry_template = kTemplate, .response_template = "\n## Label:"}},
        Form{"text", "texts.jsonl", {.text_field = "text", .response_template = "\n## Label:"}},
        Form{"all", "pairs.json", {.text_field = "output", .response_template = ""}},
        Form{"columns", "pairs.json", {.input_field = "input", .output_field = "output"}},
        Form{"tokens", "tokens.jsonl", {.pretokenized = true, .vocabulary = 384}},
        Form{"chats",
             "chats.jsonl",
             {.conversation_field = "messages",
              .chat_template = {read_file(kFolder + "chat.jinja"), "chat.jinja"},
              .mask = ConversationMask::kFms}}),
    [](const auto& form) { return std::string(form.param.name); });

std::string problem_of(const std::string& lines, TextDatasetOptions options) {
  options.model_max_length = 16;
  options.response_template = "";
  try {
    TextDataset dataset(JsonlFile(lines, "own.jsonl"), small_tokenizer(), options);
    dataset.encode(all_entries_of(dataset), 1);
    return {};
  } catch (const InputError& error) {
    return error.what();
  }
}

// --- conversations -------------------------------------------------------------------------------

TextDatasetOptions conversations(const std::string& chat_template) {
  return {.conversation_field = "messages", .chat_template = {chat_template, "chat.jinja"}};
}

const char* const kTurns =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

// Of which the reference knows role and content.
TEST(ConversationTest, FromAndValueAreRoleAndContent) {
  std::ifstream chats(kFolder + "chats.jsonl");
  std::string line, lines;
  while (std::getline(chats, line)) {
    Json entry = Json::parse(line);
    for (Json& message : entry["messages"]) {
      const std::string role = message["role"];
      message["from"] = role == "user" ? "human" : role == "assistant" ? "gpt" : role;
      message["value"] = message["content"];
      message.erase("role");
      message.erase("content");
    }
    lines += json_text(entry) + "\n";
  }
  const Json golden = read_json_file(kFolder + "chats.json");
  const Json& entries = golden["forms"]["chats"]["entries"];
  TextDatasetOptions options = conversations(read_file(kFolder + "chat.jinja"));
  options.mask = ConversationMask::kFms;
  options.model_max_length = golden["model_max_length"];
  TextDataset dataset(JsonlFile(lines, "share.jsonl"), small_tokenizer(), options);
  ASSERT_EQ(dataset.size(), static_cast<int64_t>(entries.size()));
  dataset.encode(all_entries_of(dataset), 1);
  const int64_t pad = *small_tokenizer().token_id(small_tokenizer().special_tokens().pad);
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const Json& expected = entries[static_cast<size_t>(i)];
    const MicroBatch batch = make_micro_batch(dataset, {i}, Padding::kLongest, pad);
    EXPECT_EQ(batch.input_ids, expected["input_ids"].get<std::vector<int64_t>>()) << "entry " << i;
    EXPECT_EQ(batch.labels, expected["labels"].get<std::vector<int64_t>>()) << "entry " << i;
  }
  EXPECT_THAT(
      problem_of("{\"messages\": [{\"from\": 1, \"value\": \"a\"}]}", conversations(kTurns)),
      HasSubstr("message 0 has no role"));
}

TEST(ConversationTest, WhatIsNoneIsNamedWithItsLine) {
  const auto problem = [](const std::string& messages) {
    return problem_of("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n" + messages,
                      conversations(kTurns));
  };
  const std::string expected =
      "; expected a list of messages, each an object with role and content";
  EXPECT_EQ(problem("{\"message\": []}"), "own.jsonl:2: messages: no such field; found message" +
                                              expected + "; did you mean 'message'?");
  EXPECT_EQ(problem("{\"messages\": \"text\"}"),
            "own.jsonl:2: messages: the field is no list" + expected);
  EXPECT_EQ(problem("{\"messages\": []}"),
            "own.jsonl:2: messages: the conversation is empty" + expected);
  EXPECT_EQ(problem("{\"messages\": [{\"content\": \"a\"}]}"),
            "own.jsonl:2: messages: message 0 has no role" + expected);
  EXPECT_EQ(problem("{\"messages\": [{\"role\": \"user\"}, 3]}"),
            "own.jsonl:2: messages: message 1 is no object" + expected);
}

TEST(ConversationTest, WhatTheTemplateRefusesIsNamedWithBothLines) {
  EXPECT_EQ(
      problem_of("{\"messages\": [{\"role\": \"robot\", \"content\": \"a\"}]}",
                 conversations("{% for m in messages %}\n{{ raise_exception('no ' ~ m.role) }}"
                               "{% endfor %}")),
      "own.jsonl:1: messages: chat.jinja:2: the template refuses: no robot");
  EXPECT_EQ(problem_of("{\"messages\": [{\"role\": \"user\"}]}",
                       conversations("{% for m in messages %}{{ m.content.text }}{% endfor %}")),
            "own.jsonl:1: messages: chat.jinja:1: 'dict object' has no attribute 'content'");
  EXPECT_EQ(problem_of("{\"messages\": [{\"role\": \"user\"}]}", conversations("{% for %}")),
            "chat.jinja:1: expected a name, got '%}'");
}

// Thinking is left out of all answers but the last, as in some published templates.
TEST(ConversationTest, ATemplateThatRewritesWhatCameBeforeIsCounted) {
  const char* const rewriting =
      "{% for m in messages %}<{{ m.role }}>{% if loop.last %}...{% endif %}{{ m.content }}"
      "{% endfor %}";
  const std::string turn =
      R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"})";
  const std::string line = "{\"messages\": [" + turn + ", " + turn + "]}";
  for (const bool rewrites : {true, false}) {
    TextDatasetOptions options = conversations(rewrites ? rewriting : kTurns);
    options.model_max_length = 64;
    for (const ConversationMask mask : {ConversationMask::kFms, ConversationMask::kAssistant}) {
      options.mask = mask;
      TextDataset dataset(JsonlFile(line, "own.jsonl"), small_tokenizer(), options);
      dataset.encode({0}, 1);
      const bool doubtful = rewrites && mask == ConversationMask::kFms;
      EXPECT_EQ(dataset.account().doubtful_entries, doubtful ? 1 : 0);
    }
  }
}

TEST(ConversationTest, ATokenizersOwnTemplateIsFoundWhereTransformersFindsIt) {
  const fs::path folder = fs::path(testing::TempDir()) / "own_chat_templates";
  fs::remove_all(folder);
  fs::create_directories(folder);
  EXPECT_EQ(chat_template_of(folder).text, "");
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"chat_template": [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "several"}]})";
  const auto named = named_chat_templates(chat_template_of(folder).text);
  ASSERT_EQ(named.size(), 2u);
  EXPECT_EQ(named[0].name + " " + named[0].text, "tool_use no");
  EXPECT_EQ(named[1].name + " " + named[1].text, "default several");
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"chat_template": [3, {"name": 3}, {"name": "default", "template": {}}]})";
  EXPECT_EQ(chat_template_of(folder).text, "") << "and no type error";
  std::ofstream(folder / "tokenizer_config.json") << R"({"chat_template": "one"})";
  EXPECT_EQ(chat_template_of(folder).text, "one");
  std::ofstream(folder / "chat_template.jinja") << "file";
  EXPECT_EQ(chat_template_of(folder).text, "file");
  std::ofstream(folder / "chat_template.jinja") << "caf\xe9";
  EXPECT_THROW(chat_template_of(folder), InputError) << "transformers reads UTF-8, too";
}

TEST(PretokenizedTest, IdsOutsideTheVocabularyAreNamed) {
  const TextDatasetOptions options = {.pretokenized = true, .vocabulary = 384};
  const auto problem = [&](const std::string& line) { return problem_of(line + "\n", options); };
  EXPECT_EQ(problem(R"({"input_ids": [1, 383], "labels": [-100, 383]})"), "");
  EXPECT_EQ(problem(R"({"input_ids": [1, 384]})"),
            "own.jsonl:1: input_ids: position 1 is 384; expected a list of ids from 0 to 383");
  EXPECT_EQ(
      problem(R"({"input_ids": [1, 2], "labels": [-100, 50257]})"),
      "own.jsonl:1: labels: position 1 is 50257; expected a list of ids from 0 to 383, or -100 "
      "where none bears loss");
  EXPECT_THAT(problem(R"({"input_ids": [-100]})"), HasSubstr("input_ids: position 0 is -100"));
  EXPECT_THAT(problem(R"({"input_ids": [1.0]})"), HasSubstr("input_ids: position 0 is 1.0"));
  EXPECT_THAT(problem(R"({"input_ids": ["1"]})"), HasSubstr("input_ids: position 0 is \"1\""));
  EXPECT_THAT(problem(R"({"input_ids": [18446744073709551615]})"), HasSubstr("position 0 is 1844"));
  EXPECT_THAT(problem(R"({"input_ids": "1 2"})"), HasSubstr("input_ids: the field is no list"));
  EXPECT_THAT(problem(R"({"ids": [1]})"), HasSubstr("input_ids: no such field; found ids"));
  EXPECT_EQ(problem(R"({"input_ids": [1, 2, 3], "labels": [1, 2]})"),
            "own.jsonl:1: labels: has 2 labels for 3 input_ids; expected as many");
}

TEST(PretokenizedTest, MasksOfOnesAreReadAndOthersRefused) {
  const auto problem = [&](const std::string& mask) {
    return problem_of(R"({"input_ids": [1, 2, 3], "attention_mask": )" + mask + "}\n",
                      {.pretokenized = true});
  };
  EXPECT_EQ(problem("[1, 1, 1]"), "");
  EXPECT_EQ(problem("[1, 0, 1]"),
            "own.jsonl:1: attention_mask: position 1 is 0; expected ones, as entries without "
            "padding have: padding is added to batches");
  EXPECT_THAT(problem("[1, 1, 0]"), HasSubstr("attention_mask: position 2 is 0"));
  EXPECT_THAT(problem("[1, 1, \"1\"]"), HasSubstr("attention_mask: position 2 is \"1\""));
  EXPECT_THAT(problem("[1, 1]"), HasSubstr("attention_mask: has length 2 for 3 input_ids"));
  EXPECT_THAT(problem("1"), HasSubstr("attention_mask: the field is no list"));
}

TEST(PretokenizedTest, EntriesAreCutAndWhatIsLeftMayBearNoLoss) {
  TextDataset dataset(JsonlFile(R"({"input_ids": [1, 2, 3, 4], "labels": [-100, -100, -100, 4]})"
                                "\n"
                                R"({"input_ids": [1, 2]})"
                                "\n"
                                R"({"input_ids": []})"
                                "\n",
                                "own.jsonl"),
                      small_tokenizer(), {.pretokenized = true, .model_max_length = 3});
  dataset.encode({0, 1, 2}, 1);
  EXPECT_THAT(dataset.entry(0).input_ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(dataset.entry(0).labels, ElementsAre(-100, -100, -100));
  EXPECT_THAT(dataset.entry(1).input_ids, ElementsAre(1, 2)) << "no EOS is added";
  EXPECT_EQ(dataset.account().without_loss, 2) << "the cut one and the empty one";
}

// --- sets that do not fit memory -----------------------------------------------------------------

void expect_same(const EncodedEntry& a, const EncodedEntry& b) {
  EXPECT_EQ(a.input_ids, b.input_ids);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.loss_begin, b.loss_begin);
  EXPECT_EQ(a.dataset_tokens, b.dataset_tokens);
  EXPECT_EQ(a.has_response, b.has_response);
}

TEST(LargeSetTest, EntriesOnTheDiskAreThoseInMemory) {
  const std::string ids = R"({"input_ids": [1, 2, 3, 4], "labels": [-100, 2, -100, 4]})"
                          "\n"
                          R"({"input_ids": [5, 6, 7], "labels": [-100, -100, 7]})"
                          "\n"
                          R"({"input_ids": [5, 6], "labels": [-100, -100]})"
                          "\n"
                          R"({"input_ids": [8, 9], "labels": [1, 9]})"
                          "\n"
                          R"({"input_ids": []})"
                          "\n";
  const std::string pairs = R"({"a": "one two", "b": "three"})"
                            "\n"
                            R"({"a": "", "b": "four"})"
                            "\n";
  const auto compare = [](const std::string& lines, TextDatasetOptions options) {
    options.model_max_length = 16;
    TextDataset held(JsonlFile(lines, "own.jsonl"), small_tokenizer(), options);
    // The first entries fit, and those behind them do not.
    options.most_bytes_in_memory = 20;
    TextDataset kept(JsonlFile(lines, "own.jsonl"), small_tokenizer(), options);
    std::vector<int64_t> all(static_cast<size_t>(held.size()));
    std::iota(all.begin(), all.end(), 0);
    held.encode(all, 1);
    kept.encode(all, 2);
    for (const int64_t i : all) {
      SCOPED_TRACE(i);
      expect_same(held.entry(i), kept.entry(i));
      EXPECT_EQ(kept.length(i), std::ssize(held.entry(i).input_ids));
    }
    return held;
  };
  const TextDataset held = compare(ids, {.pretokenized = true});
  EXPECT_THAT(held.entry(0).labels, ElementsAre(-100, 2, -100, 4));
  EXPECT_THAT(held.entry(1).labels, ElementsAre(-100, -100, 7));
  EXPECT_THAT(held.entry(2).labels, ElementsAre(-100, -100));
  EXPECT_THAT(held.entry(3).labels, ElementsAre(1, 9));
  EXPECT_TRUE(held.entry(4).labels.empty());
  compare(pairs, {.input_field = "a", .output_field = "b"});
  compare(pairs, {.entry_template = "{{a}} -> {{b}}", .response_template = ""});
}

TEST(LargeSetTest, MemoryDoesNotGrowWithTheTokens) {
  constexpr int64_t kEntries = 2000, kTokens = 1000;
  std::string line = R"({"input_ids": [7)";
  for (int64_t i = 1; i < kTokens; ++i) line += ", 7";
  line += "]}";
  int64_t left = kEntries;
  JsonlFile rows([&](std::string& row, int&) { return row = line, left-- > 0; }, "own.parquet");
  TextDataset dataset(
      std::move(rows), small_tokenizer(),
      {.pretokenized = true, .model_max_length = kTokens, .most_bytes_in_memory = 1 << 20});
  std::vector<int64_t> all(kEntries);
  std::iota(all.begin(), all.end(), 0);
  const auto held_bytes = [] {
    const struct mallinfo2 info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
  };
  const size_t before = held_bytes();
  dataset.encode(all, 1);
  EXPECT_LT(held_bytes(), before + (2 << 20)) << "of 8,000,000 bytes of ids";
  for (const int64_t i : {int64_t{0}, kEntries / 2, kEntries - 1}) {
    EXPECT_EQ(dataset.entry(i).input_ids, std::vector<int32_t>(kTokens, 7));
  }
}

TEST(LargeSetTest, RowsOfTablesAreKeptBehindTheFirst64MiB) {
  int number = 0;
  JsonlFile rows(
      [&](std::string& row, int&) {
        row = R"({"n": ")" + std::to_string(number) + R"(", "x": ")" + std::string(1 << 20, 'x') +
              "\"}";
        return number++ < 70;
      },
      "own.parquet");
  ASSERT_EQ(rows.size(), 70);
  for (const int64_t i : {0, 62, 63, 64, 69}) EXPECT_EQ(rows.text(i, "n"), std::to_string(i));
  EXPECT_EQ(rows.line_number(69), 70);
  EXPECT_THROW(JsonlFile([](std::string&, int&) { return false; }, "empty.parquet"), InputError);
}

TEST(LargeSetTest, ADiskThatIsFullOrAbsentIsNamed) {
  const auto problem = [](const char* temporary) {
    ::setenv("TMPDIR", temporary, 1);
    SpillFile file(0);
    try {
      file.append(std::string(5000, 'x'));
    } catch (const RunError& error) {
      ::unsetenv("TMPDIR");
      EXPECT_EQ(error.code(), ReasonCode::kData);
      return std::string(error.what());
    }
    ::unsetenv("TMPDIR");
    return std::string("none");
  };
  EXPECT_THAT(problem("/proc/no-such"), HasSubstr("cannot be kept in /proc/no-such: "));
  const FileSizeLimit full(1000);
  EXPECT_THAT(problem("/tmp"), HasSubstr("cannot be kept in /tmp: File too large; TMPDIR names "
                                         "another folder for them"));
}

TEST(LargeSetTest, WhoNeedsTheFirstEntriesReadsLittleMore) {
  const fs::path path = fs::path(testing::TempDir()) / "most.jsonl";
  {
    std::ofstream file(path);
    for (int i = 0; i < 100'000; ++i)
      file << R"({"n": ")" << i << "\", \"x\": \"of some length\"}\n";
  }
  const JsonlFile first(path, 1);
  EXPECT_LT(first.size(), 100'000);
  EXPECT_EQ(first.text(0, "n"), "0");
  EXPECT_EQ(JsonlFile(path).size(), 100'000);
  fs::remove(path);
}

TEST(TemplateTest, FieldsAreNamesBetweenTwoBraces) {
  const auto filled = [](const std::string& text) {
    std::string result, response;
    Diagnostic problem;
    const Json entry = {{"a", "1"}, {"b c", "{{a}}"}, {"n", 5}, {"d.e-f_g", "4"}};
    return EntryTemplate(text).fill(entry, result, response, problem)
               ? result
               : problem.key + ": " + problem.message;
  };
  EXPECT_EQ(filled("x{{a}}y{{ a }}{{a}}"), "x1y11");
  EXPECT_EQ(filled("{{b c}}"), "{{a}}") << "what is filled in is no template";
  EXPECT_EQ(filled("{{d.e-f_g}}"), "4");
  EXPECT_EQ(filled("{a} {{a} {{}} {{a:b}} }} {{{a}}}"), "{a} {{a} {{}} {{a:b}} }} {1}");
  EXPECT_EQ(filled("{{b}}"),
            "b: no such field; found a, b c, n, d.e-f_g, which the template asks for");
  EXPECT_EQ(filled("{{n}}"), "n: the field is a number, which the template asks for");
  EXPECT_THAT(EntryTemplate("{{a}}{{b}}{{a}}").fields(), ElementsAre("a", "b"));
  EXPECT_FALSE(EntryTemplate("{{a}} { {b} }} {{").has_open_field());
  EXPECT_TRUE(EntryTemplate("{{a} -> {{b}}").has_open_field());
}

TEST(TemplateTest, MixedColumnTypesAreNamedWithTheirLine) {
  const std::string lines = R"({"a": "x", "b": "y"})"
                            "\n\n"
                            R"({"a": ["x"], "b": "y"})"
                            "\n"
                            R"({"b": "y"})"
                            "\n";
  const std::string problem = problem_of(lines, {.entry_template = "{{a}} {{b}}"});
  EXPECT_THAT(problem, HasSubstr("own.jsonl:3: a: the field is a list, which the template asks "
                                 "for; expected a string"));
  EXPECT_THAT(problem, HasSubstr("own.jsonl:4: a: no such field; found b"));
  const std::string columns = problem_of(lines, {.input_field = "a", .output_field = "b"});
  EXPECT_THAT(columns, HasSubstr("own.jsonl:3: a: the field is a list; expected a string"));
}

class JsonArray : public testing::Test {
 protected:
  JsonlFile file_of(const std::string& text, const std::string& name = "own.json") {
    const fs::path path = temporary_file(name);  // tests of this fixture run side by side
    std::ofstream(path) << text;
    return JsonlFile(path);
  }
  std::string problem_of_file(const std::string& text) {
    try {
      const JsonlFile file = file_of(text);
      Json object;
      Diagnostic problem;
      for (int64_t i = 0; i < file.size(); ++i) {
        if (!file.read_object(i, object, problem)) throw InputError({problem});
      }
      return "none of " + std::to_string(file.size());
    } catch (const InputError& error) {
      const std::string message = error.what();
      return message.substr(message.find("own.json") + 8);
    }
  }
};

TEST_F(JsonArray, AByteOrderMarkIsSkippedAndUtf16Refused) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_EQ(file_of(mark + "[{\"output\": \"a\"}, {\"output\": \"b\"}]").size(), 2);
  EXPECT_EQ(file_of(mark + "{\"output\": \"a\"}\n", "own.jsonl").text(0, "output"), "a");
  EXPECT_EQ(problem_of_file("\xff\xfe["),
            ": the file is UTF-16; expected UTF-8: iconv -f UTF-16 -t UTF-8 FILE makes it");
  EXPECT_THAT(problem_of_file("\xfe\xff"), HasSubstr(": the file is UTF-16; expected UTF-8: "));
  EXPECT_THAT(problem_of_file("{\n \"output\": a\n}"),
              HasSubstr("expected one JSON object per line, or one array of objects"));
}

TEST_F(JsonArray, IsItsElements) {
  const JsonlFile file = file_of(
      "\n [ {\"output\": \"a ], \\\" {\"},\n{\"output\":\n\"b\", "
      "\"x\": [[{}], 1]}\n,{\"output\": \"c\"} ]\n ");
  ASSERT_EQ(file.size(), 3);
  EXPECT_EQ(file.text(0, "output"), "a ], \" {");
  EXPECT_EQ(file.text(1, "output"), "b");
  EXPECT_EQ(file.text(2, "output"), "c");
  EXPECT_EQ(file.line_number(0), 2);
  EXPECT_EQ(file.line_number(1), 3);
  EXPECT_EQ(file.line_number(2), 5);
}

TEST_F(JsonArray, IsOneInAJsonlFileToo) {
  EXPECT_EQ(file_of("[1,\n2]\n", "own.jsonl").size(), 2);
  EXPECT_THROW(file_of("[1]\n[2]\n", "own.jsonl"), InputError);
}

TEST_F(JsonArray, DamageIsNamedWithItsLine) {
  EXPECT_EQ(problem_of_file("[{}, {}]"), "none of 2");
  EXPECT_EQ(problem_of_file("[]"), ": the array is empty; expected an array of objects");
  EXPECT_EQ(problem_of_file("[{}\n"),
            ":2: the file ends within its array; expected a ] behind the "
            "last entry");
  EXPECT_EQ(problem_of_file("[{},\n]"),
            ":2: the file has a comma with no entry behind it; expected "
            "an entry");
  EXPECT_EQ(problem_of_file("[{} {}]"),
            ":1: the file has no comma between entries; expected a "
            "comma");
  EXPECT_EQ(problem_of_file("[\n{}]\n\n[]"),
            ":4: the file goes on behind its array; expected one "
            "array of objects");
  EXPECT_EQ(problem_of_file("[{},\n1]"), ":2: the entry is no object; expected a JSON object");
  EXPECT_EQ(problem_of_file("[[1], {}]"), ":1: the entry is a list; expected a JSON object");
  EXPECT_THAT(problem_of_file("[{},\n\n{\"a\": tru}]"), HasSubstr(":3: not JSON at column "));
}

TEST_F(JsonArray, AListOfMessagesIsAConversation) {
  const std::string first = R"([{"role": "user", "content": "a"}])",
                    second = R"([{"role": "user", "content": "b"}, {"role": "x", "content": "c"}])";
  for (const std::string& text :
       {first + "\n\n" + second + "\n", "[" + first + ",\n" + second + "]",
        "\xef\xbb\xbf" + first + "\r\n" + second}) {
    const JsonlFile file(text, "lists");
    ASSERT_EQ(file.size(), 2) << text;
    Json entry;
    Diagnostic problem;
    ASSERT_TRUE(file.read_object(1, entry, problem)) << text;
    EXPECT_EQ(entry, Json({{"messages", Json::parse(second)}})) << text;
  }
}

TEST_F(JsonArray, NumbersAndDepthsThatNoValueHoldsAreNamedWithTheirLine) {
  const std::string digits(5000, '9'), deep(1000, '[');
  EXPECT_THAT(problem_of_file("[{},\n{\"a\": 1e999999}]"),
              HasSubstr(":2: not usable JSON: number overflow parsing '1e999999'"));
  const std::string long_number = problem_of_file("[{},\n{\"a\": " + digits + "}]");
  EXPECT_THAT(long_number, HasSubstr(":2: not usable JSON: number overflow parsing '9999"));
  EXPECT_LT(long_number.size(), 600U) << "the digits are not all repeated";
  EXPECT_THAT(problem_of_file("[{\"a\": " + deep + std::string(1000, ']') + "}]"),
              HasSubstr(":1: not usable JSON: "));
  EXPECT_THAT(problem_of(R"({"input_ids": [1], "x": 1e999})"
                         "\n",
                         {.pretokenized = true}),
              HasSubstr("own.jsonl:1: not usable JSON: number overflow parsing '1e999'"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
