// What the ranks of a run say about each other: how evenly they worked, what they waited for, what
// they sent, what each of them holds. From RankReports, each on its own rank's clock; only
// differences of one rank's times are formed, so that clocks of several hosts need not agree.
//
// Ranks train in step: their steps take equally long, and one that is slow shows in the others'
// waiting. A step's busy time is its time less communication_wait_s. A rank is a straggler when
// the median over the measured steps of
//     its busy time / the lower median over ranks of the same step's busy times
// is above kStragglerRatio. Within a step, what is slow for all (long entries, a checkpoint)
// cancels; over steps, the median drops single hiccups and the luck of drawing long entries; the
// lower median is the faster one of two ranks, and stands as long as half of the ranks are sound.
// Below kLeastStepsToJudge steps nobody is named.
#pragma once

#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/measure/run_record.h"

namespace sftbench {

inline constexpr double kStragglerRatio = 1.05;
inline constexpr size_t kLeastStepsToJudge = 3;

// Ranks, in rising order. `warmup_steps` are left out of everything here but the collectives, which
// are counted over all steps.
std::vector<int> stragglers(const std::vector<RankReport>& ranks, int64_t warmup_steps);

// An array with an object for each rank: {rank, node, host, step_seconds: {min, median, max},
// busy_seconds, wait_fraction, tokens, samples, padded_tokens_per_second, memory_bytes: {...}}.
// busy_seconds is a median; bytes that a rank has no device for are null.
Json ranks_json(const std::vector<RankReport>& ranks, int64_t warmup_steps);

// {wait_fraction: {min, mean, max} over ranks, sent_bytes_per_step: of the rank that sends most,
// stragglers, collectives: [{group, operation, calls_per_step, sent_bytes_per_step: {min, max} over
// ranks, seconds_per_step: the longest}]}.
Json communication_json(const std::vector<RankReport>& ranks, int64_t warmup_steps);

}  // namespace sftbench
