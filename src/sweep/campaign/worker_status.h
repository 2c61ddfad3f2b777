// Exit statuses of `sftbench sweep --worker`, and of a command that waits for workers.
#pragma once

namespace sftbench {

constexpr int kUsageStatus = 2;
constexpr int kFailedStatus = 4;
constexpr int kRemainsStatus = 6;  // cells remain that this worker cannot measure
constexpr int kInterruptedStatus = 130;

// Of a worker that was lost, where its node or the engine says nothing else.
constexpr int kMostRestarts = 3;

}  // namespace sftbench
