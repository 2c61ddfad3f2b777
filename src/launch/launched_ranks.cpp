#include "sftbench/launch/launched_ranks.h"

#include <map>

#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/plan/classify_error.h"

namespace sftbench {
namespace {

std::string name_of(const RankInfo& rank) {
  return "rank " + std::to_string(rank.rank) + " on " + rank.host;
}

std::string record_key(size_t rank) {
  return "record of rank " + std::to_string(rank);
}

using Figure = std::optional<double> GpuReading::*;
constexpr Figure kGpuFigures[] = {&GpuReading::utilization_percent, &GpuReading::memory_percent,
                                  &GpuReading::power_watts,         &GpuReading::power_limit_watts,
                                  &GpuReading::temperature_celsius, &GpuReading::energy_joules};

// [time, cpu, memory, [a GPU's figures, null where it has none], ...]
Json to_json(const SystemReading& reading) {
  Json row = {reading.time_s, reading.cpu_seconds, reading.memory_percent};
  for (const GpuReading& gpu : reading.gpus) {
    Json figures = Json::array();
    for (const Figure figure : kGpuFigures)
      figures.push_back(gpu.*figure ? Json(*(gpu.*figure)) : Json());
    row.push_back(std::move(figures));
  }
  return row;
}

SystemReading reading_from_json(const Json& row) {
  SystemReading reading;
  reading.time_s = row.at(0);
  reading.cpu_seconds = row.at(1);
  reading.memory_percent = row.at(2);
  for (size_t i = 3; i < row.size(); ++i) {
    GpuReading& gpu = reading.gpus.emplace_back();
    for (size_t f = 0; f < std::size(kGpuFigures); ++f) {
      if (const Json& value = row[i].at(f); value.is_number())
        gpu.*kGpuFigures[f] = value.get<double>();
    }
  }
  return reading;
}

Json to_json(const RankRecord& record) {
  Json samples = Json::array();
  for (const SystemReading& reading : record.samples) samples.push_back(to_json(reading));
  return {{"node", record.node},
          {"samples", std::move(samples)},
          {"transport", to_json(record.transport)}};
}

RankRecord record_from_json(const Json& json) {
  RankRecord record;
  record.node = json.at("node");
  for (const Json& row : json.at("samples")) record.samples.push_back(reading_from_json(row));
  record.transport = nccl_transport_from_json(json.at("transport"));
  return record;
}

class EngineInGroup : public Engine {
 public:
  EngineInGroup(Engine& engine, LaunchedRanks& ranks) : engine_(engine), ranks_(ranks) {}

  using Engine::train;
  void train(const TrainingJob& job, RankGroup& /*alone*/,
             const std::vector<TrainObserver*>& observers,
             const std::function<bool()>& interrupted) override {
    ranks_.together(job, [&] { engine_.train(job, ranks_.group(), observers, interrupted); });
  }

  Json environment() const override { return engine_.environment(); }

 private:
  Engine& engine_;
  LaunchedRanks& ranks_;
};

std::vector<std::string> with_another_job(const std::vector<std::string>& told,
                                          const std::vector<RankInfo>& ranks) {
  std::vector<std::string> names;
  for (size_t rank = 1; rank < told.size(); ++rank) {
    if (told[rank] != told.front()) names.push_back(name_of(ranks[rank]));
  }
  return names;
}

}  // namespace

void LaunchedRanks::agree(const TrainingJob& job, const std::string& problem) {
  const std::vector<RankInfo>& ranks = group_->ranks();
  const std::vector<std::string> problems = group_->all_gather(problem);
  std::vector<Diagnostic> diagnostics;
  for (size_t rank = 0; rank < problems.size(); ++rank) {
    // What all of them stumble over is said once.
    if (problems[rank].empty() || (rank > 0 && problems[rank] == problems[0])) continue;
    diagnostics.push_back({{}, 0, name_of(ranks[rank]), problems[rank], {}, {}});
  }
  if (!diagnostics.empty()) throw InputError(diagnostics);
  const std::vector<std::string> others =
      with_another_job(group_->all_gather(digest_of(job)), ranks);
  if (!others.empty()) {
    throw InputError({{{},
                       0,
                       join(others),
                       "another job than rank 0's",
                       "the same arguments, files and settings on all ranks",
                       {}}});
  }
}

void LaunchedRanks::together(const TrainingJob& job, const std::function<void()>& work) {
  try {
    work();
    group_->all_gather({});
  } catch (const std::exception& error) {
    const ErrorClass own = classify_exception(error, job);
    throw error_of(group_->fail({group_->rank(), own.code, own.message, own.evidence}),
                   group_->ranks());
  }
}

std::unique_ptr<Engine> LaunchedRanks::engine_in_group(Engine& engine) {
  return std::make_unique<EngineInGroup>(engine, *this);
}

void LaunchedRanks::tell(const RankRecord& record) {
  group_->set(record_key(static_cast<size_t>(group_->rank())), to_json(record).dump());
}

std::vector<RankRecord> LaunchedRanks::hear() {
  std::vector<RankRecord> records;
  for (size_t rank = 1; rank < group_->ranks().size(); ++rank) {
    records.push_back(record_from_json(Json::parse(group_->get(record_key(rank)))));
  }
  return records;
}

int LaunchedRanks::leave(int exit_status) {
  const int status = std::stoi(group_->all_gather(std::to_string(exit_status)).front());
  group_->leave();
  return status;
}

std::string digest_of(const TrainingJob& job) {
  TrainingJob anywhere = job;
  anywhere.data.path.clear();
  anywhere.data.token_cache_directory.clear();
  anywhere.model.weights_directory.clear();
  anywhere.model.tokenizer_directory.clear();
  return digest(sftbench::to_json(anywhere).dump());
}

}  // namespace sftbench
