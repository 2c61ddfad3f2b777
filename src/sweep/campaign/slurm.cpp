#include <algorithm>
#include <charconv>
#include <filesystem>
#include <ostream>

#include "campaign/slurm_script.h"
#include "campaign/tool.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/base/text.h"
#include "sftbench/campaign/engines.h"

namespace sftbench {
namespace {

constexpr int64_t kDefaultMaxArraySize = 1001;  // slurm.conf(5)

struct Batch {
  const WorkerGroup* group;
  int64_t count;
  std::string script;
};

// As many workers as indices, which are smaller than MaxArraySize.
int64_t max_array_size() {
  const ToolResult config = run_tool({"scontrol", "show", "config"});
  constexpr std::string_view kName = "MaxArraySize";
  const size_t line = config.out.find(kName);
  const size_t digits = line == std::string::npos
                            ? std::string::npos
                            : config.out.find_first_of("0123456789", line + kName.size());
  int64_t size = 0;
  if (digits == std::string::npos) return kDefaultMaxArraySize;
  std::from_chars(config.out.data() + digits, config.out.data() + config.out.size(), size);
  return size > 0 ? size : kDefaultMaxArraySize;
}

// A line that ends the here-document of a script, because the script has no such line.
std::string end_of(const std::string& script) {
  std::string end = "END_OF_BATCH_SCRIPT";
  while (script.find(end) != std::string::npos) end += "_";
  return end;
}

class SlurmEngine : public CampaignEngine {
 public:
  SlurmEngine(const SlurmSettings& settings, CampaignLog log)
      : options_(settings.options, settings.gpu_models),
        submits_(settings.submit),
        log_(std::move(log)) {
    const bool told =
        std::all_of(settings.gpu_models.begin(), settings.gpu_models.end(),
                    [this](const std::string& model) { return options_.knows_model(model); });
    if (settings.gpu_models.size() > 1 && !told) {
      log_.warn("the cells need " + join(settings.gpu_models, " and ") +
                "; --slurm MODEL:KEY=VALUE says where each is, as " + settings.gpu_models.front() +
                ":constraint=...");
    }
  }

  std::string default_program() const override {
    return std::filesystem::read_symlink("/proc/self/exe").string();
  }

  int start(const CampaignPlan& plan, std::ostream& out) override {
    const int64_t most = submits_ ? max_array_size() : kDefaultMaxArraySize;
    std::vector<Batch> batches;
    for (const WorkerGroup& group : plan.groups) {
      for (int64_t first = 0; first < group.workers; first += most) {
        const int64_t count = std::min(most, group.workers - first);
        batches.push_back({&group, count, slurm_script(plan, group, options_, count)});
      }
    }
    submits_ ? submit(plan, batches, out) : print(plan, batches, out);
    return 0;
  }

 private:
  // One script that submits all, for bash.
  static void print(const CampaignPlan& plan, const std::vector<Batch>& batches,
                    std::ostream& out) {
    out << "#!/bin/bash\n# Submits " << counted(std::ssize(batches), "job array")
        << ": bash THIS_FILE\nset -e\ncd " << shell_quoted(std::filesystem::current_path().string())
        << "\nmkdir -p -- " << shell_quoted(slurm_log_folder(plan)) << "\n";
    // sbatch passes the environment on that it is called in.
    for (const std::string& name : plan.secrets) {
      out << ": \"${" << name << ":?is to be set where the campaign is submitted}\"\n";
      out << "export " << name << "\n";
    }
    for (const Batch& batch : batches) {
      const std::string end = end_of(batch.script);
      out << "sbatch <<'" << end << "'\n" << batch.script << end << "\n";
    }
  }

  void submit(const CampaignPlan& plan, const std::vector<Batch>& batches, std::ostream& out) {
    std::filesystem::create_directories(slurm_log_folder(plan));
    std::vector<std::string> jobs;
    for (const Batch& batch : batches) {
      const ToolResult sbatch = run_tool({"sbatch", "--parsable"}, batch.script);
      if (!sbatch.found || sbatch.status != 0) refuse(sbatch, *batch.group, jobs);
      const std::string job(trimmed(sbatch.out.substr(0, sbatch.out.find(';'))));
      jobs.push_back(job);
      out << job << "  " << batch.group->name << ": " << counted(batch.count, "worker") << " for "
          << cell_count(batch.group->cells.size()) << "\n";
    }
    log_.info("squeue --me shows them, sftbench status " + shell_quoted(plan.output) +
              " the cells, scancel " + join(jobs, " ") + " ends them; logs are in " +
              slurm_log_folder(plan));
  }

  [[noreturn]] static void refuse(const ToolResult& sbatch, const WorkerGroup& group,
                                  const std::vector<std::string>& jobs) {
    const std::string before = jobs.empty() ? ""
                                            : "; submitted before it: " + join(jobs) +
                                                  " (scancel " + join(jobs, " ") + " ends them)";
    if (!sbatch.found) {
      throw InputError({{{},
                         0,
                         "--submit",
                         "there is no sbatch on this machine",
                         "a login node of the cluster, or no --submit, which prints the script",
                         {}}});
    }
    throw InputError({{{},
                       0,
                       "sbatch",
                       "refuses the group " + group.name + ": " +
                           terminal_text(std::string(trimmed(sbatch.err))) + before,
                       "options that the cluster has: --slurm KEY=VALUE",
                       {}}});
  }

  SlurmOptions options_;
  bool submits_;
  CampaignLog log_;
};

}  // namespace

std::unique_ptr<CampaignEngine> make_slurm_engine(const SlurmSettings& settings, CampaignLog log) {
  return std::make_unique<SlurmEngine>(settings, std::move(log));
}

}  // namespace sftbench
