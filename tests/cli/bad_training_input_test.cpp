// What a user can get wrong in what a run reads and writes: the executable with its real engine on
// a tiny checkpoint of which one thing is spoilt. Each message is held whole, in the result file
// and on stderr, and so is what stays on the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "checkpoint/safetensors_builder.h"
#include "cli/program.h"
#include "results/schema_check.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/base/text.h"
#include "sftbench/families/family.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kDataset = "news-tokens-16384plus-entries-4096";
constexpr size_t kLengthFieldBytes = 8;

// A folder with a model, a dataset and an actuator configuration that names both.
class BadTrainingInputTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder(std::string("bad_training_") +
                           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    copy_model("llama_plain");
    for (int i = 0; i < 8; ++i) {
      add_line(R"({"output": "### Input:\n some words \n\n### Response: words of the day"})");
    }
    write("config.yaml", "parameters:\n  data_directory: " + (folder_ / "data").string() +
                             "\n  model_map: {tiny: " + model().string() + "}\n");
  }

  void copy_model(const std::string& name) {
    fs::remove_all(model());
    fs::create_directories(model());
    for (const fs::path& source : {fs::path(SFTBENCH_TEST_DATA) / "models" / name,
                                   fs::path(SFTBENCH_SOURCE_DIR) / "datasets/tokenizer"}) {
      for (const auto& entry : fs::directory_iterator(source)) {
        fs::copy_file(entry, model() / entry.path().filename());
      }
    }
  }

  fs::path model() const { return folder_ / "model"; }
  std::string weights() const { return (model() / "model.safetensors").string(); }
  std::string dataset() const { return (folder_ / "data" / kDataset).string() + ".jsonl"; }
  fs::path results() const { return folder_ / "results"; }

  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  void add_line(const std::string& line) const {
    fs::create_directories(folder_ / "data");
    std::ofstream(dataset(), std::ios::app) << line << "\n";
  }
  // In a text file of the folder, `before` (which is there once) becomes `after`.
  void replace(const std::string& name, const std::string& before, const std::string& after) const {
    std::string text = read_file(folder_ / name);
    const size_t place = text.find(before);
    ASSERT_NE(place, std::string::npos) << before;
    write(name, text.replace(place, before.size(), after));
  }

  size_t header_bytes() const {
    size_t length = 0;
    const std::string file = read_file(weights());
    for (size_t i = kLengthFieldBytes; i-- > 0;) {
      length = length << 8 | static_cast<unsigned char>(file[i]);
    }
    return length;
  }
  Json header() const {
    return Json::parse(read_file(weights()).substr(kLengthFieldBytes, header_bytes()));
  }
  void write_header(const std::string& text) const {
    const std::string data = read_file(weights()).substr(kLengthFieldBytes + header_bytes());
    write("model/model.safetensors", length_field(text.size()) + text + data);
  }

  // One step on the CPU, with the real engine: it stands beside the executable.
  std::vector<std::string> words(const std::vector<std::string>& extra = {}) const {
    std::vector<std::string> all = {"run", "--experiment", "finetune_full_benchmark-v1.0.0"};
    for (const char* assignment : {"model_name=tiny", "model_max_length=32", "batch_size=2",
                                   "gradient_accumulation_steps=1"}) {
      all.insert(all.end(), {"--set", assignment});
    }
    all.insert(all.end(), {"--config", (folder_ / "config.yaml").string(), "--threads", "1",
                           "--format", "csv"});
    all.insert(all.end(), extra.begin(), extra.end());
    const auto given = [&all](const std::string& beginning) {
      return std::any_of(all.begin(), all.end(), [&beginning](const std::string& word) {
        return word.rfind(beginning, 0) == 0;
      });
    };
    if (!given("number_gpus=")) all.insert(all.end(), {"--set", "number_gpus=0"});
    if (!given("max_steps=")) all.insert(all.end(), {"--set", "max_steps=1"});
    if (!given("--output")) all.insert(all.end(), {"--output", results().string()});
    return all;
  }
  static std::map<std::string, std::string> real_engine() { return {{"SFTBENCH_ENGINE", ""}}; }

  // Runs what must fail with `code`; its message. Neither may anything half-written be left, nor
  // may who reads only stderr miss the reason.
  std::string failure(const std::string& code, const std::vector<std::string>& extra = {},
                      std::map<std::string, std::string> environment = real_engine()) const {
    const ProgramResult run = run_program(words(extra), std::move(environment));
    EXPECT_EQ(run.status, 4) << run.err;
    std::vector<fs::path> files;
    if (fs::exists(results())) {
      for (const auto& entry : fs::recursive_directory_iterator(results())) {
        if (!entry.is_directory()) files.push_back(entry.path());
      }
    }
    std::sort(files.begin(), files.end());
    if (files.empty() || files.front().extension() != ".json") return "no result: " + run.err;
    const Json json = read_json_file(files.front().string());
    EXPECT_EQ(schema_violation(files.front()), "");
    EXPECT_EQ(json["status"], "failed");
    EXPECT_EQ(json["measured"], Json::object());
    EXPECT_EQ(json["reason"]["code"], code);
    if (json["reason"]["log"].is_null()) {
      EXPECT_EQ(files.size(), 1u);
    } else {
      EXPECT_EQ(files.size(), 2u);
      EXPECT_EQ(files.back(), json["reason"]["log"].get<std::string>());
    }
    std::string message = json["reason"]["message"];
    EXPECT_THAT(run.err, HasSubstr("error: " + code + ": " + message));
    if (!json["reason"]["evidence"].is_null()) {
      message += " [" + json["reason"]["evidence"].get<std::string>() + "]";
    }
    return message;
  }

  fs::path folder_;
};

TEST_F(BadTrainingInputTest, UnspoiltInputsTrain) {
  const ProgramResult run = run_program(words(), real_engine());
  EXPECT_EQ(run.status, 0) << run.err;
  const std::vector<std::string> names = file_names_below(results());
  ASSERT_EQ(names.size(), 3u);
  const std::string key = fs::path(names[0]).stem();
  EXPECT_EQ(names,
            (std::vector<std::string>{key + ".json", key + ".log", key + ".series.json.gz"}));
  const Json json =
      read_json_file((results() / "finetune_full_benchmark-v1.0.0" / names[0]).string());
  EXPECT_EQ(json["status"], "valid");
  EXPECT_NE(json["environment"]["libtorch"], "0.0-fake");
}

// --- weights ------------------------------------------------------------------------------------

TEST_F(BadTrainingInputTest, WeightsThatAreNotThere) {
  fs::remove(weights());
  EXPECT_EQ(
      failure("WEIGHTS"),
      "the folder of tiny lacks files that a model has; with them it can be trained, or without "
      "its weights: --weights random [looked at " +
          model().string() + " (no model.safetensors, no model.safetensors.index.json)]");
}

TEST_F(BadTrainingInputTest, TruncatedWeights) {
  fs::resize_file(weights(), fs::file_size(weights()) - 1);
  EXPECT_EQ(failure("WEIGHTS"),
            weights() +
                ": model.norm.weight: data_offsets [86528, 86656] lie outside of the file's 86655 "
                "bytes of data; expected a whole file; this one is truncated or its header wrong");
}

TEST_F(BadTrainingInputTest, ManyTensorsThatAreCutOffAreOneFinding) {
  fs::resize_file(weights(), 50000);
  EXPECT_EQ(
      failure("WEIGHTS"),
      weights() +
          ": model.layers.0.self_attn.o_proj.weight: data_offsets [45312, 49408] lie outside "
          "of the file's 47896 bytes of data; expected a whole file; this one is truncated or "
          "its header wrong\n" +
          weights() + ": 12 more tensors lie outside of it");
}

TEST_F(BadTrainingInputTest, AnEmptyWeightsFile) {
  write("model/model.safetensors", "");
  EXPECT_EQ(failure("WEIGHTS"), weights() +
                                    ": truncated: the file has 0 bytes; expected at least the 8 "
                                    "bytes of the header length of a safetensors file");
}

TEST_F(BadTrainingInputTest, AnAbsurdHeaderLength) {
  std::string file = read_file(weights());
  file.replace(0, kLengthFieldBytes, length_field(uint64_t{1} << 62));
  write("model/model.safetensors", file);
  EXPECT_EQ(failure("WEIGHTS"),
            weights() +
                ": absurd header length of 4611686018427387904 bytes; expected at most "
                "100000000; is this a safetensors file?");
}

TEST_F(BadTrainingInputTest, ADuplicateTensor) {
  std::string text = header().dump();
  text.pop_back();
  write_header(text + "," + entry("lm_head.weight", "F32", "[96, 32]", "[0, 12288]") + "}");
  EXPECT_EQ(failure("WEIGHTS"), weights() + ": lm_head.weight: duplicate tensor");
}

TEST_F(BadTrainingInputTest, WrongShapeMissingAndExtraTensorsAreAllListed) {
  Json changed = header();
  changed["model.layers.0.mlp.up_proj.weight"]["shape"] = {32, 48};
  changed["model.layers.1.mlp.dwn_proj.weight"] = changed["model.layers.1.mlp.down_proj.weight"];
  changed.erase("model.layers.1.mlp.down_proj.weight");
  write_header(changed.dump());
  EXPECT_EQ(failure("WEIGHTS"),
            weights() +
                ": model.layers.0.mlp.up_proj.weight: has shape [32, 48]; expected [48, "
                "32]\n" +
                model().string() +
                ": model.layers.1.mlp.down_proj.weight: missing tensor; expected shape [32, 48]\n" +
                weights() +
                ": model.layers.1.mlp.dwn_proj.weight: unexpected tensor that the model has no "
                "place for");
}

TEST_F(BadTrainingInputTest, AShardThatTheIndexNamesButTheFolderLacks) {
  copy_model("llama_sharded");
  const fs::path shard = model() / "model-00003-of-00006.safetensors";
  fs::remove(shard);
  EXPECT_EQ(failure("WEIGHTS"),
            shard.string() +
                ": no such file, although model.safetensors.index.json places 5 tensors in it; "
                "expected every shard of the index; fetch the model again");
}

// --- config.json --------------------------------------------------------------------------------

TEST_F(BadTrainingInputTest, AnUnknownModelType) {
  replace("model/config.json", R"("llama")", R"("falcon")");
  EXPECT_EQ(failure("UNSUPPORTED"),
            "model_name tiny: its family, falcon, is not one that this version trains: " +
                join(known_model_types()) + " [" + (model() / "config.json").string() +
                ": model_type: falcon]");
}

TEST_F(BadTrainingInputTest, AnUnknownArchitecture) {
  replace("model/config.json", "LlamaForCausalLM", "LlamForCausalLM");
  std::vector<std::string> known;
  for (const Family& family : families()) known.emplace_back(family.architecture);
  EXPECT_EQ(failure("WEIGHTS"),
            (model() / "config.json").string() +
                ": architectures: unknown architecture \"LlamForCausalLM\"; expected one of " +
                join(known) + "; did you mean 'LlamaForCausalLM'?");
}

TEST_F(BadTrainingInputTest, ASyntaxErrorInTheConfigHasLineAndColumn) {
  replace("model/config.json", "\"eos_token_id\": 2,", "\"eos_token_id\": 2");
  EXPECT_EQ(failure("WEIGHTS"),
            (model() / "config.json").string() +
                ":10: not JSON at column 12: syntax error while parsing object - unexpected string "
                "literal; expected '}'");
}

TEST_F(BadTrainingInputTest, ImpossibleSizesInTheConfigAreAllListed) {
  replace("model/config.json", R"("hidden_size": 32)", R"("hidden_size": "big")");
  replace("model/config.json", R"("num_attention_heads": 4)", R"("num_attention_heads": -3)");
  const std::string config = (model() / "config.json").string();
  EXPECT_EQ(failure("WEIGHTS"),
            config + ": hidden_size: found \"big\"; expected a positive integer below 2^31\n" +
                config + ": num_attention_heads: found -3; expected a positive integer below 2^31");
}

// --- tokenizer ----------------------------------------------------------------------------------

TEST_F(BadTrainingInputTest, NoTokenizer) {
  fs::remove(model() / "tokenizer.json");
  EXPECT_THAT(failure("WEIGHTS"),
              HasSubstr("[looked at " + model().string() +
                        " (no tokenizer.json; --tokenizer DIR names another)]"));
}

TEST_F(BadTrainingInputTest, ATokenizerOfSentencePieceAlone) {
  fs::rename(model() / "tokenizer.json", model() / "tokenizer.model");
  EXPECT_THAT(failure("WEIGHTS"),
              HasSubstr(model().string() + " (no tokenizer.json, which transformers makes of its "
                                           "tokenizer.model: python3 -c "));
}

TEST_F(BadTrainingInputTest, ATokenizerOfAnUnknownType) {
  write("model/tokenizer.json", R"({"version": "1.0", "model": {"type": "Unigram", "vocab": []}})");
  EXPECT_EQ(failure("WEIGHTS"), (model() / "tokenizer.json").string() +
                                    ": model.type: unsupported model 'Unigram'; expected BPE");
}

TEST_F(BadTrainingInputTest, UnknownComponentsOfATokenizerAreAllNamed) {
  write("model/tokenizer.json",
        R"({"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKCC"}]},
            "pre_tokenizer": {"type": "Whitespac"}, "post_processor": {"type": "Bert"}})");
  const std::string tokenizer = (model() / "tokenizer.json").string();
  const std::string message = failure("WEIGHTS");
  EXPECT_THAT(
      message,
      HasSubstr(tokenizer + ": normalizer.normalizers[0].type: unsupported normalizer 'NFKCC'; "
                            "expected Sequence, NFC, "));
  EXPECT_THAT(message, HasSubstr("; did you mean 'NFKC'?\n"));
  EXPECT_THAT(message,
              HasSubstr(tokenizer + ": pre_tokenizer.type: unsupported pre-tokenizer 'Whitespac'"));
  EXPECT_THAT(message,
              HasSubstr(tokenizer + ": post_processor.type: unsupported post-processor 'Bert'"));
}

TEST_F(BadTrainingInputTest, ATokenizerThatIsNoJson) {
  write("model/tokenizer.json", "{\"version\": \"1.0\",\n \"model\": {\"type\": \"BPE\",\n");
  EXPECT_THAT(failure("WEIGHTS"),
              HasSubstr((model() / "tokenizer.json").string() + ":3: not JSON at column 1: "));
}

// --- dataset ------------------------------------------------------------------------------------

TEST_F(BadTrainingInputTest, ABadLineOfTheDatasetHasItsNumber) {
  write("data/" + std::string(kDataset) + ".jsonl", "\n{\"output\": \"cut off\n");
  EXPECT_EQ(failure("DATA"),
            dataset() +
                ":2: not JSON at column 20: syntax error while parsing value - invalid string: "
                "missing closing quote; last read: '\"cut off'; expected one JSON object per line");
}

TEST_F(BadTrainingInputTest, AMissingFieldIsNamedWithItsLineAndTheNearest) {
  write("data/" + std::string(kDataset) + ".jsonl",
        "{\"outptu\": \"a\"}\n{\"text\": \"b\", \"id\": 1}\n");
  EXPECT_EQ(failure("DATA"),
            dataset() + ":1: output: no such field; found outptu; did you mean 'outptu'?\n" +
                dataset() + ":2: output: no such field; found text, id");
}

TEST_F(BadTrainingInputTest, TheFieldIsTheOneThatWasAskedFor) {
  EXPECT_THAT(failure("DATA", {"--set", "dataset_text_field=text"}),
              HasSubstr(": text: no such field; found output"));
}

TEST_F(BadTrainingInputTest, AnEmptyDataset) {
  write("data/" + std::string(kDataset) + ".jsonl", "");
  EXPECT_EQ(failure("DATA"), dataset() + ": the file is empty; expected one JSON object per line");
}

TEST_F(BadTrainingInputTest, ADatasetWithoutResponses) {
  write("data/" + std::string(kDataset) + ".jsonl", "{\"output\": \"words\"}\n");
  EXPECT_EQ(
      failure("DATA"),
      dataset() +
          ": none of the 1 entry that this run uses has a position that bears loss: the "
          "response template \"\\n### Response:\" is in none of them; expected it in front of "
          "each entry's response, or response_template None, under which all of an entry "
          "bears loss");
}

// --- devices ------------------------------------------------------------------------------------

std::map<std::string, std::string> machine_with(const std::string& gpus) {
  return {{"SFTBENCH_ENGINE", ""},
          {"LD_LIBRARY_PATH", fs::path(SFTBENCH_FAKE_NVML).parent_path()},
          {"FAKE_NVML_GPUS", gpus}};
}

// A reader of a pipe would wait for a writer until --timeout.
TEST_F(BadTrainingInputTest, APipeInPlaceOfAFileIsNamedAtOnce) {
  const std::string model_files[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                     "model.safetensors"};
  for (const std::string& name : model_files) {
    copy_model("llama_plain");
    const fs::path file = model() / name;
    fs::remove(file);
    ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
    EXPECT_THAT(failure("WEIGHTS"),
                HasSubstr(file.string() + ": is a pipe; expected a regular file"));
  }
  copy_model("llama_plain");
  fs::remove(weights());
  ASSERT_EQ(::mkfifo((weights() + ".index.json").c_str(), 0600), 0);
  EXPECT_THAT(failure("WEIGHTS"), HasSubstr("index.json: is a pipe; expected a regular file"));
}

TEST_F(BadTrainingInputTest, APipeOrADeviceInPlaceOfTheDatasetIsNamedAtOnce) {
  fs::remove(dataset());
  fs::create_symlink("/dev/zero", dataset());
  EXPECT_THAT(failure("DATA"), HasSubstr(dataset() + ": is a device; expected a regular file"));
  fs::remove(dataset());
  ASSERT_EQ(::mkfifo(dataset().c_str(), 0600), 0);
  EXPECT_THAT(failure("DATA"), HasSubstr(dataset() + ": is a pipe; expected a regular file"));
}

TEST_F(BadTrainingInputTest, NoGpuThoughOneIsAskedForFailsAndIsNotInvalid) {
  EXPECT_EQ(
      failure("UNSUPPORTED", {"--set", "number_gpus=1", "--set", "gpu_model=NVIDIA-H100-80GB-HBM3"},
              machine_with("")),
      "number_gpus asks for 1 GPU on this machine, which has no NVIDIA driver "
      "[libnvidia-ml.so.1: Driver Not Loaded]");
}

TEST_F(BadTrainingInputTest, AnotherGpuThanTheMachines) {
  EXPECT_EQ(
      failure("UNSUPPORTED", {"--set", "number_gpus=1", "--set", "gpu_model=NVIDIA-H100-80GB-HBM3"},
              machine_with("Tesla T4")),
      "gpu_model asks for 'NVIDIA-H100-80GB-HBM3', but GPU 0 of this machine is 'Tesla T4'");
}

// --- what is written ----------------------------------------------------------------------------

TEST_F(BadTrainingInputTest, AnOutputFolderThatCannotBeMade) {
  const ProgramResult run =
      run_program(words({"--output", "/proc/sftbench/results"}), real_engine());
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err,
            "sftbench: /proc/sftbench/results: --output: cannot make the folder: No such file or "
            "directory; expected a folder that results can be written to\n");
}

// No file may grow beyond the limit: for the program the same as a full disk, and needs no rights.
TEST_F(BadTrainingInputTest, AFullDiskIsFoundBeforeTraining) {
  Program program(words(), real_engine());
  program.limit_file_bytes(64 << 10);
  program.start();
  const ProgramResult run = program.finish();
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err, "sftbench: " + results().string() +
                         ": --output: cannot write: File too large; expected a folder that results "
                         "can be written to\n");
  EXPECT_FALSE(fs::exists(results()));
}

std::vector<std::string> long_run() {
  return {"--set", "max_steps=5000", "--set", "stop_after_seconds=1"};
}

TEST_F(BadTrainingInputTest, ADiskThatFillsUpDuringTrainingLeavesThePrintedMeasurementOnly) {
  Program program(words(long_run()), real_engine());
  program.start();
  program.read_err_until("step 1/");
  const rlimit nothing = {0, 0};
  ASSERT_EQ(prlimit(program.pid(), RLIMIT_FSIZE, &nothing, nullptr), 0);
  const ProgramResult run = program.finish();
  EXPECT_EQ(run.status, 4) << run.err;
  EXPECT_THAT(run.out, HasSubstr(",valid,")) << run.err;
  EXPECT_THAT(run.err, HasSubstr(".json: cannot write: File too large; the measurement is printed, "
                                 "but not kept\n"));
  EXPECT_FALSE(fs::exists(results()));
}

// --- interrupts ---------------------------------------------------------------------------------

struct Interruption {
  const char* moment;  // of stderr
  std::vector<int> signals;
};

class InterruptedTrainingTest : public BadTrainingInputTest,
                                public ::testing::WithParamInterface<Interruption> {
 protected:
  ProgramResult interrupted() const {
    Program program(words({"--set", "max_steps=5000"}), real_engine());
    program.start();
    program.read_err_until(GetParam().moment);
    for (const int signal : GetParam().signals) {
      kill(program.pid(), signal);
      program.read_err_until("once more to end at once");
    }
    return program.finish();
  }
};

TEST_P(InterruptedTrainingTest, LeavesNothingBehind) {
  const ProgramResult run = interrupted();
  EXPECT_EQ(run.status, 130) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("interrupted; nothing was kept\n"));
  EXPECT_FALSE(fs::exists(results()));
}

INSTANTIATE_TEST_SUITE_P(Moments, InterruptedTrainingTest,
                         ::testing::Values(Interruption{"measuring ", {SIGINT}},
                                           Interruption{"step 1/", {SIGINT}},
                                           Interruption{"step 1/", {SIGTERM}},
                                           Interruption{"step 1/", {SIGINT, SIGINT}}));

TEST_F(BadTrainingInputTest, AnInterruptionNamesTheCheckpointsThatStay) {
  const std::string out = (folder_ / "out").string();
  Program program(words({"--set", "max_steps=5000", "--output-dir", out, "--save-strategy", "steps",
                         "--save-steps", "1"}),
                  real_engine());
  program.start();
  program.read_err_until("step 1/");
  while (!fs::exists(out + "/checkpoint-1/sftbench_manifest.json"))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  kill(program.pid(), SIGINT);
  const ProgramResult run = program.finish();
  EXPECT_EQ(run.status, 130) << run.err;
  EXPECT_THAT(run.err, ::testing::Not(HasSubstr("nothing was kept")));
  EXPECT_THAT(run.err, HasSubstr("interrupted; no result was kept. " + out + "/checkpoint-"));
  EXPECT_THAT(run.err,
              HasSubstr(" stays, and --resume-from-checkpoint " + out + " goes on from there"));
}

TEST_F(BadTrainingInputTest, AnInterruptionLeavesAnEarlierMeasurementAsItWas) {
  ASSERT_EQ(run_program(words(), real_engine()).status, 0);
  std::map<fs::path, std::string> before;
  for (const auto& entry : fs::recursive_directory_iterator(results())) {
    if (!entry.is_directory()) before[entry.path()] = read_file(entry.path());
  }
  Program again(words(), real_engine());
  again.start();
  again.read_err_until("measuring ");  // with the log open, and the engine still to be loaded
  kill(again.pid(), SIGINT);
  EXPECT_EQ(again.finish().status, 130);
  for (const auto& [path, content] : before) EXPECT_EQ(read_file(path), content) << path;
  EXPECT_EQ(file_names_below(results()).size(), before.size());
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
