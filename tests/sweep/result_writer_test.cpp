// Results are written on threads of their own: nothing that a measurement holds may end these.
#include "sweep/result_writer.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <fstream>
#include <memory>

#include "results/sample_measurement.h"
#include "results/temporary_folder.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

class Granted : public Claim {
 public:
  std::vector<std::filesystem::path> files() const override { return {}; }
  void publish(const std::filesystem::path& path, std::string_view content) override {
    write_file_atomic(path, content);
  }
};

class Lost : public Granted {
 public:
  void publish(const std::filesystem::path&, std::string_view) override {
    throw ClaimLost("node7 has it");
  }
};

std::vector<Ended> written(ResultWriter& writer, Measurement measurement,
                           std::shared_ptr<Claim> claim = std::make_shared<Granted>()) {
  Cell cell;
  cell.key = "k";
  writer.write({cell, std::move(measurement), std::move(claim), 1.0, {}, {}});
  pollfd ready = {writer.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 60000), 1);
  return writer.take_written();
}

TEST(ResultWriterTest, TextThatIsNoUtf8IsWritten) {
  const TemporaryFolder folder;
  const ResultStore store(folder.path());
  ResultWriter writer(store);
  Measurement measurement = sample_failed();
  measurement.reason->evidence = "caf\xe9";
  const std::vector<Ended> ended = written(writer, measurement);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended.front().problem, "");
  EXPECT_EQ(store.status_of(measurement.experiment, "k"), Status::kFailed);
}

TEST(ResultWriterTest, NothingIsWrittenWithoutTheClaim) {
  const TemporaryFolder folder;
  const ResultStore store(folder.path());
  ResultWriter writer(store);
  const Measurement measurement = sample_failed();
  const std::vector<Ended> ended = written(writer, measurement, std::make_shared<Lost>());
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended.front().lost, "node7 has it");
  EXPECT_EQ(ended.front().problem, "");
  EXPECT_FALSE(store.status_of(measurement.experiment, "k"));
}

TEST(ResultWriterTest, WhatCannotBeWrittenIsSaid) {
  const TemporaryFolder folder;
  const ResultStore store(folder.path() / "file");
  std::ofstream(folder.path() / "file") << "in the way";
  ResultWriter writer(store);
  const std::vector<Ended> ended = written(writer, sample_failed());
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_NE(ended.front().problem, "");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
