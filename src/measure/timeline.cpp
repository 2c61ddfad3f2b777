#include "sftbench/measure/timeline.h"

#include <algorithm>
#include <limits>
#include <map>

namespace sftbench {
namespace {

constexpr double kMicroseconds = 1e6;

// The first moment of each node's ranks.
std::map<int, double> first_moments(const std::vector<RankTimeline>& ranks) {
  std::map<int, double> first_s;
  for (const RankTimeline& rank : ranks) {
    for (const TimelineSpan& span : rank.spans) {
      const auto [found, added] = first_s.try_emplace(rank.node, span.begin_s);
      if (!added) found->second = std::min(found->second, span.begin_s);
    }
  }
  return first_s;
}

Json metadata(const char* kind, size_t process, size_t thread, const std::string& name) {
  return {
      {"ph", "M"}, {"name", kind}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

void Timeline::add(const std::string& track, const std::string& name, double begin_s,
                   double end_s) {
  const std::lock_guard lock(mutex_);
  if (spans_.size() < most_) spans_.push_back({track, name, begin_s, end_s});
}

std::vector<TimelineSpan> Timeline::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

Json to_json(const std::vector<TimelineSpan>& spans) {
  Json rows = Json::array();
  for (const TimelineSpan& span : spans) {
    rows.push_back({span.track, span.name, span.begin_s, span.end_s});
  }
  return rows;
}

std::vector<TimelineSpan> timeline_from_json(const Json& json) {
  std::vector<TimelineSpan> spans;
  for (const Json& row : json) {
    spans.push_back({row.at(0).get<std::string>(), row.at(1).get<std::string>(),
                     row.at(2).get<double>(), row.at(3).get<double>()});
  }
  return spans;
}

Json trace_events(const std::vector<RankTimeline>& ranks) {
  const std::map<int, double> first_s = first_moments(ranks);
  Json events = Json::array();
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    events.push_back(metadata("process_name", rank, 0, ranks[rank].name));
    std::map<std::string, size_t> threads;
    for (const TimelineSpan& span : ranks[rank].spans) {
      const auto [thread, added] = threads.try_emplace(span.track, threads.size());
      if (added) events.push_back(metadata("thread_name", rank, thread->second, span.track));
      events.push_back({{"ph", "X"},
                        {"name", span.name},
                        {"pid", rank},
                        {"tid", thread->second},
                        {"ts", (span.begin_s - first_s.at(ranks[rank].node)) * kMicroseconds},
                        {"dur", (span.end_s - span.begin_s) * kMicroseconds}});
    }
  }
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
}

}  // namespace sftbench
