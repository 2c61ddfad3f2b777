// CSV of spaces with several experiments, byte for byte what ado of both generations writes for the
// same measurements (tests/reference/ado_files.py: its own store, its own tables).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "results/result_files.h"
#include "results/sample_measurement.h"
#include "sftbench/base/file.h"
#include "sftbench/results/report.h"
#include "sftbench/results/store.h"
#include "sftbench/space/space.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;

const std::string kGolden = std::string(SFTBENCH_TEST_DATA) + "/ado/";

Measurement measured(const MeasurementRequest& request, const Json& row, int second) {
  Measurement m = sample_begun();
  m.experiment = request.experiment;
  m.experiment_id = request.experiment_id;
  m.entity_id = request.entity_id;
  m.entity = request.entity;
  m.inputs = Json::object();
  std::map<std::string, Json> sorted;
  for (const auto& [name, value] : request.inputs.items()) sorted[name] = value;
  for (const auto& [name, value] : sorted) m.inputs[name] = value;
  const std::string status = row.at("status");
  if (status == "valid") {
    m.status = Status::kValid;
    for (const auto& [name, value] : row.at("measured").items()) m.measured[name] = value;
  } else if (status == "invalid") {
    set_outcome(m, Status::kInvalid, {ReasonCode::kOomGpu, "made up", {}, {}});
  } else {
    set_outcome(m, Status::kFailed, {ReasonCode::kData, "made up", {}, {}});
  }
  char time[40];
  std::snprintf(time, sizeof time, "2026-11-21T07:%02d:%02d.000Z", second / 60, second % 60);
  m.started_at = time;
  return m;
}

// The results of one campaign, under keys whose order says nothing.
fs::path results_of(const Json& campaign, AdoIds ids) {
  SpaceOptions options;
  options.ids = ids;
  const Space space =
      parse_space(campaign.at("text").get<std::string>(), "s.yaml", Catalog::shipped(), options);
  const fs::path directory = fresh_results("ado_" + campaign.at("name").get<std::string>());
  int second = 0;
  for (const Json& row : campaign.at("measurements")) {
    const MeasurementRequest request =
        make_request(space.entity(row.at("entity").get<int64_t>()),
                     space.experiments.at(row.at("experiment").get<size_t>()));
    put(directory, measured(request, row, second),
        "key" + std::to_string((second * 37 + 11) % 101));
    ++second;
  }
  return directory;
}

std::string csv(const StoreScan& scan, bool observed) {
  AdoLayout layout;
  layout.observed = observed;
  layout.method = Aggregate::kList;  // ado's own: every sample
  std::string text;
  write_csv(ado_table(scan, layout), [&](std::string_view piece) { text += piece; });
  return text;
}

class AdoCsvTest : public testing::TestWithParam<std::string> {};

TEST_P(AdoCsvTest, IsWhatAdoWrites) {
  const Json campaigns = read_json_file(kGolden + "results.json");
  ASSERT_GE(campaigns.size(), 7U);
  for (const Json& campaign : campaigns) {
    const std::string name = campaign.at("name");
    const fs::path directory = results_of(campaign, *ado_ids_named(GetParam()));
    const StoreScan scan = ResultStore(directory).scan();
    ASSERT_TRUE(scan.skipped.empty()) << name << ": " << scan.skipped.front().reason;
    ASSERT_EQ(scan.results.size(), campaign.at("measurements").size());
    const std::string golden = kGolden + "csv-" + GetParam() + "-" + name;
    EXPECT_EQ(csv(scan, false), read_file(golden + "-target.csv")) << name;
    EXPECT_EQ(csv(scan, true), read_file(golden + "-observed.csv")) << name;
    fs::remove_all(directory);
  }
}

INSTANTIATE_TEST_SUITE_P(Generations, AdoCsvTest, testing::Values("1.7", "1.8"),
                         [](const auto& test) { return test.param == "1.7" ? "Ado17" : "Ado18"; });

// Some measurements of an entity under old ids, the others under new ones: one entity, one row.
TEST(AdoCsvTest, GenerationsMeetInOneRow) {
  const Json campaigns = read_json_file(kGolden + "results.json");
  const Json& campaign = campaigns.at(0);
  const fs::path directory = fresh_results("ado_both");
  SpaceOptions old;
  old.ids = AdoIds::k17;
  const std::string text = campaign.at("text");
  const Space now = parse_space(text, "s.yaml", Catalog::shipped(), {});
  const Space before = parse_space(text, "s.yaml", Catalog::shipped(), old);
  const Json& rows = campaign.at("measurements");
  put(directory, measured(make_request(now.entity(0), now.experiments[0]), rows[0], 0), "a");
  Measurement second = measured(make_request(before.entity(0), before.experiments[1]), rows[1], 1);
  second.entity = Json::object();  // a file of an older version
  put(directory, second, "b");
  const StoreScan scan = ResultStore(directory).scan();
  AdoLayout layout;
  layout.observed = true;
  const ReportTable table = ado_table(scan, layout);
  EXPECT_EQ(table.rows, 1U);
  fs::remove_all(directory);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
