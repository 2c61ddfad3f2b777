// --export: files that other programs train by, read by their parsers (tests/reference/exports.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/own_training_fixture.h"
#include "sftbench/base/file.h"
#include "sftbench/base/text.h"
#include "translate/argument_names.h"
#include "translate/export_table.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ExportTest : public OwnTrainingTest {
 protected:
  ExportTest() {
    write("texts.jsonl", "{\"text\": \"a\\n### Response: b\"}\n");
    write("chats.jsonl",
          "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, "
          "{\"role\": \"assistant\", \"content\": \"b\"}]}\n");
    write("alpaca.jsonl", "{\"instruction\": \"a\", \"input\": \"b\", \"output\": \"c\"}\n");
    write("prompts.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  }

  static Json golden(const fs::path& path) { return read_json_file(path.string()); }

  static std::vector<fs::path> goldens() {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::directory_iterator(std::string(SFTBENCH_TEST_DATA) + "/exports")) {
      if (entry.path().extension() == ".json") paths.push_back(entry.path());
    }
    return paths;
  }

  static std::string program_of(const Json& golden) {
    const auto text = golden["read by"].get<std::string>();
    return text.substr(0, text.find(' '));
  }

  ProgramResult exported(std::vector<std::string> words, const std::string& program) const {
    words.insert(words.end(), {"--weights", "random", "--export", program});
    return OwnTrainingTest::program(words, "predict");
  }

  // What memory, time and the update follow from.
  static Json trained(const Json& job) {
    Json parts = Json::object();
    for (const char* part : {"batches", "precision", "optimizer", "device", "activations",
                             "kernels", "lora", "parallel", "seed", "tuning"})
      parts[part] = job[part];
    parts["data"] = {job["data"]["model_max_length"], job["data"]["padding"]};
    return parts;
  }
};

TEST_F(ExportTest, EveryKeyHasItsRow) {
  for (const ExportProgram& program : all_export_programs()) {
    for (const std::string& key : parts_of(program.keys, ' '))
      EXPECT_NE(find_argument(key), nullptr) << program.name << ": " << key;
  }
}

TEST_F(ExportTest, WritesWhatTheProgramsParserRead) {
  ASSERT_EQ(goldens().size(), 4u * 4u);
  for (const fs::path& path : goldens()) {
    const Json expected = golden(path);
    const std::string program = program_of(expected);
    fs::remove_all(folder_ / program);
    const ProgramResult result =
        exported(expected["arguments"].get<std::vector<std::string>>(), program);
    ASSERT_EQ(result.status, 0) << path << result.err;
    for (const auto& [name, text] : expected["files"].items()) {
      std::string own = read_file((folder_ / program / name).string());
      for (size_t at; (at = own.find(folder_.string())) != std::string::npos;)
        own.replace(at, folder_.string().size(), "@");
      EXPECT_EQ(own, text.get<std::string>()) << path;
    }
  }
}

TEST_F(ExportTest, WhatIsReadBackIsTheSameJob) {
  for (const fs::path& path : goldens()) {
    const Json expected = golden(path);
    const std::string program = program_of(expected);
    fs::remove_all(folder_ / program);
    const auto arguments = expected["arguments"].get<std::vector<std::string>>();
    ASSERT_EQ(exported(arguments, program).status, 0);
    std::vector<std::string> words = arguments;
    words.insert(words.end(), {"--weights", "random"});
    Json asked = trained(job(words));
    std::string file;
    for (const auto& [name, text] : expected["files"].items())
      if (name == "arguments.json" || name == program + ".yaml") file = name;
    const bool chats = path.string().find("chats") != std::string::npos;
    const Json read = trained(
        job({"--arguments", program + "/accelerate.yaml", "--arguments", program + "/" + file,
             "--set", "model_name=llama3.1-8b", "--set", "gpu_model=NVIDIA-H100-80GB-HBM3",
             "--weights", "random", "--data", chats ? "chats.jsonl" : "texts.jsonl", "--experiment",
             asked["tuning"].get<std::string>(), chats ? "--chat-template" : "--text-field",
             chats ? "{{ messages }}" : "text"}));
    // A note says it: axolotl knows no products without autocast.
    if (program == "axolotl") asked["precision"]["autocast"] = "bf16";
    EXPECT_EQ(read, asked) << path << Json::diff(asked, read);
  }
}

TEST_F(ExportTest, FourBitWeightsAreReadBackAsQlora) {
  for (const ExportProgram& program : all_export_programs()) {
    const std::string name = program.name;
    ASSERT_EQ(
        exported({"--method", "qlora", "--set", "model_name=llama3.1-8b", "--set", "number_gpus=1",
                  "--set", "gpu_model=NVIDIA-L4", "--set", "batch_size=2", "--set",
                  "model_max_length=512", "--data", "texts.jsonl", "--text-field", "text"},
                 name)
            .status,
        0);
    const std::vector<std::string> words = {"--arguments",  name + "/accelerate.yaml",
                                            "--arguments",  name + "/" + program.file,
                                            "--set",        "model_name=llama3.1-8b",
                                            "--set",        "gpu_model=NVIDIA-L4",
                                            "--data",       "texts.jsonl",
                                            "--weights",    "random",
                                            "--text-field", "text"};
    EXPECT_THAT(OwnTrainingTest::program(words, "predict").out,
                HasSubstr("llama3.1-8b, qlora, 1 rank"))
        << name;
    EXPECT_EQ(job(words)["model"]["hf_config"]["quantization_config"]["bnb_4bit_use_double_quant"],
              true)
        << name;
    std::vector<std::string> otherwise = words;
    otherwise.insert(otherwise.end(), {"--method", "lora"});
    EXPECT_THAT(OwnTrainingTest::program(otherwise, "predict").err,
                HasSubstr("--method lora: the file's qlora gives way"));
  }
}

// fms-hf-tuning's own LoraConfig has neither.
TEST_F(ExportTest, KindsOfLoraAreReadBack) {
  const std::vector<std::string> model = {"--set", "model_name=llama3.1-8b", "--set",
                                          "gpu_model=NVIDIA-L4"};
  for (const ExportProgram& program : all_export_programs()) {
    const std::string name = program.name;
    std::vector<std::string> words = {
        "--experiment", "lora",         "--set",        "number_gpus=1",
        "--set",        "batch_size=2", "--set",        "model_max_length=512",
        "--data",       "texts.jsonl",  "--text-field", "text",
        "--use-dora"};
    words.insert(words.end(), model.begin(), model.end());
    if (name == "fms-hf-tuning") {
      EXPECT_THAT(exported(words, name).err,
                  HasSubstr("--export fms-hf-tuning: use_dora true has no equal there"));
      std::replace(words.begin(), words.end(), std::string("--use-dora"),
                   std::string("--use-rslora"));
      EXPECT_THAT(exported(words, name).err,
                  HasSubstr("--export fms-hf-tuning: use_rslora true has no equal there"));
      continue;
    }
    words.insert(words.end(), {"--use-rslora", "--lora-modules-to-save", "embed_tokens,lm_head"});
    const ProgramResult result = exported(words, name);
    ASSERT_EQ(result.status, 0) << result.err;
    words = {"--arguments",  name + "/accelerate.yaml",
             "--arguments",  name + "/" + program.file,
             "--data",       "texts.jsonl",
             "--weights",    "random",
             "--text-field", "text"};
    words.insert(words.end(), model.begin(), model.end());
    const Json lora = job(words)["lora"];
    EXPECT_EQ(lora["use_dora"], true) << name;
    EXPECT_EQ(lora["use_rslora"], true) << name;
    EXPECT_EQ(lora["modules_to_save"], Json({"embed_tokens", "lm_head"})) << name;
  }
}

TEST_F(ExportTest, WhatAProgramCannotSayIsRefused) {
  const std::vector<std::string> usual = {
      "--experiment", "full",          "--set", "model_name=llama3.1-8b",
      "--set",        "number_gpus=2", "--set", "gpu_model=NVIDIA-H100-80GB-HBM3",
      "--set",        "batch_size=2",  "--set", "model_max_length=512"};
  const auto refusal = [&](const char* program, std::vector<std::string> more) {
    more.insert(more.begin(), usual.begin(), usual.end());
    const ProgramResult result = exported(more, program);
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_FALSE(fs::exists(folder_ / program));
    return result.err;
  };
  EXPECT_THAT(refusal("trl", {"--set", "mlp_tiles=2"}),
              HasSubstr("--export trl: mlp_tiles 2 has no equal there"));
  EXPECT_THAT(refusal("axolotl", {"--set", "fsdp_sharding_strategy=NO_SHARD"}),
              HasSubstr("fsdp_sharding_strategy NO_SHARD has no equal there; expected FULL_SHARD"));
  EXPECT_THAT(refusal("llamafactory", {"--set", "offload_optimizer=true"}),
              HasSubstr("offload_optimizer true without offload_params has no equal there"));
  EXPECT_THAT(
      refusal("trl", {"--set", "offload_optimizer=true", "--set", "distributed_backend=DDP"}),
      HasSubstr("FSDP offloads both or nothing (fsdp_offload_params)"));
  EXPECT_THAT(refusal("fms-hf-tuning", {"--data", "pairs.json", "--input-column", "input",
                                        "--output-column", "output"}),
              HasSubstr("data of two columns (--input-column) has no equal there"));
  EXPECT_THAT(refusal("tlr", {}), HasSubstr("did you mean 'trl'?"));
  EXPECT_THAT(refusal("trl=", {}),
              HasSubstr("--export: 'trl=' names no folder; expected trl, or trl=DIR"));
  for (const char* program : {"trl", "fms-hf-tuning"}) {
    EXPECT_THAT(refusal(program, {"--data", "alpaca.jsonl"}),
                HasSubstr("data in the form alpaca has no equal there"));
  }
  EXPECT_THAT(refusal("axolotl", {"--data", "pairs.json", "--template", "{{input}}"}),
              HasSubstr("a template of an entry's fields (--template) has no equal there"));
}

// Under FSDP the state goes with the parameters, as accelerate's key says.
TEST_F(ExportTest, StateAndParametersAreOffloadedByOneKey) {
  const ProgramResult result = exported({"--experiment", "full",
                                         "--set",        "model_name=llama3.1-8b",
                                         "--set",        "number_gpus=2",
                                         "--set",        "gpu_model=NVIDIA-H100-80GB-HBM3",
                                         "--set",        "batch_size=2",
                                         "--set",        "model_max_length=512",
                                         "--set",        "distributed_backend=FSDP",
                                         "--set",        "offload_optimizer=true",
                                         "--set",        "offload_params=true",
                                         "--data",       "texts.jsonl",
                                         "--text-field", "text"},
                                        "trl");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(read_file((folder_ / "trl/accelerate.yaml").string()),
              HasSubstr("fsdp_offload_params: true"));
}

// By itself: the data, their form and the template are in the files, too.
TEST_F(ExportTest, FilesAreReadBackWithTheirData) {
  const std::vector<std::string> model = {
      "--set", "model_name=llama3.1-8b", "--set", "gpu_model=NVIDIA-L4", "--weights", "random"};
  const std::vector<std::string> usual = {
      "--experiment", "lora",         "--set", "number_gpus=1",
      "--set",        "batch_size=2", "--set", "model_max_length=64"};
  const std::string chat = "{% for m in messages %}{{ m.content }}{% endfor %}";
  const struct {
    const char* data;
    std::vector<std::string> form, programs;
  } cases[] = {{"texts.jsonl",
                {"--text-field", "text", "--response-template", "### Response:"},
                {"fms-hf-tuning"}},
               {"texts.jsonl",
                {"--text-field", "text", "--response-template", "None"},
                {"trl", "axolotl", "llamafactory"}},
               {"chats.jsonl", {"--chat-template", chat}, {"fms-hf-tuning", "trl", "axolotl"}},
               {"alpaca.jsonl", {}, {"axolotl", "llamafactory"}},
               {"prompts.jsonl", {}, {"trl", "llamafactory"}}};
  for (const auto& [data, form, programs] : cases) {
    std::vector<std::string> words = usual;
    words.insert(words.end(), model.begin(), model.end() - 2);
    words.insert(words.end(), {"--data", data});
    words.insert(words.end(), form.begin(), form.end());
    std::vector<std::string> own = words;
    own.insert(own.end(), {"--weights", "random"});
    const Json asked = job(own)["data"];
    for (const std::string& name : programs) {
      fs::remove_all(folder_ / name);
      const ProgramResult result = exported(words, name);
      ASSERT_EQ(result.status, 0) << result.err;
      const ExportProgram* program = find_export_program(name);
      std::vector<std::string> back = {"--arguments", name + "/accelerate.yaml", "--arguments",
                                       name + "/" + program->file};
      back.insert(back.end(), model.begin(), model.end());
      const Json read = job(back)["data"];
      Json expected = asked;
      // trl cannot tell what assistants say: the template marks nothing.
      if (name == "trl" && data == std::string("chats.jsonl")) expected["mask"] = "all";
      EXPECT_EQ(read, expected) << name << " " << data << Json::diff(expected, read);
    }
  }
}

// axolotl's plugin has them by their names.
TEST_F(ExportTest, FusedKernelsAreReadBack) {
  for (const char* name : {"trl", "axolotl", "llamafactory"}) {
    for (const char* fast : {R"(["True","True","True"])", R"(["True","False","False"])",
                             R"(["False","True","True"])"}) {
      const bool all = std::string(fast).find("False") == std::string::npos;
      if (!all && std::string(name) != "axolotl") continue;
      fs::remove_all(folder_ / name);
      const std::string given = std::string("fast_kernels=") + fast;
      const ProgramResult result = exported(
          {"--experiment", "lora", "--set", "model_name=llama3.1-8b", "--set",
           "gpu_model=NVIDIA-L4", "--set", "number_gpus=1", "--set", "batch_size=2", "--set",
           "model_max_length=64", "--data", "texts.jsonl", "--text-field", "text", "--set", given},
          name);
      ASSERT_EQ(result.status, 0) << result.err;
      const Json read =
          job({"--arguments", std::string(name) + "/" + find_export_program(name)->file, "--set",
               "model_name=llama3.1-8b", "--set", "gpu_model=NVIDIA-L4", "--set", "number_gpus=1",
               "--weights", "random"});
      EXPECT_EQ(read["inputs"]["fast_kernels"], Json::parse(fast)) << name;
    }
  }
}

// What it cannot say of a conversation, it says that it cannot.
TEST_F(ExportTest, ChatTemplatesGoAlong) {
  const auto exported_chats = [this](const char* program, const std::string& chat,
                                     const std::string& mask = "assistant") {
    fs::remove_all(folder_ / program);
    std::vector<std::string> words = {
        "--experiment", "lora",          "--set", "model_name=llama3.1-8b",
        "--set",        "number_gpus=1", "--set", "gpu_model=NVIDIA-L4",
        "--set",        "batch_size=2",  "--set", "model_max_length=64",
        "--data",       "chats.jsonl"};
    if (!chat.empty()) words.insert(words.end(), {"--chat-template", chat, "--mask", mask});
    const ProgramResult result = exported(words, program);
    EXPECT_EQ(result.status, 0) << result.err;
    std::string text = result.out;
    for (const char* name : {"trl.yaml", "axolotl.yaml", "chat_template.jinja", "train.sh"}) {
      const fs::path file = folder_ / program / name;
      if (fs::exists(file)) text += read_file(file.string());
    }
    return text;
  };
  const std::string plain = "{% for m in messages %}{{ m.content }}{% endfor %}";
  const std::string marked =
      "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
  EXPECT_THAT(exported_chats("trl", marked),
              AllOf(HasSubstr("chat_template_path: chat_template.jinja"), HasSubstr(marked),
                    HasSubstr("assistant_only_loss: true")));
  EXPECT_THAT(exported_chats("trl", plain),
              AllOf(HasSubstr("# all of a conversation bears loss: assistant_only_loss of trl "
                              "needs {% generation %} in the chat template"),
                    Not(HasSubstr("assistant_only_loss: true"))));
  EXPECT_THAT(exported_chats("trl", {}),
              AllOf(HasSubstr("assistant_only_loss: true"), Not(HasSubstr("chat_template_path")),
                    HasSubstr("which trl adds to well-known ones")));
  EXPECT_THAT(exported_chats("axolotl", plain),
              AllOf(HasSubstr("chat_template: jinja"), HasSubstr("chat_template_jinja: ")));
  EXPECT_THAT(exported_chats("axolotl", plain, "fms"),
              HasSubstr("# conversation_mask fms has no equal in axolotl, which has a mask of its "
                        "own"));
  EXPECT_THAT(exported_chats("llamafactory", plain),
              AllOf(HasSubstr("# llamafactory has no key for a chat template"), HasSubstr(plain)));
}

// Forms that a program has itself.
TEST_F(ExportTest, NamedFormsAreThoseOfThePrograms) {
  const auto file = [this](const char* program, const char* name, const char* data) {
    const ProgramResult result =
        exported({"--experiment", "full", "--set", "model_name=llama3.1-8b", "--set",
                  "number_gpus=2", "--set", "gpu_model=NVIDIA-H100-80GB-HBM3", "--set",
                  "batch_size=2", "--set", "model_max_length=512", "--data", data},
                 program);
    EXPECT_EQ(result.status, 0) << result.err;
    return read_file((folder_ / program / name).string());
  };
  EXPECT_THAT(file("axolotl", "axolotl.yaml", "alpaca.jsonl"), HasSubstr("type: alpaca"));
  const Json factory =
      Json::parse(file("llamafactory", "dataset_info.json", "alpaca.jsonl"))["data"]["columns"];
  EXPECT_EQ(factory, Json({{"prompt", "instruction"}, {"query", "input"}, {"response", "output"}}));
  EXPECT_THAT(read_file((folder_ / "llamafactory/llamafactory.yaml").string()),
              HasSubstr("template: alpaca"));
  EXPECT_THAT(file("trl", "trl.yaml", "prompts.jsonl"), Not(HasSubstr("dataset_text_field")));
}

TEST_F(ExportTest, KeepsWhatIsThere) {
  fs::create_directory(folder_ / "trl");
  write("trl/train.sh", "mine\n");
  const ProgramResult result = exported(
      {"--experiment", "full", "--set", "model_name=llama3.1-8b", "--set", "number_gpus=1", "--set",
       "gpu_model=NVIDIA-H100-80GB-HBM3", "--set", "batch_size=2", "--set", "model_max_length=512"},
      "trl");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("trl/train.sh is there and says something else"));
  EXPECT_EQ(read_file((folder_ / "trl/train.sh").string()), "mine\n");
}

TEST_F(ExportTest, RecommendExportsItsBest) {
  const ProgramResult result =
      program({"--model", "llama3.1-8b", "--entries", "1000", "--gpus", "H100", "--length", "777",
               "--epochs", "2", "--export", "fms-hf-tuning=mine"},
              "recommend");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("fms-hf-tuning  sh mine/train.sh"));
  const Json arguments = read_json_file((folder_ / "mine/arguments.json").string());
  EXPECT_EQ(arguments["max_seq_length"], 777);
  EXPECT_EQ(arguments["num_train_epochs"], 2.0);
  EXPECT_THAT(read_file((folder_ / "mine/train.sh").string()), HasSubstr("--max_seq_length 777"));
}

// A relative path of two parts looks like a dataset of the hub.
TEST_F(ExportTest, RecommendExportsAFileOfAFolder) {
  fs::create_directory(folder_ / "d");
  write("d/alpaca.jsonl", "{\"instruction\": \"a\", \"input\": \"b\", \"output\": \"c\"}\n");
  const ProgramResult result =
      program({"--model", "llama3.1-8b", "--data", "d/alpaca.jsonl", "--gpus", "H100", "--length",
               "64", "--export", "llamafactory=mine"},
              "recommend");
  ASSERT_EQ(result.status, 0) << result.err;
  const Json info = read_json_file((folder_ / "mine/dataset_info.json").string());
  EXPECT_EQ(info["data"]["file_name"], fs::canonical(folder_ / "d/alpaca.jsonl").string());
  EXPECT_FALSE(info["data"].contains("hf_hub_url"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
