// Event files against TensorBoard's own writer (tests/reference/event_files.py), byte by byte.
#include "trackers/tensorboard_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "sftbench/base/file.h"
#include "trackers/record.h"
#include "trackers/tensorboard.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::EndsWith;

// RFC 3720, appendix B.4.
TEST(Crc32cTest, IsCastagnolis) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

// protobuf.dev "Encoding": 150 of field 1 is 08 96 01.
TEST(ProtobufTest, NumbersHaveSevenBitsAByte) {
  const auto bytes = [](int64_t value) { return Protobuf().add_int(1, value).bytes(); };
  EXPECT_EQ(bytes(150), "\x08\x96\x01");
  EXPECT_EQ(bytes(0), std::string("\x08\x00", 2));
  EXPECT_EQ(bytes(127), "\x08\x7F");
  EXPECT_EQ(bytes(128), "\x08\x80\x01");
  EXPECT_EQ(bytes(16384), "\x08\x80\x80\x01");
  EXPECT_EQ(bytes(-1), "\x08" + std::string(9, '\xFF') + "\x01");
}

TEST(TensorboardEventsTest, AreWhatTensorboardsWriterWrites) {
  const double at = 1700000000.25;
  const Json inputs = {{"batch_size", 4},
                       {"fast_moe", false},
                       {"learning_rate", 1e-05},
                       {"model_name", "smollm2-135m"},
                       {"r", nullptr}};
  const std::string written =
      version_event(at) + session_start_event(at, 1) +
      experiment_event(at, inputs, {"measured/train_runtime", "measured/is_valid"}) +
      run_inputs_event(at, inputs, "0123abcd") + scalar_event(at + 1, 1, "train/loss", 11.33) +
      scalar_event(at + 2, 300, "train/grad_norm", INFINITY) +
      scalar_event(at + 3, 0, "system/cpu_percent", 0.0) + run_end_event(at + 4, true);
  EXPECT_EQ(written, read_file(std::string(SFTBENCH_TEST_DATA) + "/tensorboard/events.bin"));
}

TEST(TensorboardTrackerTest, TellsHowTheRunEnded) {
  const fs::path folder =
      fs::temp_directory_path() / ("sftbench-tensorboard-" + std::to_string(::getpid()));
  const auto written = [&](std::shared_ptr<const Measurement> measurement) {
    fs::remove_all(folder);
    TrackedRun run;
    run.name = "name";
    TensorboardTracker tracker(folder.string(), run);
    tracker.begin({}, 1);
    tracker.end({std::move(measurement), 2, 0});
    EXPECT_EQ(tracker.written(), 0);
    const fs::path file = fs::recursive_directory_iterator(folder)->path();
    return read_file(fs::is_directory(file) ? fs::directory_iterator(file)->path() : file);
  };
  auto valid = std::make_shared<Measurement>(), failed = std::make_shared<Measurement>();
  valid->status = Status::kValid;
  failed->status = Status::kFailed;
  EXPECT_THAT(written(valid), EndsWith(run_end_event(2, true)));
  EXPECT_THAT(written(failed), EndsWith(run_end_event(2, false)));
  EXPECT_THAT(written(nullptr), EndsWith(run_end_event(2, false))) << "it was interrupted";
}

TEST(TensorboardFolderTest, FitsAFileNameAndBeginsWithTheName) {
  TrackedRun run;
  run.name = "0123abcd.2";
  run.entity_id = "model_name.a/b-\xC3\xA9";
  EXPECT_EQ(tensorboard_folder(run), "0123abcd.2-model_name.a_b-\xC3\xA9");
  run.entity_id = std::string(188, 'x') + "\xC3\xA9";  // the cut would be within the character
  EXPECT_EQ(tensorboard_folder(run), "0123abcd.2-" + std::string(188, 'x'));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
