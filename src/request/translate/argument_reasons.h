// Why keys change nothing here, and what works instead of others: what tables and readers say.
#pragma once

namespace sftbench {

inline constexpr const char* kOwnRanks = "the launcher, or --ranks, says which ranks there are";
inline constexpr const char* kOwnReading = "entries are tokenized before the first step";
inline constexpr const char* kOtherTracker =
    "--track tensorboard=DIR writes what other trackers import";
inline constexpr const char* kOtherData = "--data FILE, which takes its place";
inline constexpr const char* kSupervisedOnly = "supervised fine-tuning alone";

}  // namespace sftbench
