// What starts the workers of a campaign: Slurm, Kubernetes, Ray or this machine. Each engine places
// and restarts processes in its own way; which cell is measured where is settled in the folder of
// results alone (campaign_plan.h).
#pragma once

#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sftbench/campaign/campaign_plan.h"
#include "sftbench/catalog/gpus.h"

namespace sftbench {

// What pods share, where they see it.
inline constexpr const char* kKubernetesVolume = "/data";

// "slurm", "ray", "kubernetes", "local".
const std::vector<std::string>& campaign_engine_names();

struct CampaignLog {
  std::function<void(const std::string&)> info = [](const std::string&) {};
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

class CampaignEngine {
 public:
  virtual ~CampaignEngine() = default;

  // What starts sftbench on its nodes, unless the user says so.
  virtual std::string default_program() const = 0;

  // Prints to `out` what a person hands to the engine, or has the engine start the workers and,
  // where it tells of them, waits for their end. Returns the exit status of the command. InputError
  // for groups that the engine cannot place, and when the engine refuses.
  virtual int start(const CampaignPlan& plan, std::ostream& out) = 0;

  // Whether start() returns when the workers have ended, and their results are there.
  virtual bool waits_for_workers() const { return false; }
};

struct SlurmSettings {
  std::vector<std::string> options;  // "partition=gpu", "L40S:constraint=l40s"
  bool submit = false;               // through sbatch
  std::vector<std::string>
      gpu_models;  // of the campaign; what stands before a colon is one of them
};

struct RaySettings {
  std::string address;      // "http://head:8265"
  double patience_s = 600;  // that the head may be away
  double poll_s = 1;        // between two looks at the jobs
  double pending_s = 30;    // before a job that waits is told of
  int interrupt_fd = -1;    // signalfd; -1: none
};

// InputError with all that is wrong with the settings.
std::unique_ptr<CampaignEngine> make_slurm_engine(const SlurmSettings& settings, CampaignLog log);
std::unique_ptr<CampaignEngine> make_kubernetes_engine(const std::vector<std::string>& settings,
                                                       const GpuCatalog& gpus);
std::unique_ptr<CampaignEngine> make_ray_engine(RaySettings settings, CampaignLog log);
std::unique_ptr<CampaignEngine> make_local_engine(int interrupt_fd, CampaignLog log);

}  // namespace sftbench
