#include "sftbench/launch/memory_preflight.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/launch/devices.h"
#include "sftbench/predict/cost_model.h"

namespace sftbench {
namespace {

double process_limit_bytes() {
  double least = std::numeric_limits<double>::infinity();
  for (const auto resource : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    least = std::min(least, static_cast<double>(limit.rlim_cur));
  }
  return least;
}

std::vector<double> free_gpu_bytes(const TrainingJob& job, const Nvml& nvml,
                                   const std::vector<std::string>& uuids) {
  std::vector<double> bytes;
  for (size_t i = 0; i < nvml.gpus().size(); ++i) {
    const GpuIdentity& gpu = nvml.gpus()[i];
    const bool used = uuids.empty()
                          ? static_cast<int64_t>(i) < gpus_in_use(job, &nvml)
                          : std::find(uuids.begin(), uuids.end(), gpu.uuid) != uuids.end();
    if (!used || gpu.memory_bytes <= 0) continue;
    const double taken = nvml.read(i).memory_percent.value_or(0) / 100;
    bytes.push_back(static_cast<double>(gpu.memory_bytes) * (1 - taken));
  }
  return bytes;
}

// Where the least that they take does not fit.
struct Shortage {
  double needed_bytes;
  double available_bytes;
  std::string memory;  // "host memory"
  std::string limit;   // what sets what is available; may be empty
  double ranks;        // that share it
};

std::optional<Shortage> shortage_on_host(double of_rank, double ranks, const MemoryRoom& room) {
  if (of_rank > room.process_bytes) {
    return Shortage{of_rank, room.process_bytes, "host memory in one process", "ulimit", 1};
  }
  const auto available = static_cast<double>(room.host.bytes);
  if (available <= 0 || of_rank * ranks <= available) return {};
  return Shortage{of_rank * ranks, available, "host memory", room.host.limit, ranks};
}

// Ranks that share GPUs are dealt out evenly: one GPU has as many as the most.
std::optional<Shortage> shortage_on_gpus(double of_rank, double ranks, const MemoryRoom& room) {
  if (room.gpu_bytes.empty()) return {};
  const double sharing = std::ceil(ranks / static_cast<double>(room.gpu_bytes.size()));
  const double available = *std::max_element(room.gpu_bytes.begin(), room.gpu_bytes.end());
  if (of_rank * sharing <= available) return {};
  return Shortage{of_rank * sharing, available, "memory on a GPU", {}, sharing};
}

std::string parts_text(const MemoryCost& memory, double ranks) {
  std::vector<std::string> parts;
  for (const auto& [name, bytes] :
       {std::pair{"weights ", memory.parameters}, std::pair{"gradients ", memory.gradients},
        std::pair{"optimizer state ", memory.optimizer_state}}) {
    if (bytes > 0) parts.push_back(name + bytes_text(bytes * ranks));
  }
  return join(parts);
}

// Only what makes the parts smaller that are counted here.
std::string advice(const TrainingJob& job, const MemoryCost& memory, const Shortage& shortage) {
  std::vector<std::string> less;
  const bool on_gpus = job.device.kind == "cuda";
  const bool sharded = job.device.ranks > 1 && row_of(job.parallel.strategy).shards();
  const bool full = row_of(job.tuning).trains_weights;
  if (full) less.emplace_back("LoRA (finetune_lora_benchmark-v1.0.0)");
  if (job.precision.torch_dtype == ParameterDtype::kFloat32)
    less.emplace_back("torch_dtype bfloat16");
  if (memory.optimizer_state > 0 && full) {
    less.emplace_back("an optim that keeps less, as adamw_bnb_8bit");
  }
  if (!sharded && job.device.ranks > 1) {
    less.push_back(std::string("FSDP's FULL_SHARD instead of ") + name_of(job.parallel.strategy));
  }
  if (on_gpus && sharded) less.emplace_back("more GPUs");
  if (on_gpus && job.device.ranks == 1) less.emplace_back("several GPUs with FSDP");
  if (!shortage.limit.empty()) less.push_back("a higher limit (" + shortage.limit + ")");
  less.emplace_back("a smaller model");
  return join(less);
}

}  // namespace

MemoryRoom memory_room(const TrainingJob& job, const Nvml* nvml, int64_t host_memory_bytes,
                       const std::vector<std::string>& gpus) {
  MemoryRoom room;
  room.host = available_memory();
  if (host_memory_bytes > 0 && host_memory_bytes < room.host.bytes) {
    room.host = {host_memory_bytes, "--host-memory"};
  }
  room.process_bytes = process_limit_bytes();
  if (job.device.kind == "cuda" && nvml != nullptr) {
    room.gpu_bytes = free_gpu_bytes(job, *nvml, gpus);
  }
  return room;
}

std::optional<std::string> memory_warning(const TrainingJob& job, const MemoryRoom& room) {
  const std::optional<MemoryCost> memory = memory_at_least(job);
  if (!memory) return {};
  const int64_t nodes = std::max<int64_t>(1, job.device.nodes);
  const auto ranks = static_cast<double>(job.device.ranks / nodes);
  const bool on_gpus = job.device.kind == "cuda";
  const std::optional<Shortage> shortage = on_gpus ? shortage_on_gpus(memory->total(), ranks, room)
                                                   : shortage_on_host(memory->total(), ranks, room);
  if (!shortage) return {};
  return job.model.name + " needs at least about " + bytes_text(shortage->needed_bytes) + " of " +
         shortage->memory + " (" + parts_text(*memory, shortage->ranks) + "), and " +
         bytes_text(shortage->available_bytes) + " are available" +
         (shortage->limit.empty() ? "" : " (" + shortage->limit + ")") +
         ": it is measured, and is likely to end as " + (on_gpus ? "OOM_GPU" : "OOM_HOST") +
         ". Less is needed with " + advice(job, *memory, *shortage);
}

}  // namespace sftbench
