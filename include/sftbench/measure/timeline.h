// What a rank did when: spans on tracks ("compute", "communication shards"), for a trace that
// chrome://tracing and ui.perfetto.dev show. Thread-safe. Seconds are steady_seconds(), which the
// processes of one machine share; between machines the clocks' difference is not known, and each
// machine's spans begin at its own first step.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench {

struct TimelineSpan {
  std::string track;
  std::string name;
  double begin_s = 0;
  double end_s = 0;
};

class Timeline {
 public:
  // Spans beyond `most` are dropped: the first steps tell, and a trace of hours could not be shown.
  explicit Timeline(size_t most = 20000) : most_(most) {}

  void add(const std::string& track, const std::string& name, double begin_s, double end_s);

  // In the order in which they ended.
  std::vector<TimelineSpan> spans() const;

 private:
  size_t most_;
  mutable std::mutex mutex_;
  std::vector<TimelineSpan> spans_;
};

Json to_json(const std::vector<TimelineSpan>& spans);
std::vector<TimelineSpan> timeline_from_json(const Json& json);

// One rank's spans under the name that the trace shows for it.
struct RankTimeline {
  std::string name;  // "rank 2 on host n1"
  int node = 0;
  std::vector<TimelineSpan> spans;
};

// The Trace Event Format's JSON: a process for each rank, a thread for each track.
Json trace_events(const std::vector<RankTimeline>& ranks);

}  // namespace sftbench
