// sftbench doctor: what this machine can run and what is missing, with the command that mends it.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/engine_probe.h"
#include "sftbench/base/json.h"
#include "sftbench/cluster/launcher_environment.h"
#include "sftbench/cluster/roce.h"

namespace sftbench {

// Registers the subcommand; its callback prints the findings to stdout and sets `exit_code`:
// 0 this machine can train (on a CPU at least), 4 it cannot.
void add_doctor_command(CLI::App& app, int& exit_code);

struct Finding {
  std::string subject;
  std::string state;  // "ok", "warn": works, but slower or less; "missing": does not work;
                      // "none": not there, nor needed for a run on the CPU
  std::string found;
  std::string advice;  // empty when there is nothing to do
};

// Each takes what it judges, so that it can be tested without a machine that has it.
Finding judge_blas(const Json& environment);
// Which library multiplies matrices of each dtype on the host.
Finding judge_products(const Json& environment);
Finding judge_cpu_flags(const std::vector<std::string>& flags);
// `probe`: of the engine that trains on GPUs.
Finding judge_cuda(const EngineProbe& probe, size_t gpus);
Finding judge_nccl(const Json& environment, size_t gpus);
// One for each port, with the addresses that enable_roce could use; one that says so without any.
std::vector<Finding> judge_rdma(const std::vector<RdmaPort>& ports);
// `problem` as memory_lock_problem() says it.
Finding judge_locked_memory(const std::string& problem, bool rdma);
Finding judge_launcher(const Environment& environment);
// Whether ranks that a launcher starts would recognize each other.
Finding judge_job_secret(const Environment& environment);
// How sweeps that share the folder would claim its cells.
Finding find_claims(const std::filesystem::path& results);
Finding find_disk(const std::string& subject, const std::filesystem::path& directory);

}  // namespace sftbench
