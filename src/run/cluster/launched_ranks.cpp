#include "sftbench/cluster/launched_ranks.h"

#include <algorithm>

#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// Rank 0 has a measurement to write, where a file system may be slow.
constexpr double kOutlastSeconds = 10;

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

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

std::optional<double> or_nothing(const Json& value) {
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

// [time, cpu, memory, the host's memory, what threads ran, what they waited, CPU time of the
// host, [a GPU's figures], ...], null where there is none
Json to_json(const SystemReading& reading) {
  Json row = {reading.time_s,
              reading.cpu_seconds,
              reading.memory_percent,
              reading.host_memory_percent,
              or_null(reading.threads_ran_s),
              or_null(reading.threads_waited_s),
              or_null(reading.host_cpu_seconds)};
  for (const GpuReading& gpu : reading.gpus) {
    Json figures = Json::array();
    for (const Figure figure : kGpuFigures) figures.push_back(or_null(gpu.*figure));
    row.push_back(std::move(figures));
  }
  return row;
}

SystemReading reading_from_json(const Json& row) {
  SystemReading reading;
  reading.time_s = row.at(0);
  reading.cpu_seconds = row.at(1);
  reading.memory_percent = row.at(2);
  reading.host_memory_percent = row.at(3);
  reading.threads_ran_s = or_nothing(row.at(4));
  reading.threads_waited_s = or_nothing(row.at(5));
  reading.host_cpu_seconds = or_nothing(row.at(6));
  for (size_t i = 7; i < row.size(); ++i) {
    GpuReading& gpu = reading.gpus.emplace_back();
    for (size_t f = 0; f < std::size(kGpuFigures); ++f) {
      gpu.*kGpuFigures[f] = or_nothing(row[i].at(f));
    }
  }
  return reading;
}

Json to_json(const RankRecord& record) {
  Json samples = Json::array();
  for (const SystemReading& reading : record.samples) samples.push_back(to_json(reading));
  return {{"node", record.node}, {"samples", std::move(samples)}};
}

RankRecord record_from_json(const Json& json) {
  RankRecord record;
  record.node = json.at("node");
  for (const Json& row : json.at("samples")) record.samples.push_back(reading_from_json(row));
  return record;
}

class EngineInGroup : public Engine {
 public:
  EngineInGroup(Engine& engine, LaunchedRanks& ranks) : engine_(engine), ranks_(ranks) {}

  void train_job(const TrainingJob& job, RankGroup& /*alone*/,
                 const std::vector<TrainObserver*>& observers,
                 const std::function<bool()>& interrupted) override {
    ranks_.together(
        job, [&] { engine_.train_job(job, ranks_.group(), observers, interrupted); }, interrupted);
  }

  Json environment() const override { return engine_.environment(); }

 private:
  Engine& engine_;
  LaunchedRanks& ranks_;
};

// What a rank tells before training.
struct Opening {
  std::optional<ErrorClass> ending;
  std::string digest;
};

std::string encode(const Opening& opening) {
  Json json = {{"digest", opening.digest}};
  if (opening.ending) {
    json["code"] = opening.ending->code;
    json["message"] = opening.ending->message;
    json["evidence"] = opening.ending->evidence;
  }
  return json_text(json);
}

Opening decode(const std::string& text) {
  const Json json = Json::parse(text);
  Opening opening = {{}, json.at("digest")};
  if (json.contains("code")) {
    const auto told = [&json](const char* key) {
      return terminal_text(json.at(key).get<std::string>());
    };
    opening.ending = ErrorClass{json.at("code"), told("message"), told("evidence")};
  }
  return opening;
}

void refuse_different_endings(const std::vector<Opening>& openings,
                              const std::vector<RankInfo>& ranks) {
  for (size_t rank = 0; rank < openings.size(); ++rank) {
    const std::optional<ErrorClass>& ending = openings[rank].ending;
    if (!ending) continue;
    const bool of_all = std::all_of(openings.begin(), openings.end(), [](const Opening& opening) {
      return opening.ending.has_value();
    });
    if (of_all) return;
    throw error_of({static_cast<int>(rank), ending->code, ending->message, ending->evidence},
                   ranks);
  }
}

void refuse_different_jobs(const std::vector<Opening>& openings,
                           const std::vector<RankInfo>& ranks) {
  std::vector<std::string> others;
  for (size_t rank = 1; rank < openings.size(); ++rank) {
    if (openings[rank].digest != openings[0].digest) others.push_back(name_of(ranks[rank]));
  }
  if (others.empty()) return;
  throw InputError({{{},
                     0,
                     join(others),
                     "another job than rank 0's",
                     "the same arguments, files and settings on all ranks",
                     {}}});
}

}  // namespace

std::optional<ErrorClass> LaunchedRanks::agree(const TrainingJob& job,
                                               const std::optional<ErrorClass>& ending) {
  std::vector<Opening> openings;
  for (const std::string& told : group_->all_gather(encode({ending, digest_of(job)}))) {
    openings.push_back(decode(told));
  }
  refuse_different_endings(openings, group_->ranks());
  refuse_different_jobs(openings, group_->ranks());
  return openings.front().ending;
}

void LaunchedRanks::together(const TrainingJob& job, const std::function<void()>& work,
                             const std::function<bool()>& interrupted) {
  try {
    work();
    group_->all_gather({});
  } catch (const std::exception& error) {
    const ErrorClass own = classify_exception(error, job);
    throw error_of(
        group_->fail({group_->rank(), own.code, own.message, own.evidence, interrupted()}),
        group_->ranks());
  }
}

std::optional<RankFailure> LaunchedRanks::failure() const {
  const std::optional<RankFailure> failure = group_->failure();
  return failure && !failure->asked ? failure : std::nullopt;
}

std::unique_ptr<Engine> LaunchedRanks::engine_in_group(Engine& engine) {
  return std::make_unique<EngineInGroup>(engine, *this);
}

void LaunchedRanks::tell(const RankRecord& record) {
  group_->set(record_key(static_cast<size_t>(group_->rank())), json_text(to_json(record)));
}

const std::vector<RankRecord>& LaunchedRanks::hear() {
  for (size_t rank = 1; rank < group_->ranks().size(); ++rank) {
    heard_.push_back(record_from_json(Json::parse(group_->get(record_key(rank)))));
  }
  return heard_;
}

int LaunchedRanks::leave(int exit_status) {
  try {
    const int status = std::stoi(group_->all_gather(std::to_string(exit_status)).front());
    group_->leave();
    return status;
  } catch (const RunError&) {  // the ranks have agreed on what they ended for
    group_->outlast_rank0(kOutlastSeconds);
    return exit_status;
  }
}

std::string digest_of(const TrainingJob& job) {
  TrainingJob anywhere = job;
  anywhere.data.path.clear();
  anywhere.data.token_cache_directory.clear();
  anywhere.model.weights_directory.clear();
  anywhere.model.tokenizer_directory.clear();
  // What follows from paths that were edited; the fields themselves are compared.
  anywhere.entity_id.clear();
  anywhere.entity.clear();
  anywhere.experiment_id.clear();
  for (const char* name : {"dataset_id", "model_name", "job.data.path",
                           "job.model.weights_directory", "job.model.tokenizer_directory"}) {
    anywhere.inputs.erase(name);
  }
  return digest(json_text(sftbench::to_json(anywhere)));
}

}  // namespace sftbench
