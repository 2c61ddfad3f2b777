// Results are written on threads of their own: nothing that a measurement holds may end these.
#include "sweep/result_writer.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <fstream>

#include "results/sample_measurement.h"
#include "results/temporary_folder.h"

namespace sftbench {
namespace {

std::vector<Ended> written(ResultWriter& writer, Measurement measurement) {
  Cell cell;
  cell.key = "k";
  writer.write({cell, std::move(measurement), nullptr, 1.0, {}});
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

TEST(ResultWriterTest, WhatCannotBeWrittenIsSaid) {
  const TemporaryFolder folder;
  const ResultStore store(folder.path() / "file");
  std::ofstream(folder.path() / "file") << "in the way";
  ResultWriter writer(store);
  const std::vector<Ended> ended = written(writer, sample_failed());
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_NE(ended.front().problem, "");
}

}  // namespace
}  // namespace sftbench
