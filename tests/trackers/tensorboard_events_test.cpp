// Event files against TensorBoard's own writer (tests/reference/event_files.py), byte by byte.
#include "trackers/tensorboard_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "sftbench/base/file.h"
#include "temporary_file.h"
#include "trackers/record.h"
#include "trackers/tensorboard.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::StartsWith;

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

// What older files have from the step behind the checkpoint on does not count.
TEST(TensorboardTrackerTest, GoesOnBehindTheCheckpointAndPutsFiguresAtTheLastStep) {
  const fs::path folder = temporary_file("folder");
  TrackedRun run;
  run.name = "name";
  TensorboardTracker tracker(folder.string(), run);
  TrainBegin begin;
  begin.resumed_step = 5;
  tracker.begin(begin, 1);
  tracker.add({{PointGroup::kTraining, "loss", 7, 0, 1, 0.5},
               {PointGroup::kEvaluation, "loss", 7, 0, 1, 0.25},
               {PointGroup::kSystem, "cpu_percent", 90, 0, 1, 50}});
  EXPECT_EQ(tracker.written(), 0);
  tracker.flush();
  EXPECT_EQ(tracker.written(), 3);
  auto measurement = std::make_shared<Measurement>();
  measurement->status = Status::kValid;
  measurement->measured = {{"train_runtime", 5.5}};
  tracker.end({measurement, 2, 0});
  EXPECT_EQ(tracker.written(), 3) << "figures were not given to it";
  const fs::path file = fs::directory_iterator(folder / tensorboard_folder(run))->path();
  const std::string text = read_file(file);
  EXPECT_THAT(text, StartsWith(version_event(1) + session_start_event(1, 6)));
  EXPECT_THAT(
      text, EndsWith(scalar_event(1, 7, "train/loss", 0.5) + scalar_event(1, 7, "eval/loss", 0.25) +
                     scalar_event(1, 90, "system/cpu_percent", 50) +
                     scalar_event(2, 7, "measured/train_runtime", 5.5) + run_end_event(2, true)));
}

// One without training, as of a cell that fails before it.
TEST(TensorboardTrackerTest, PutsFiguresOfARunWithoutStepsAtItsCheckpoint) {
  const fs::path folder = temporary_file("folder");
  const TrackedRun run;
  TensorboardTracker tracker(folder.string(), run);
  TrainBegin begin;
  begin.resumed_step = 5;
  tracker.begin(begin, 1);
  auto measurement = std::make_shared<Measurement>();
  measurement->status = Status::kFailed;
  measurement->measured = {{"train_runtime", 5.5}};
  tracker.end({measurement, 2, 0});
  const fs::path file = fs::directory_iterator(folder / tensorboard_folder(run))->path();
  EXPECT_THAT(read_file(file), EndsWith(scalar_event(2, 5, "measured/train_runtime", 5.5) +
                                        run_end_event(2, false)));
}

TEST(TensorboardFolderTest, FitsAFileNameAndBeginsWithTheName) {
  TrackedRun run;
  run.name = "0123abcd.2";
  run.entity_id = "model_name.a/b-\xC3\xA9";
  EXPECT_EQ(tensorboard_folder(run), "0123abcd.2-model_name.a_b-\xC3\xA9");
  run.entity_id = "a\\b\x1F\x7F c~";
  EXPECT_EQ(tensorboard_folder(run), "0123abcd.2-a_b__ c~");
  run.entity_id = std::string(189, 'x');
  EXPECT_EQ(tensorboard_folder(run), "0123abcd.2-" + std::string(189, 'x')) << "200 bytes fit";
  run.entity_id = std::string(190, 'x');
  EXPECT_EQ(tensorboard_folder(run), "0123abcd.2-" + std::string(189, 'x'));
  run.entity_id = std::string(188, 'x') + "\xC3\xA9";  // the cut would be within the character
  EXPECT_EQ(tensorboard_folder(run), "0123abcd.2-" + std::string(188, 'x'));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
