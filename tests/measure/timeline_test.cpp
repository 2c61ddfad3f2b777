#include "sftbench/measure/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::DoubleNear;
using testing::ElementsAre;

// Microseconds of moments that are hundreds of seconds after a clock's begin.
constexpr double kRounding = 1e-6;

std::vector<Json> events_of_kind(const Json& trace, const std::string& kind) {
  std::vector<Json> events;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == kind) events.push_back(event);
  }
  return events;
}

TEST(TimelineTest, SpansComeBackFromJsonAsTheyWere) {
  Timeline timeline;
  timeline.add("compute", "layer 0", 1.5, 2.25);
  timeline.add("communication shards", "all_gather \"x\"", 0.1, 1e9 + 0.125);
  const std::vector<TimelineSpan> spans =
      timeline_from_json(Json::parse(to_json(timeline.spans()).dump()));
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].track, "compute");
  EXPECT_EQ(spans[0].name, "layer 0");
  EXPECT_EQ(spans[0].begin_s, 1.5);
  EXPECT_EQ(spans[0].end_s, 2.25);
  EXPECT_EQ(spans[1].name, "all_gather \"x\"");
  EXPECT_EQ(spans[1].begin_s, 0.1);
  EXPECT_EQ(spans[1].end_s, 1e9 + 0.125);
}

TEST(TimelineTest, WhatIsNoTimelineIsRefused) {
  for (const char* text :
       {R"([["compute", "layer", 1]])", R"([["compute", "layer", "1", 2]])", "[1]"}) {
    EXPECT_THROW(timeline_from_json(Json::parse(text)), Json::exception) << text;
  }
}

TEST(TimelineTest, TheFirstSpansAreKeptAndTheRestDropped) {
  Timeline timeline(3);
  for (int i = 0; i < 5; ++i) timeline.add("compute", std::to_string(i), i, i + 1);
  ASSERT_EQ(timeline.spans().size(), 3u);
  EXPECT_EQ(timeline.spans().back().name, "2");
}

TEST(TimelineTest, ThreadsAddAtTheSameTime) {
  Timeline timeline;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&timeline, thread] {
      for (int i = 0; i < 500; ++i)
        timeline.add(std::to_string(thread), std::to_string(i), i, i + 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> different;
  for (const TimelineSpan& span : timeline.spans()) different.insert(span.track + "." + span.name);
  EXPECT_EQ(timeline.spans().size(), 2000u);
  EXPECT_EQ(different.size(), 2000u);
}

// The Trace Event Format: complete events ("X") in microseconds, names of processes and threads as
// metadata ("M").
TEST(TraceEventsTest, EachRankIsAProcessAndEachTrackAThreadOfIt) {
  const Json trace = trace_events(
      {{"rank 0 on a",
        0,
        {{"compute", "layer 0", 100, 100.5}, {"communication", "all_gather", 100.25, 101}}},
       {"rank 1 on a", 0, {{"communication", "all_gather", 100.125, 100.75}}}});
  EXPECT_EQ(trace.at("displayTimeUnit"), "ms");
  std::vector<std::string> names;
  for (const Json& event : events_of_kind(trace, "M")) {
    names.push_back(event["name"].get<std::string>() + " " + event["pid"].dump() + "." +
                    event["tid"].dump() + " " + event["args"]["name"].get<std::string>());
  }
  EXPECT_THAT(names, ElementsAre("process_name 0.0 rank 0 on a", "thread_name 0.0 compute",
                                 "thread_name 0.1 communication", "process_name 1.0 rank 1 on a",
                                 "thread_name 1.0 communication"));
  const std::vector<Json> spans = events_of_kind(trace, "X");
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0]["name"], "layer 0");
  EXPECT_THAT(spans[0]["ts"].get<double>(), DoubleNear(0, kRounding));
  EXPECT_THAT(spans[0]["dur"].get<double>(), DoubleNear(0.5e6, kRounding));
  EXPECT_EQ(spans[1]["tid"], 1);
  EXPECT_THAT(spans[1]["ts"].get<double>(), DoubleNear(0.25e6, kRounding));
  // Another rank of the same machine has the same clock.
  EXPECT_EQ(spans[2]["pid"], 1);
  EXPECT_THAT(spans[2]["ts"].get<double>(), DoubleNear(0.125e6, kRounding));
}

TEST(TraceEventsTest, EachMachinesClockBeginsWithItsFirstSpan) {
  const Json trace = trace_events({{"rank 0 on a", 0, {{"compute", "x", 100, 101}}},
                                   {"rank 1 on b", 1, {{"compute", "x", 7.5, 8}}},
                                   {"rank 2 on b", 1, {{"compute", "x", 7, 8}}}});
  std::vector<double> begins;
  for (const Json& event : events_of_kind(trace, "X")) begins.push_back(event["ts"]);
  EXPECT_THAT(begins, ElementsAre(DoubleNear(0, kRounding), DoubleNear(0.5e6, kRounding),
                                  DoubleNear(0, kRounding)));
}

TEST(TraceEventsTest, ARankWithoutSpansIsThereByName) {
  const Json trace = trace_events({{"rank 0 on a", 0, {}}});
  EXPECT_THAT(events_of_kind(trace, "X"), testing::IsEmpty());
  ASSERT_EQ(events_of_kind(trace, "M").size(), 1u);
  EXPECT_EQ(events_of_kind(trace, "M")[0]["args"]["name"], "rank 0 on a");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
