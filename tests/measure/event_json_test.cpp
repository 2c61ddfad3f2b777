#include "sftbench/measure/event_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sftbench {
namespace SFTBENCH_FILE {

constexpr const char* kTokens = R"({"padded": 10, "dataset": 9, "loss_bearing": 8, "padding": 1})";

// Read and written again: fields that either way forgets are missing.
TEST(EventJsonTest, EveryFieldOfALoadComesBack) {
  const Json json = Json::parse(R"({"phase": "loading", "weight_bytes": 9007199254740993,
      "weight_bytes_total": 9007199254740995, "entries": 7, "entries_total": 8})");
  const LoadEvent load = load_event_from_json(json);
  EXPECT_EQ(load.weight_bytes, 9007199254740993);
  EXPECT_EQ(load.entries, 7);
  EXPECT_EQ(to_json(load), json);
}

TEST(EventJsonTest, EveryFieldOfABeginComesBack) {
  const Json json = Json::parse(R"({"total_steps": 3, "parameters_total": 9007199254740993,
      "parameters_trainable": 5, "parameters_embedding": 4, "parameters_idle": 2, "compute_dtype": "bfloat16",
      "padding": "longest", "tokenizer": "builtin", "weights_seconds": 0.1,
      "tokenize_seconds": 1e-300, "ranks": 4, "resumed_from": "kept/checkpoint-6",
      "resumed_step": 6, "warnings": ["one", "t\u0000wo \u00e9"], "data": {"entries": 9}})");
  const TrainBegin begin = train_begin_from_json(json);
  EXPECT_EQ(begin.parameters_total, 9007199254740993);
  EXPECT_EQ(begin.ranks, 4);
  EXPECT_EQ(begin.warnings.size(), 2u);
  EXPECT_EQ(to_json(begin), json);
}

TEST(EventJsonTest, EveryFieldOfAStepComesBack) {
  Json json = Json::parse(R"({"step": 7, "epoch": 0.25, "begin_s": 123456.789012345,
      "end_s": 123457.1, "loss": 0.1, "grad_norm": "inf", "update_skipped": true,
      "learning_rate": 1e-5, "samples": 2, "micro_batches": 4, "tokens": null,
      "attention_flops": 1e15, "device_allocated_bytes": 5, "pause_s": 0.75,
      "phases": {"data_s": 0.01, "forward_s": 0.2, "backward_s": 0.4, "update_s": 0.1}})");
  json["tokens"] = Json::parse(kTokens);
  const StepEvent event = step_event_from_json(json);
  EXPECT_EQ(event.begin_s, 123456.789012345);
  EXPECT_EQ(event.grad_norm, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(event.update_skipped);
  EXPECT_EQ(event.tokens.loss_bearing, 8);
  EXPECT_EQ(to_json(event), json);
}

TEST(EventJsonTest, EveryFieldOfAnEvaluationComesBack) {
  const Json json = Json::parse(R"({"step": 7, "epoch": 0.25, "loss": 2.5, "token_loss": 2.25,
      "entries": 11, "tokens": 167, "seconds": 0.125})");
  EXPECT_EQ(to_json(evaluation_event_from_json(json)), json);
}

TEST(EventJsonTest, EveryFieldOfAnEndComesBack) {
  Json json = Json::parse(R"({"steps": 7, "best_step": 3, "best_loss": 0.5,
      "saved": [{"path": "kept/checkpoint-7", "format": "SHARDED_STATE_DICT", "step": 7,
                 "bytes": 8192, "seconds": 0.125}],
      "unsaved": [{"path": "kept/model", "step": 7, "problem": "cannot write: no room"}],
      "ranks": [{"rank": 1, "node": 2, "host": "n2",
                 "steps": [{"begin_s": 1.5, "end_s": 2.5, "communication_wait_s": 0.25,
                            "samples": 3, "tokens": null, "pause_s": 0.5}],
                 "collectives": [{"group": "shards", "operation": "all_gather", "calls": 6,
                                  "sent_bytes": 4096, "seconds": 0.5}],
                 "parameter_bytes": 11, "gradient_bytes": 12, "optimizer_state_bytes": 13,
                 "gathered_peak_bytes": 14, "device_peak_allocated_bytes": 15,
                 "device_peak_reserved_bytes": 16, "allocation_retries": 18,
                 "host_peak_rss_bytes": 17, "host_peak_tensor_bytes": 19}],
      "device_peak_allocated_bytes": [1, 2], "device_peak_reserved_bytes": [3],
      "host_peak_rss_bytes": [],
      "experts": {"count": 2, "per_token": 1, "ranks": 2, "tokens_per_expert": [8.5],
                  "imbalance": [1.5], "worst_imbalance": [1.75], "busiest_share": [0.875],
                  "rank_imbalance": [1.25], "tokens_by_layer": [[1, 2], [3, 0]]},
      "generated": [{"prompt": "Q:", "expected": " A", "before": "", "after": " A."}]})");
  json["ranks"][0]["steps"][0]["tokens"] = Json::parse(kTokens);
  const TrainEnd end = train_end_from_json(json);
  EXPECT_EQ(end.ranks.at(0).collectives.at(0).operation, "all_gather");
  EXPECT_EQ(end.ranks.at(0).steps.at(0).tokens.padded, 10);
  EXPECT_EQ(to_json(end), json);
  EXPECT_EQ(to_json(rank_report_from_json(json["ranks"][0])), json["ranks"][0]);
}

TEST(EventJsonTest, NumbersThatAreNotFiniteComeBackThroughText) {
  StepEvent event;
  event.loss = std::numeric_limits<double>::quiet_NaN();
  event.grad_norm = -std::numeric_limits<double>::infinity();
  const StepEvent read = step_event_from_json(Json::parse(to_json(event).dump()));
  EXPECT_TRUE(std::isnan(read.loss));
  EXPECT_EQ(read.grad_norm, event.grad_norm);
}

TEST(EventJsonTest, WhatIsNoEventIsAnError) {
  EXPECT_THROW(step_event_from_json(Json::parse("{}")), InputError);
  EXPECT_THROW(train_begin_from_json(Json::parse("[1]")), InputError);
  Json json = to_json(TrainEnd());
  json["ranks"] = 3;
  EXPECT_THROW(train_end_from_json(json), InputError);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
