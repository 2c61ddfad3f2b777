// Foreign tables: what becomes evidence, and what is left out and why.
#include "sftbench/advise/foreign_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "advise/foreign_row.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

class ForeignTableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = std::filesystem::temp_directory_path() /
              ("sftbench-import-" + std::to_string(::getpid()) + "-" + name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ImportedTable import(const std::string& text, const std::string& layout = "ado",
                       ImportOptions options = {}) {
    write_file_atomic(folder_ / "table.csv", text);
    options.layout = layout;
    options.stack = "fms-hf-tuning";
    return import_table((folder_ / "table.csv").string(), options, Catalog::shipped());
  }

  std::string error_of(const std::string& text, const std::string& layout = "ado",
                       const ImportOptions& options = {}) {
    try {
      import(text, layout, options);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path folder_;
};

const std::string kColumns =
    "identifier,method,model_name,gpu_model,number_gpus,tokens_per_sample,batch_size,is_valid,"
    "dataset_tokens_per_second\n";
const std::string kGpu = "NVIDIA-A100-SXM4-80GB";

TEST_F(ForeignTableTest, SemicolonsAndTabsSeparateAsCommasDo) {
  const std::string text =
      kColumns + "\"a, b; c\",lora,llama3-8b," + kGpu + ",2,1024,16,1,5000.5\n";
  for (const char separator : {';', '\t'}) {
    std::string other = text;
    std::replace(other.begin(), other.end(), ',', separator);
    const ImportedTable table = import(other);
    ASSERT_EQ(table.rows.size(), 1u) << separator;
    EXPECT_EQ(table.rows.front().inputs.at("batch_size"), 16);
  }
}

TEST_F(ForeignTableTest, AdosTargetFormatNamesInputsAndRates) {
  const ImportedTable table = import(
      ",identifier,generatorid,experiment_id,model_name,gpu_model,number_gpus,model_max_length,"
      "batch_size,dataset_tokens_per_second,is_valid\n"
      "0,id,g,SFTTrainer.finetune_lora_benchmark-v1.0.0-max_steps.8,llama3-8b," +
      kGpu + ",2.0,1024,16,5000.5,1.0\n");
  ASSERT_EQ(table.rows.size(), 1u) << table.left_out.front().reason;
  const Evidence& row = table.rows.front();
  EXPECT_EQ(row.experiment, "finetune_lora_benchmark-v1.0.0");
  EXPECT_EQ(row.inputs["max_steps"], 8);
  EXPECT_EQ(row.inputs["number_gpus"], 2);
  EXPECT_EQ(row.outcome, EvidenceOutcome::kValid);
  EXPECT_DOUBLE_EQ(*row.tokens_per_second, 5000.5);
  EXPECT_EQ(row.source, "table.csv:2");
}

TEST_F(ForeignTableTest, AdosObservedFormatNamesTheExperimentInItsColumns) {
  const ImportedTable table = import(
      "finetune_full_benchmark-v1.0.0-dataset_tokens_per_second,"
      "finetune_full_benchmark-v1.0.0-is_valid,model_name,gpu_model,number_gpus,model_max_length,"
      "batch_size,identifier,generatorid\n"
      "777,1,llama3-8b," +
      kGpu + ",1,512,4,id,g\n");
  ASSERT_EQ(table.rows.size(), 1u) << table.left_out.front().reason;
  EXPECT_EQ(table.rows.front().experiment, "finetune_full_benchmark-v1.0.0");
  EXPECT_DOUBLE_EQ(*table.rows.front().tokens_per_second, 777);
}

TEST_F(ForeignTableTest, PropertiesThatOnlyTheIdentifierHasAreRead) {
  const ImportedTable table =
      import(kColumns +
             "optim.adamw_torch-gradient_accumulation_steps.2-model_name.llama3-8b,full,"
             "llama3-8b," +
             kGpu + ",1,512,4,1,100\n");
  ASSERT_EQ(table.rows.size(), 1u) << table.left_out.front().reason;
  EXPECT_EQ(table.rows.front().inputs["gradient_accumulation_steps"], 2);
  EXPECT_EQ(table.rows.front().inputs["optim"], "adamw_torch");
}

TEST_F(ForeignTableTest, WhatDiedIsToldFromWhatNoRuleAllowed) {
  const ImportedTable table =
      import(kColumns + "a,full,llama3-8b," + kGpu + ",1,512,4,0,\n" + "b,full,llama3-8b," + kGpu +
             ",2,512,3,0,\n" + "c,full,llama3-8b," + kGpu + ",2,512,4,,\n");
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0].outcome, EvidenceOutcome::kOutOfMemory);
  EXPECT_EQ(table.rows[1].outcome, EvidenceOutcome::kFailed);
  ASSERT_EQ(table.left_out.size(), 1u);
  EXPECT_EQ(table.left_out[0].line, 3);
  EXPECT_THAT(table.left_out[0].reason, HasSubstr("breaks a rule"));
}

TEST_F(ForeignTableTest, RowsThatCannotBePlacedSayWhy) {
  const auto reason = [this](const std::string& row) {
    const ImportedTable table = import(kColumns + row + "\n");
    return table.left_out.empty() ? std::string("none") : table.left_out.front().reason;
  };
  const std::string rest = "," + kGpu + ",1,512,4,1,";
  EXPECT_THAT(reason("a,tuned,llama3-8b" + rest + "100"), HasSubstr("no experiment is called"));
  EXPECT_THAT(reason("a,full,llama-9b" + rest + "100"), HasSubstr("model_name: found 'llama-9b'"));
  EXPECT_THAT(reason("a,full,llama3-8b" + rest + "fast"), HasSubstr("is no number: 'fast'"));
  EXPECT_THAT(reason("a,full,llama3-8b" + rest + "-3"), HasSubstr("is -3, not above 0"));
  EXPECT_THAT(reason("a,full,llama3-8b" + rest + "3e12"), HasSubstr("it has another unit"));
  EXPECT_THAT(reason("a,full,llama3-8b," + kGpu + ",1,512,4,maybe,3"), HasSubstr("found 'maybe'"));
  EXPECT_THAT(reason("a,full,llama3-8b," + kGpu + ",1,,4,1,3"), HasSubstr("model_max_length"));
  EXPECT_THAT(reason("a,full,llama3-8b," + kGpu + ",1,512,4,1,3,9,9"), HasSubstr("has 11 cells"));
}

TEST_F(ForeignTableTest, FmsAccelerationCountsOneDeviceAndKnowsItsModels) {
  const std::string header =
      "bf16,framework_config,lora_alpha,mem_peak_torch_mem_alloc_in_bytes,model_name_or_path,"
      "num_gpus,peft_method,per_device_train_batch_size,r,target_modules,torch_dtype,"
      "train_tokens_per_second\n";
  const ImportedTable table = import(
      header +
          "True,foak-fast-kernels,16,20000000000,mistralai/Mistral-7B-v0.1,2,lora,4,16,q_proj "
          "v_proj,bfloat16,3000\n"
          "True,accelerated-peft-bnb,16,,mistralai/Mistral-7B-v0.1,2,lora,4,16,q_proj,bfloat16,3\n"
          ",none,,,mistralai/Mistral-7B-v0.1,1,,8,,,bfloat16,\n"
          ",none,,,somebody/else,1,,8,,,bfloat16,\n",
      "fms-acceleration");
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(*table.rows[0].tokens_per_second, 6000);
  EXPECT_DOUBLE_EQ(*table.rows[0].allocated_bytes, 2e10);
  EXPECT_EQ(table.rows[0].inputs["batch_size"], 8);
  EXPECT_EQ(table.rows[0].inputs["target_modules"], Json({"q_proj", "v_proj"}));
  EXPECT_EQ(table.rows[1].outcome, EvidenceOutcome::kOutOfMemory);
  ASSERT_EQ(table.left_out.size(), 2u);
  EXPECT_THAT(table.left_out[0].reason, HasSubstr("bitsandbytes"));
  EXPECT_THAT(table.left_out[1].reason, HasSubstr("unknown model 'somebody/else'"));
}

TEST_F(ForeignTableTest, AnyOtherTableIsMappedByColumn) {
  ImportOptions options;
  options.columns = {{"model_name", "model"}, {"tokens_per_second", "rate"}, {"batch_size", "bs"}};
  options.constants = {{"experiment", "lora"},
                       {"gpu_model", kGpu},
                       {"number_gpus", "1"},
                       {"model_max_length", "2048"}};
  const ImportedTable table =
      import("model,rate,bs,note\n\"llama3-8b\",3500,4,\"a \"\"b\"\", c\"\r\n", "csv", options);
  ASSERT_EQ(table.rows.size(), 1u) << table.left_out.front().reason;
  EXPECT_EQ(table.rows[0].inputs["model_max_length"], 2048);
  EXPECT_EQ(table.unused, std::vector<std::string>{"note"});
  options.columns["tokens_per_second"] = "speed";
  EXPECT_THAT(error_of("model,rate,bs\n", "csv", options), HasSubstr("has no column 'speed'"));
  options.columns = {{"modelname", "model"}};
  EXPECT_THAT(error_of("model,rate,bs\n", "csv", options), HasSubstr("did you mean 'model_name'?"));
  options.columns.clear();
  options.constants["color"] = "red";
  EXPECT_THAT(error_of("model,rate,bs\n", "csv", options), HasSubstr("--set color"));
}

TEST_F(ForeignTableTest, ARowOfMemoryAloneIsAMeasurement) {
  ImportOptions options;
  options.columns = {
      {"model_name", "model"}, {"tokens_per_second", "rate"}, {"allocated_bytes", "bytes"}};
  options.constants = {{"experiment", "lora"},
                       {"gpu_model", kGpu},
                       {"number_gpus", "1"},
                       {"batch_size", "4"},
                       {"model_max_length", "2048"}};
  const ImportedTable table =
      import("model,rate,bytes\nllama3-8b,,2e10\nllama3-8b,,\n", "csv", options);
  ASSERT_EQ(table.rows.size(), 2u) << table.left_out.front().reason;
  EXPECT_EQ(table.rows[0].outcome, EvidenceOutcome::kValid);
  EXPECT_FALSE(table.rows[0].tokens_per_second);
  EXPECT_DOUBLE_EQ(*table.rows[0].allocated_bytes, 2e10);
  EXPECT_EQ(table.rows[1].outcome, EvidenceOutcome::kFailed);
}

// The quoted cell of the first row ends in the third line, the fourth is blank.
TEST_F(ForeignTableTest, LinesEndAsAnySystemEndsThemAndAreCounted) {
  const std::string lines =
      "\xEF\xBB\xBF"
      "note," +
      kColumns + "\"two\nlines\",a,full,llama3-8b," + kGpu +
      ",1,512,4,1,100\n\n,b,full,llama3-8b," + kGpu + ",1,512,4,1,100";
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    std::string text;
    bool quoted = false;
    for (const char c : lines) {
      quoted = quoted != (c == '"');
      text += c == '\n' && !quoted ? end : std::string(1, c);
    }
    for (const std::string& whole : {text, text + end}) {
      const ImportedTable table = import(whole);
      ASSERT_EQ(table.rows.size(), 2u) << Json(end);
      EXPECT_EQ(table.rows[0].source, "table.csv:2");
      EXPECT_EQ(table.rows[1].source, "table.csv:5");
      EXPECT_EQ(table.unused, std::vector<std::string>{"note"});
    }
  }
}

TEST_F(ForeignTableTest, FilesThatAreNoTablesAreRefused) {
  EXPECT_THAT(error_of(""), HasSubstr("has no header"));
  EXPECT_THAT(error_of("a,b,a\n"), HasSubstr("names two columns"));
  EXPECT_THAT(error_of("a,b\n1,\"2\n"), HasSubstr("table.csv:2: a quote is never closed"));
  EXPECT_THAT(error_of("a,b\n", "adoo"), HasSubstr("did you mean 'ado'?"));
}

TEST_F(ForeignTableTest, EvidenceReadsBackAsItWasWritten) {
  const ImportedTable table = import(kColumns + "a,full,llama3-8b," + kGpu + ",1,512,4,1,100\n" +
                                     "b,full,llama3-8b," + kGpu + ",1,512,8,0,\n");
  const std::string path = (folder_ / "evidence.jsonl").string();
  write_file_atomic(path, evidence_text(table.rows));
  const std::vector<Evidence> rows = read_evidence(path);
  ASSERT_EQ(rows.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(to_json(rows[i]), to_json(table.rows[i]));
  const auto error = [&](const std::string& text) -> std::string {
    write_file_atomic(path, text);
    try {
      read_evidence(path);
    } catch (const InputError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(error("{\"schema\": \"other\"}\n"), HasSubstr("evidence.jsonl:1: schema"));
  EXPECT_THAT(error("\n[1]\n"), HasSubstr("evidence.jsonl:2"));
  EXPECT_THAT(error("{\n"), HasSubstr("evidence.jsonl:1"));
  Json json = to_json(rows[0]);
  json["tokens_per_second"] = -1;
  EXPECT_THAT(error(json.dump()), HasSubstr("a number above 0, or null"));
}

// --- one row ------------------------------------------------------------------------------------

ForeignRow row_of_test() {
  ForeignRow row;
  row.experiment = "full";
  row.properties = {{"model_name", "llama3-8b"},
                    {"gpu_model", kGpu},
                    {"number_gpus", "1.0"},
                    {"model_max_length", "512"},
                    {"batch_size", "4"}};
  row.tokens_per_second = 1000;
  return row;
}

std::string misfit(const ForeignRow& row, std::vector<std::string> extra_models = {}) {
  try {
    RowPlacer(Catalog::shipped(), std::move(extra_models)).place(row);
  } catch (const Misfit& problem) {
    return problem.reason;
  }
  return "none";
}

TEST(ForeignRowTest, FiguresArePositiveNumbersOrNotKnown) {
  for (const char* none : {"", "nan", "NaN", "None"})
    EXPECT_EQ(figure_of("f", none), std::nullopt) << none;
  EXPECT_EQ(figure_of("f", "0.5"), 0.5);
  for (const char* wrong : {"0", "-3", "1x", "x", "inf", "1e999", " 1"})
    EXPECT_THROW(figure_of("f", wrong), Misfit) << wrong;
}

TEST(ForeignRowTest, FiguresOfAnotherUnitAreRefused) {
  ForeignRow row = row_of_test();
  for (const auto& [rate, fits] : {std::pair(1e9, true), std::pair(1.001e9, false)}) {
    row.tokens_per_second = rate;
    EXPECT_EQ(misfit(row) == "none", fits) << rate;
  }
  row.tokens_per_second.reset();
  for (const auto& [bytes, fits] : {std::pair(16777216.0, true), std::pair(16777215.0, false),
                                    std::pair(1e13, true), std::pair(1.001e13, false)}) {
    row.allocated_bytes = bytes;
    EXPECT_EQ(misfit(row) == "none", fits) << bytes;
  }
}

TEST(ForeignRowTest, WhatIsNotValidRanOutOfMemoryAndWhatSaysNothingFailed) {
  RowPlacer placer(Catalog::shipped(), {});
  ForeignRow row = row_of_test();
  EXPECT_EQ(placer.place(row).outcome, EvidenceOutcome::kValid);
  row.is_valid = false;
  EXPECT_EQ(placer.place(row).outcome, EvidenceOutcome::kOutOfMemory);
  EXPECT_FALSE(placer.place(row).tokens_per_second);
  row.properties["batch_size"] = "3";
  row.properties["number_gpus"] = "2";
  EXPECT_THAT(misfit(row), HasSubstr("breaks a rule"));
  row = row_of_test();
  row.tokens_per_second.reset();
  EXPECT_EQ(placer.place(row).outcome, EvidenceOutcome::kFailed);
  row.allocated_bytes = 2e10;
  EXPECT_EQ(placer.place(row).outcome, EvidenceOutcome::kValid);
  EXPECT_EQ(placer.place(row).allocated_bytes, 2e10);
}

TEST(ForeignRowTest, AModelOfTheUsersIsTakenByItsNameAlone) {
  ForeignRow row = row_of_test();
  row.properties["model_name"] = "mine";
  EXPECT_THAT(misfit(row), HasSubstr("model_name: found 'mine'"));
  EXPECT_EQ(misfit(row, {"mine"}), "none");
  EXPECT_THAT(misfit(row, {"mine", "yours"}), "none");
  row.properties["optim"] = "mine";
  EXPECT_THAT(misfit(row, {"mine"}), HasSubstr("optim: found 'mine'"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
