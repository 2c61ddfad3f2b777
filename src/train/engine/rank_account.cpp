#include "engine/rank_account.h"

#include "engine/host_memory.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "sftbench/measure/event_json.h"
#include "sftbench/measure/expert_load.h"
#include "sftbench/measure/proc.h"

namespace sftbench {
namespace {

std::vector<CollectiveReport> since(
    const std::vector<std::pair<std::string, CommunicationCounters>>& begin,
    const std::vector<std::pair<std::string, CommunicationCounters>>& end) {
  std::vector<CollectiveReport> reports;
  for (size_t group = 0; group < end.size(); ++group) {
    for (size_t i = 0; i < kCollectives; ++i) {
      const CollectiveCounters& before = begin[group].second[i];
      const CollectiveCounters& after = end[group].second[i];
      if (after.calls == before.calls) continue;
      reports.push_back({.group = end[group].first,
                         .operation = to_string(static_cast<Collective>(i)),
                         .calls = after.calls - before.calls,
                         .sent_bytes = after.sent_bytes - before.sent_bytes,
                         .seconds = after.seconds - before.seconds});
    }
  }
  return reports;
}

// Of this thread, where the host waits, and of the device's stream, where that does.
double take_wait_seconds(TrainingRun& run) {
  const double of_rows = run.context ? run.context->take_wait_seconds() : 0;
  return run.parameters->take_wait_seconds() + run.mesh->take_wait_seconds() + of_rows;
}

int64_t first_or(const std::vector<int64_t>& values, int64_t otherwise) {
  return values.empty() ? otherwise : values.front();
}

}  // namespace

RankAccount::RankAccount(TrainingRun& run) : at_begin_(run.mesh->counters()) {
  take_wait_seconds(run);  // of the preparation
  reset_host_memory_peak();
}

void RankAccount::leave_out(TrainingRun& run, const std::function<void()>& work) {
  const Counters before = run.mesh->counters();
  work();
  const Counters after = run.mesh->counters();
  for (size_t group = 0; group < after.size(); ++group) {
    for (size_t i = 0; i < kCollectives; ++i) {
      CollectiveCounters& begin = at_begin_[group].second[i];
      begin.calls += after[group].second[i].calls - before[group].second[i].calls;
      begin.sent_bytes += after[group].second[i].sent_bytes - before[group].second[i].sent_bytes;
      begin.seconds += after[group].second[i].seconds - before[group].second[i].seconds;
    }
  }
  take_wait_seconds(run);
  run.model->take_expert_choices();
}

void RankAccount::end_step(TrainingRun& run, const StepBatches& batches, StepEvent& event) {
  event.end_s = steady_seconds();
  event.epoch = batches.epoch;
  event.samples = batches.samples;
  event.micro_batches = static_cast<int64_t>(batches.micro_batches.size());
  event.tokens = batches.tokens;
  event.attention_flops = batches.attention_flops;
  event.device_allocated_bytes = run.device->allocated_bytes();
  steps_.push_back({.begin_s = event.begin_s,
                    .end_s = event.end_s,
                    .communication_wait_s = take_wait_seconds(run),
                    .samples = batches.own_samples,
                    .tokens = batches.own_tokens,
                    .pause_s = event.pause_s});
  const std::vector<int64_t> choices = run.model->take_expert_choices();
  expert_choices_.insert(expert_choices_.end(), choices.begin(), choices.end());
}

RankReport RankAccount::report(const TrainingRun& run, const RankGroup& group) const {
  const RankInfo& info = group.ranks()[static_cast<size_t>(group.rank())];
  const ParallelMemory memory = run.parameters->memory();
  return {.rank = info.rank,
          .node = info.node,
          .host = info.host,
          .steps = steps_,
          .collectives = since(at_begin_, run.mesh->counters()),
          .parameter_bytes = memory.parameters,
          .gradient_bytes = memory.gradients,
          .optimizer_state_bytes = run.optimizer->state_bytes(),
          .gathered_peak_bytes = memory.gathered_peak,
          .device_peak_allocated_bytes = first_or(run.device->peak_allocated_bytes(), -1),
          .device_peak_reserved_bytes = first_or(run.device->peak_reserved_bytes(), -1),
          .allocation_retries = run.device->allocation_retries(),
          .host_peak_rss_bytes = peak_rss_bytes(),
          .host_peak_tensor_bytes =
              run.device->device().is_cpu() ? host_memory_statistics().peak_allocated_bytes : -1};
}

ExpertLoad RankAccount::expert_load(const TrainingRun& run) const {
  if (expert_choices_.empty()) return {};
  const torch::Tensor sum = torch::tensor(expert_choices_).to(run.device->device());
  run.mesh->world().all_reduce_now(sum);
  const torch::Tensor tokens = sum.cpu();
  const auto* first = tokens.data_ptr<int64_t>();
  const ExpertsConfig& experts = *run.model->config().experts;
  return sftbench::expert_load({.experts = experts.count,
                                .per_token = experts.per_token,
                                .ranks = run.mesh->shape().experts,
                                .tokens = {first, first + tokens.numel()},
                                .steps = static_cast<int64_t>(steps_.size())});
}

std::vector<RankReport> gather_reports(const RankReport& own, RankGroup& group) {
  if (group.world_size() == 1) return {own};
  std::vector<RankReport> reports;
  for (const std::string& text : group.all_gather(json_text(to_json(own)))) {
    reports.push_back(rank_report_from_json(parse_json(text, "a rank's report")));
  }
  return reports;
}

void write_trace(const Timeline& own, RankGroup& group, const std::string& path) {
  std::vector<RankTimeline> ranks;
  for (const std::string& text : group.all_gather(json_text(to_json(own.spans())))) {
    const RankInfo& info = group.ranks()[ranks.size()];
    ranks.push_back({"rank " + std::to_string(info.rank) + " on " + info.host, info.node,
                     timeline_from_json(parse_json(text, "a rank's timeline"))});
  }
  if (group.rank() == 0) write_file_atomic(path, json_text(trace_events(ranks)));
}

}  // namespace sftbench
