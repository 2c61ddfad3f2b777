#include "cli/doctor.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "cli/doctor_probe.h"
#include "cli/engine_probe.h"
#include "cli/progress.h"
#include "cli/record.h"
#include "sftbench/base/build_info.h"
#include "sftbench/base/cpu_instructions.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/cli/app.h"
#include "sftbench/data/dataset_catalog.h"
#include "sftbench/launch/engine_library.h"
#include "sftbench/measure/host_info.h"
#include "sftbench/measure/nvml.h"
#include "sftbench/results/claim.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGpuAdvice = "build the engine for GPUs: bash experiments/setup.sh --cuda";
constexpr double kScarceDiskBytes = 2e9;  // a generated dataset of the documents takes about 0.5 GB

std::string text_of(const Json& environment, const char* key) {
  const Json value = environment.value(key, Json());
  if (value.is_null()) return {};
  return value.is_string() ? value.get<std::string>() : json_text(value);
}

std::vector<std::string> entries_of(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Finding find_program() {
  const std::string unfit = unfit_for_measuring();
  return {"program", unfit.empty() ? "ok" : "warn", version_text(),
          unfit.empty() ? "" : "measure with a release build: cmake --preset release"};
}

Finding find_files() {
  try {
    return {"files", "ok", resource_directory().string(), ""};
  } catch (const InputError& error) {
    return {"files", "missing", error.what(), "no other command works without them"};
  }
}

Finding find_engine(const EngineProbe& probe) {
  if (probe.problem.empty()) {
    return {"libtorch", "ok", text_of(probe.environment, "libtorch"), ""};
  }
  return {"libtorch", "missing", probe.problem,
          "pip install 'sftbench[train]', or build it in a clone: experiments/setup.sh"};
}

bool same_engine_for_all() {
  const auto first = [](const std::string& device) {
    const std::vector<fs::path> places = engine_library_candidates(device);
    std::error_code error;
    const auto there = [&error](const fs::path& place) { return fs::exists(place, error); };
    const auto found = std::find_if(places.begin(), places.end(), there);
    return found == places.end() ? fs::path() : *found;
  };
  return first("cpu") == first("cuda");
}

Finding find_memory(const HostInfo& host) {
  return {"memory", "ok", bytes_text(static_cast<double>(host.memory_bytes)), ""};
}

Finding find_cpu(const HostInfo& host) {
  return {"cpu", "ok",
          host.cpu + ", " + counted(host.cores, "core") + " to use, " +
              std::string(to_string(cpu_instructions())) + " kernels",
          ""};
}

// A run uses all cores that this process may use, unless --threads says otherwise.
Finding find_threads(const HostInfo& host) {
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const bool all = host.cores >= online;
  return {"threads", all ? "ok" : "warn",
          std::to_string(host.cores) + " of " + std::to_string(online) + " cores",
          all ? "" : "an affinity mask (taskset, cgroup, batch system) keeps the others away"};
}

Finding find_driver(const Nvml* nvml, const std::string& no_nvml) {
  if (nvml == nullptr) return {"nvidia driver", "none", no_nvml, ""};
  return {"nvidia driver", "ok", nvml->driver_version(), ""};
}

std::vector<Finding> find_gpus(const Nvml* nvml) {
  std::vector<Finding> findings;
  const size_t count = nvml != nullptr ? nvml->gpus().size() : 0;
  for (size_t i = 0; i < count; ++i) {
    const GpuIdentity& gpu = nvml->gpus()[i];
    const GpuFacts* facts = Catalog::shipped().gpus.find(gpu.name);
    const std::string size = ", " + bytes_text(static_cast<double>(gpu.memory_bytes));
    Finding finding = {"gpu " + std::to_string(i), "warn", gpu.name + size,
                       "not in config/gpus.yaml: MFU will be null until its peaks are added"};
    if (facts != nullptr) finding.advice = facts->obstacle();
    if (finding.advice.empty()) {
      finding.state = "ok";
      finding.advice = "gpu_model: " + facts->name;
    }
    findings.push_back(std::move(finding));
  }
  if (findings.empty()) findings.push_back({"gpus", "none", "none to use", ""});
  return findings;
}

Finding find_datasets() {
  size_t present = 0;
  for (const NamedDataset& dataset : named_datasets()) {
    if (fs::exists(default_dataset_path(dataset))) ++present;
  }
  return {"datasets", "ok",
          std::to_string(present) + " of " + std::to_string(named_datasets().size()) + " in " +
              (user_data_directory() / "datasets").string(),
          present > 0 ? "" : "a dataset is made when a run first needs it"};
}

Finding find_hub_cache() {
  const char* home = std::getenv("HF_HOME");
  const char* user = std::getenv("HOME");
  const fs::path hub = (home != nullptr && *home != '\0'
                            ? fs::path(home)
                            : fs::path(user != nullptr ? user : "/") / ".cache/huggingface") /
                       "hub";
  const std::vector<std::string> names = entries_of(hub);
  const auto models = std::count_if(names.begin(), names.end(), [](const std::string& name) {
    return name.rfind("models--", 0) == 0;
  });
  return {"hugging face cache", models > 0 ? "ok" : "none",
          counted(models, "model") + " in " + hub.string(),
          models > 0 ? "" : "--weights random needs none"};
}

std::vector<Finding> examine(const fs::path& results) {
  // These fork: before anything that may start threads.
  const EngineProbe probe = probe_engine("cpu");
  const EngineProbe gpu_probe = same_engine_for_all() ? probe : probe_engine("cuda");
  const HostInfo host = read_host_info();
  std::string no_nvml;
  const std::unique_ptr<Nvml> nvml = Nvml::load(&no_nvml);
  const size_t gpus = nvml != nullptr ? nvml->gpus().size() : 0;
  std::vector<Finding> findings = {find_program(),
                                   find_files(),
                                   find_cpu(host),
                                   judge_cpu_flags(host.cpu_flags),
                                   find_memory(host),
                                   find_engine(probe),
                                   judge_blas(probe.environment),
                                   judge_products(probe.environment),
                                   find_threads(host),
                                   find_driver(nvml.get(), no_nvml)};
  for (Finding& finding : find_gpus(nvml.get())) findings.push_back(std::move(finding));
  findings.push_back(judge_cuda(gpu_probe, gpus));
  findings.push_back(judge_nccl(gpu_probe.environment, gpus));
  const std::vector<RdmaPort> ports = read_rdma_ports();
  for (Finding& finding : judge_rdma(ports)) findings.push_back(std::move(finding));
  findings.push_back(judge_locked_memory(memory_lock_problem(), !ports.empty()));
  findings.push_back(judge_launcher(process_environment()));
  findings.push_back(judge_job_secret(process_environment()));
  findings.push_back(find_disk("disk for datasets", user_data_directory()));
  findings.push_back(find_disk("disk for results", results));
  findings.push_back(find_claims(results));
  findings.push_back(find_datasets());
  findings.push_back(find_hub_cache());
  return findings;
}

}  // namespace

Finding judge_blas(const Json& environment) {
  const std::string blas = text_of(environment, "blas");
  if (blas.empty()) return {"blas", "none", "not known without libtorch", ""};
  if (blas.find("reference") == std::string::npos) return {"blas", "ok", blas, ""};
  return {"blas", "warn", blas, "far slower than OpenBLAS: apt-get install libopenblas0-openmp"};
}

Finding judge_products(const Json& environment) {
  const Json libraries = environment.value("products", Json::object());
  if (libraries.empty()) return {"products", "none", "not known without libtorch", ""};
  std::vector<std::string> found;
  for (const auto& [dtype, library] : libraries.items())
    found.push_back(dtype + " by " + library.get<std::string>());
  return {"products", "ok", join(found, "; "), ""};
}

Finding judge_cpu_flags(const std::vector<std::string>& flags) {
  std::vector<std::string> wide;
  for (const char* flag : {"avx2", "avx512f", "avx512_bf16", "amx_bf16"}) {
    if (std::find(flags.begin(), flags.end(), flag) != flags.end()) wide.emplace_back(flag);
  }
  const bool bf16 = std::any_of(wide.begin(), wide.end(), [](const std::string& flag) {
    return flag.find("bf16") != std::string::npos;
  });
  return {"cpu instructions", bf16 ? "ok" : "warn", wide.empty() ? "no AVX2" : join(wide),
          bf16 ? "" : "no bfloat16 arithmetic: torch_dtype float32 may be faster on this CPU"};
}

Finding judge_cuda(const EngineProbe& probe, size_t gpus) {
  const std::string cuda = text_of(probe.environment, "cuda");
  if (!cuda.empty())
    return {"cuda", "ok", cuda + " of libtorch " + text_of(probe.environment, "libtorch"), ""};
  if (!probe.problem.empty())
    return {"cuda", gpus > 0 ? "missing" : "none", probe.problem, gpus > 0 ? kGpuAdvice : ""};
  if (gpus == 0) return {"cuda", "none", "this libtorch is for CPUs, and there is no GPU", ""};
  return {"cuda", "missing", "there are GPUs, but this libtorch is for CPUs", kGpuAdvice};
}

Finding judge_nccl(const Json& environment, size_t gpus) {
  const std::string nccl = text_of(environment, "nccl");
  if (!nccl.empty()) return {"nccl", "ok", nccl, ""};
  return {"nccl", gpus > 1 ? "missing" : "none", "not in this libtorch",
          gpus > 1 ? "several GPUs need it: use a CUDA libtorch, which brings it" : ""};
}

std::vector<Finding> judge_rdma(const std::vector<RdmaPort>& ports) {
  if (ports.empty()) return {{"rdma devices", "none", "none in /sys/class/infiniband", ""}};
  std::vector<Finding> findings;
  for (const RdmaPort& port : ports) {
    std::vector<std::string> gids;
    for (const RdmaGid& gid : port.gids) {
      if (!gid.is_roce_v2()) continue;
      gids.push_back(std::to_string(gid.index) + " " + (gid.ipv4.empty() ? gid.address : gid.ipv4) +
                     " on " + gid.interface);
    }
    const bool ethernet = port.link_layer == "Ethernet";
    std::string found = port.link_layer + ", " + port.state + ", " + port.rate;
    if (ethernet) found += ", RoCE v2 GIDs: " + (gids.empty() ? "none" : join(gids, "; "));
    const bool works = port.state == "ACTIVE" && (!ethernet || !gids.empty());
    const char* advice = works                    ? ""
                         : port.state != "ACTIVE" ? "its link is not up"
                                                  : "give its interface an address: enable_roce "
                                                    "needs a GID of RoCE v2";
    findings.push_back({"rdma " + port.name(), works ? "ok" : "warn", found, advice});
  }
  return findings;
}

Finding judge_locked_memory(const std::string& problem, bool rdma) {
  if (problem.empty()) return {"locked memory", "ok", "as much as RDMA wants", ""};
  return {"locked memory", rdma ? "warn" : "none", problem, ""};
}

Finding judge_launcher(const Environment& environment) {
  std::vector<std::string> all;
  for (const auto& [launcher, variables] : launcher_variables(environment))
    all.push_back(launcher + ": " + join(variables, " "));
  if (all.empty()) return {"launcher", "none", "no variables of srun, mpirun or torchrun", ""};
  const std::string found = join(all, "; ");
  try {
    const std::optional<RankPlace> place = launcher_place(environment);
    if (!place) return {"launcher", "ok", found, "started alone: run starts the ranks itself"};
    return {"launcher", "ok", found,
            "rank " + std::to_string(place->rank) + " of " + std::to_string(place->world_size) +
                ", which meet at " + place->address + ":" + std::to_string(place->port)};
  } catch (const InputError& error) {
    return {"launcher", "warn", found, error.what()};
  }
}

Finding judge_job_secret(const Environment& environment) {
  try {
    const std::string source = job_secret_source(environment);
    if (!source.empty()) return {"job secret", "ok", source, ""};
  } catch (const InputError& error) {
    return {"job secret", "warn", "cannot be used", error.what()};
  }
  return {"job secret", "none", "SFTBENCH_JOB_SECRET is not set",
          "ranks on several nodes want one: openssl rand -hex 32"};
}

Finding find_claims(const fs::path& results) {
  try {
    const ClaimChoice choice = choose_claims(results);
    const std::string found = to_string(choice) + ": " + choice.why;
    return {
        "claims", "ok", found,
        choice.kind == ClaimKind::kLeases ? "a stopped worker's cell is free after its lease" : ""};
  } catch (const InputError& error) {
    return {"claims", "warn", "none can be held", error.what()};
  }
}

Finding find_disk(const std::string& subject, const fs::path& directory) {
  // The folder may not be there yet: its nearest ancestor says which disk it would be on.
  std::error_code error;
  fs::path existing = fs::absolute(directory, error);
  while (!fs::exists(existing, error) && existing != existing.root_path()) {
    existing = existing.parent_path();
  }
  const fs::space_info space = fs::space(existing, error);
  if (error) return {subject, "missing", directory.string() + ": " + error.message(), ""};
  if (::access(existing.c_str(), W_OK) != 0)
    return {subject, "missing", existing.string() + " cannot be written", "another folder"};
  const bool scarce = static_cast<double>(space.available) < kScarceDiskBytes;
  return {subject, scarce ? "warn" : "ok",
          bytes_text(static_cast<double>(space.available)) + " free for " + directory.string(),
          scarce ? "the largest datasets of the documents may not fit" : ""};
}

void add_doctor_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("doctor", "tell what this machine can run and what is missing");
  const auto format = std::make_shared<std::string>("table");
  const auto results = std::make_shared<std::string>("results");
  command->add_option("DIR", *results, "folder of results, there or not yet")
      ->type_name("")
      ->capture_default_str();
  command->add_option("--format", *format, "table, json, jsonl, csv or md")->capture_default_str();
  const auto probe = std::make_shared<bool>(false);
  command->add_flag(
      "--probe", *probe,
      "measure what this machine reaches, in about a minute, and keep it for predict");
  command->footer(R"(
Examples:
  sftbench doctor
  sftbench doctor --probe
  sftbench doctor /shared/results     whether sweeps of many hosts can share it
  sftbench doctor --format json)");
  command->callback([format, results, probe, &exit_code] {
    const OutputFormat output = output_format(*format);
    if (*probe) {
      exit_code = probe_this_machine(output);
      return;
    }
    Table table{{"subject", "state", "found", "advice"}, {}};
    exit_code = 0;
    for (const Finding& f : examine(*results)) {
      table.rows.push_back({f.subject, f.state, f.found, f.advice});
      if (f.subject == "libtorch" && f.state == "missing") exit_code = kFailedExitCode;
    }
    print_table(table, output);
  });
}

}  // namespace sftbench
