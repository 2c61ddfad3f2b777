// What stands in a results folder and is not what a measurement wrote there is never taken for one:
// neither when it is damaged, nor when it belongs to another key, nor when it was edited.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>

#include "results/result_files.h"
#include "results/sample_measurement.h"
#include "results/schema_check.h"
#include "sftbench/base/file.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::string kExperiment = "finetune_full_benchmark-v1.0.0";

class SealTest : public testing::Test {
 protected:
  SealTest()
      : directory_(fresh_results(testing::UnitTest::GetInstance()->current_test_info()->name())),
        store_(directory_) {}
  ~SealTest() override { fs::remove_all(directory_); }

  // What a sweep or a run is told about the file of `key`; empty: it is taken for a measurement.
  std::string refusal(const std::string& key = "k") const {
    try {
      store_.status_of(kExperiment, key);
      return {};
    } catch (const InputError& error) {
      return error.diagnostics().front().message;
    }
  }

  // What a report is told about the only file there is.
  std::string skipped() const {
    const StoreScan scan = store_.scan();
    return scan.skipped.empty() ? "" : scan.skipped.front().reason;
  }

  fs::path path(const std::string& key = "k") const { return store_.result_path(kExperiment, key); }

  void edit(const std::function<void(Json&)>& change) const {
    Json json = read_json_file(path().string());
    change(json);
    put(directory_, kExperiment + "/k.json", json.dump(2));
  }

  fs::path directory_;
  ResultStore store_;
};

TEST_F(SealTest, AWrittenResultIsReadAndKeepsToTheSchema) {
  int number = 0;
  for (const Measurement& measurement :
       {sample_valid(), sample_of_ranks(), sample_stability(), sample_invalid(), sample_failed()}) {
    const std::string key = "k" + std::to_string(number++);
    const fs::path file = store_.write(measurement, key);
    EXPECT_EQ(store_.status_of(measurement.experiment, key), measurement.status);
    EXPECT_EQ(schema_violation(file), "");
    EXPECT_EQ(read_json_file(file.string()).value("key", ""), key);
  }
  const StoreScan scan = store_.scan();
  EXPECT_THAT(scan.skipped, IsEmpty());
  for (const StoredResult& result : scan.results) EXPECT_TRUE(result.has_checksum);
}

TEST_F(SealTest, NoFlippedBitPasses) {
  for (const Measurement& measurement : {sample_valid(), sample_invalid()}) {
    store_.write(measurement, "k");
    const std::string whole = read_file(path());
    const int fd = ::open(path().c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    size_t passed = 0;
    std::string first;
    for (size_t byte = 0; byte < whole.size(); ++byte) {
      for (int bit = 0; bit < 8; ++bit) {
        const char flipped = static_cast<char>(whole[byte] ^ (1 << bit));
        ASSERT_EQ(::pwrite(fd, &flipped, 1, static_cast<off_t>(byte)), 1);
        if (!refusal().empty()) continue;
        if (passed++ == 0) first = whole.substr(byte - std::min<size_t>(byte, 20), 40);
      }
      ASSERT_EQ(::pwrite(fd, &whole[byte], 1, static_cast<off_t>(byte)), 1);
    }
    ::close(fd);
    EXPECT_EQ(passed, 0U) << "of " << whole.size() * 8 << ", the first about: " << first;
    EXPECT_EQ(refusal(), "");
  }
}

TEST_F(SealTest, NoZeroedOrCutOffPartPasses) {
  store_.write(sample_valid(), "k");
  const std::string whole = read_file(path());
  for (size_t begin = 0; begin < whole.size(); begin += 64) {
    std::string zeroed = whole;
    std::fill_n(zeroed.begin() + static_cast<std::ptrdiff_t>(begin),
                std::min<size_t>(64, whole.size() - begin), '\0');
    put(directory_, kExperiment + "/k.json", zeroed);
    EXPECT_NE(refusal(), "") << begin;
    put(directory_, kExperiment + "/k.json", whole.substr(0, begin));
    EXPECT_NE(refusal(), "") << begin;
  }
}

TEST_F(SealTest, AResultUnderAnotherKeyIsRefused) {
  store_.write(sample_valid(), "k");
  fs::copy_file(path(), path("other"));
  EXPECT_EQ(refusal("other"), "belongs to the key k, and stands under another");
  fs::remove(path());
  EXPECT_EQ(skipped(), "belongs to the key k, and stands under another");
}

TEST_F(SealTest, ASampleOfTheSameKeyIsItsOwn) {
  store_.write(sample_valid(), "k", 2);
  EXPECT_EQ(store_.status_of(kExperiment, "k", 2), Status::kValid);
  ASSERT_THAT(store_.scan().results, SizeIs(1));
}

TEST_F(SealTest, WhatWasEditedIsRefused) {
  const std::vector<std::function<void(Json&)>> edits = {
      [](Json& json) { json["inputs"]["batch_size"] = 2; },
      [](Json& json) { json["measured"]["train_runtime"] = 1.25; },
      [](Json& json) { json["extra"]["loss"][0] = 2.0; },
      [](Json& json) { json["environment"]["host"] = "other"; },
      [](Json& json) { json["experiment_id"] = "other"; },
      [](Json& json) { json["key"] = "other"; },
      [](Json& json) { json["note"] = "mine"; },
      [](Json& json) { json["inputs"].erase("fast_kernels"); },
  };
  for (size_t i = 0; i < edits.size(); ++i) {
    store_.write(sample_valid(), "k");
    edit(edits[i]);
    EXPECT_THAT(refusal(), HasSubstr("is not what the measurement wrote: its checksum is "))
        << "edit " << i;
    EXPECT_THAT(skipped(), HasSubstr("is not what the measurement wrote")) << "edit " << i;
  }
}

TEST_F(SealTest, WhatLostItsChecksumOrItsKeyIsRefused) {
  store_.write(sample_valid(), "k");
  edit([](Json& json) { json.erase("checksum"); });
  EXPECT_EQ(refusal(), "the key checksum is missing, and only results without a key have none");
  store_.write(sample_valid(), "k");
  edit([](Json& json) { json.erase("key"); });
  EXPECT_EQ(refusal(), "the key key is missing");
  store_.write(sample_valid(), "k");
  edit([](Json& json) { json["after"] = 1; });
  EXPECT_THAT(refusal(), HasSubstr("is not what the measurement wrote"));
}

TEST_F(SealTest, SpaceBetweenValuesDoesNotCount) {
  store_.write(sample_valid(), "k");
  const Json json = read_json_file(path().string());
  for (const int indent : {-1, 0, 4}) {
    put(directory_, kExperiment + "/k.json", json.dump(indent));
    EXPECT_EQ(refusal(), "");
  }
}

TEST_F(SealTest, AResultOfAnOlderVersionIsReadAndMarked) {
  Json json = to_json(sample_valid());
  json.erase("key");
  json.erase("checksum");
  put(directory_, kExperiment + "/k.json", json.dump(2));
  EXPECT_EQ(store_.status_of(kExperiment, "k"), Status::kValid);
  const StoreScan scan = store_.scan();
  ASSERT_THAT(scan.results, SizeIs(1));
  EXPECT_FALSE(scan.results[0].has_checksum);
}

// --- one reader for sweep, run and report --------------------------------------------------------

struct Damage {
  const char* name;
  std::function<void(Json&)> make;
};

class OneReaderTest : public SealTest, public testing::WithParamInterface<Damage> {};

// Of a result without a checksum, so that it is the content that is looked at.
TEST_P(OneReaderTest, WhatAReportRefusesSettlesNothing) {
  Json json = to_json(sample_valid());
  json.erase("key");
  json.erase("checksum");
  GetParam().make(json);
  put(directory_, kExperiment + "/k.json", json.dump(2));
  const std::string reason = skipped();
  EXPECT_NE(reason, "");
  EXPECT_EQ(refusal(), reason);
}

INSTANTIATE_TEST_SUITE_P(
    Damages, OneReaderTest,
    testing::Values(
        Damage{"MeasuredIsText", [](Json& j) { j["measured"] = "gone"; }},
        Damage{"MeasuredIsMissing", [](Json& j) { j.erase("measured"); }},
        Damage{"AMeasuredPropertyIsText", [](Json& j) { j["measured"]["train_runtime"] = "x"; }},
        Damage{"ValidWithoutProperties", [](Json& j) { j["measured"] = Json::object(); }},
        Damage{"ValidThatSaysInvalid", [](Json& j) { j["measured"]["is_valid"] = 0; }},
        Damage{"InputsAreAList", [](Json& j) { j["inputs"] = Json::array(); }},
        Damage{"InputsAreMissing", [](Json& j) { j.erase("inputs"); }},
        Damage{"InputsAreEmpty", [](Json& j) { j["inputs"] = Json::object(); }},
        Damage{"ExtraIsMissing", [](Json& j) { j.erase("extra"); }},
        Damage{"EnvironmentIsText", [](Json& j) { j["environment"] = "x"; }},
        Damage{"ReasonIsMissing", [](Json& j) { j.erase("reason"); }},
        Damage{"FailedWithoutReason", [](Json& j) { j["status"] = "failed"; }},
        Damage{"EntityIsANumber", [](Json& j) { j["entity_id"] = 3; }}),
    [](const auto& test) { return std::string(test.param.name); });

// --- text from outside ---------------------------------------------------------------------------

TEST_F(SealTest, TextThatIsNoUtf8IsReplacedAndTheResultIsKept) {
  Measurement measurement = sample_failed();
  measurement.reason->message = "the line '\xff\xfe' cannot be read";
  measurement.reason->evidence = "caf\xe9";
  measurement.reason->log = "r\xe9sultats/x.log";
  measurement.command = "sftbench run caf\xe9.yaml";
  measurement.inputs["model_name"] = "\x80";
  measurement.environment["host"] = "h\xc3";
  const fs::path file = store_.write(measurement, "k");
  EXPECT_EQ(schema_violation(file), "");
  const Json json = read_json_file(file.string());
  EXPECT_EQ(json.at("reason").at("evidence"), "caf\uFFFD");
  EXPECT_EQ(json.at("command"), "sftbench run caf\uFFFD.yaml");
  EXPECT_EQ(json.at("environment").at("host"), "h\uFFFD");
  EXPECT_EQ(store_.status_of(kExperiment, "k"), Status::kFailed);
}

TEST_F(SealTest, TextThatIsNoUtf8IsPrintedAsJson) {
  Measurement measurement = sample_failed();
  measurement.reason->evidence = "caf\xe9";
  for (const OutputFormat format : {OutputFormat::kJson, OutputFormat::kJsonLines}) {
    const Json json = Json::parse(render(measurement, format));
    EXPECT_EQ(json.at("reason").at("evidence"), "caf\uFFFD");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
