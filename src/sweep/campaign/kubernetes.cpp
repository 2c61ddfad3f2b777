// Manifests: a ConfigMap with the files of the command line, for each group of one node an Indexed
// Job whose pods are workers, for each worker of several nodes a JobSet whose pods are the nodes.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <ostream>

#include "campaign/cell_list.h"
#include "campaign/kubernetes_settings.h"
#include "campaign/worker_status.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/yaml_text.h"
#include "sftbench/campaign/engines.h"

namespace sftbench {
namespace {

constexpr const char* kFiles = "/config";
constexpr int kPort = 29500;
constexpr size_t kLongestName = 45;  // pods add to it, and their names are labels of DNS
constexpr const char* kWorkerLabel = "sftbench/worker";

std::string object_name(const std::string& text) {
  const std::string name = "sftbench-" + text;
  if (name.size() <= kLongestName) return name;
  return dns_label(name, kLongestName - 7) + "-" + digest(name).substr(0, 6);
}

// Text that reaches the container as it is. Kubernetes puts values of variables in place of $(NAME)
// and one dollar sign in place of two, in commands, arguments and values of the environment.
std::string literal(const std::string& text) {
  std::string escaped;
  for (size_t i = 0; i < text.size(); ++i) {
    escaped += text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (text[i] == '$' && (next == '(' || next == '$')) escaped += '$';
  }
  return escaped;
}

std::vector<std::string> literal(const std::vector<std::string>& words) {
  std::vector<std::string> escaped;
  for (const std::string& word : words) escaped.push_back(literal(word));
  return escaped;
}

class Manifests {
 public:
  Manifests(const CampaignPlan& plan, const KubernetesSettings& settings, const GpuCatalog& gpus)
      : plan_(with_places(plan)), settings_(settings), gpus_(gpus) {}

  Json config_map() const {
    Json data = Json::object();
    for (const auto& [name, content] : files_of(plan_)) {
      require_key(name);
      data[name] = content;
    }
    return {{"apiVersion", "v1"},
            {"kind", "ConfigMap"},
            {"metadata", metadata(config_name())},
            {"data", data}};
  }

  Json job(const WorkerGroup& group) const {
    Json spec = indexed(group.workers, pod(group, worker_container(group), group.name));
    spec["backoffLimitPerIndex"] = kMostRestarts;
    // A lost node is no failure. A command that cannot be right is one for all. Cells that failed,
    // or that this kind of node cannot measure, are no reason to start again.
    spec["podFailurePolicy"]["rules"] = {
        {{"action", "Ignore"},
         {"onPodConditions", {{{"type", "DisruptionTarget"}, {"status", "True"}}}}},
        {{"action", "FailJob"}, {"onExitCodes", on_exit_codes({2})}},
        {{"action", "FailIndex"}, {"onExitCodes", on_exit_codes({4, 6})}}};
    return {{"apiVersion", "batch/v1"},
            {"kind", "Job"},
            {"metadata", metadata(object_name(plan_.name + "-" + group.name))},
            {"spec", spec}};
  }

  Json job_set(const WorkerGroup& group, int64_t worker) const {
    const std::string name =
        object_name(plan_.name + "-" + group.name + "-" + std::to_string(worker));
    Json nodes = indexed(group.need.nodes, pod(group, ranks_container(group, worker, name), name));
    nodes["backoffLimit"] = 0;  // the ranks of a cell start and end together
    return {{"apiVersion", "jobset.x-k8s.io/v1alpha2"},
            {"kind", "JobSet"},
            {"metadata", metadata(name)},
            {"spec",
             {{"network", {{"enableDNSHostnames", true}}},
              {"failurePolicy", {{"maxRestarts", kMostRestarts}}},
              {"replicatedJobs",
               {{{"name", "nodes"}, {"replicas", 1}, {"template", {{"spec", nodes}}}}}}}}};
  }

 private:
  // Results and caches are on the volume.
  static CampaignPlan with_places(CampaignPlan plan) {
    const std::filesystem::path output = plan.output;
    const std::string beginning = std::string(kKubernetesVolume) + "/";
    if (output.is_relative()) {
      plan.output = (std::filesystem::path(kKubernetesVolume) / output).lexically_normal().string();
    }
    if (plan.output.rfind(beginning, 0) != 0) {
      throw InputError({{{},
                         0,
                         "--output",
                         "found '" + output.string() + "'",
                         "a path below " + beginning +
                             ", where pods have the shared volume, or a "
                             "relative one",
                         {}}});
    }
    plan.environment.emplace("HF_HOME", beginning + "huggingface");
    plan.environment.emplace("XDG_DATA_HOME", beginning + "share");  // generated datasets
    if (!plan.parameters_file.empty()) {
      plan.environment["SFTTRAINER_PARAMETERS_FILE"] = place_of_file(plan.parameters_file, kFiles);
    }
    return plan;
  }

  static void require_key(const std::string& file) {
    const bool fits = std::all_of(file.begin(), file.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
    });
    if (!fits) {
      throw InputError({finding(file, {}, "a ConfigMap has no such key",
                                "a file name of letters, digits, '-', '_' and '.'")});
    }
  }

  std::string config_name() const { return object_name(plan_.name); }

  Json metadata(const std::string& name) const {
    Json labels = {{"app.kubernetes.io/name", "sftbench"},
                   {"app.kubernetes.io/instance", plan_.name}};
    if (!settings_.queue.empty() && name != config_name())
      labels["kueue.x-k8s.io/queue-name"] = settings_.queue;
    Json data = {{"name", name}, {"labels", labels}};
    if (!settings_.namespace_name.empty()) data["namespace"] = settings_.namespace_name;
    return data;
  }

  static Json on_exit_codes(const std::vector<int>& codes) {
    return {{"containerName", "sftbench"}, {"operator", "In"}, {"values", codes}};
  }

  static Json indexed(int64_t pods, Json pod) {
    return {{"completionMode", "Indexed"},
            {"completions", pods},
            {"parallelism", pods},
            {"template", std::move(pod)}};
  }

  Json pod(const WorkerGroup& group, Json container, const std::string& worker) const {
    Json labels = {{"app.kubernetes.io/name", "sftbench"},
                   {"app.kubernetes.io/instance", plan_.name},
                   {kWorkerLabel, worker}};
    Json spec = {{"restartPolicy", "Never"}};
    if (!settings_.service_account.empty()) spec["serviceAccountName"] = settings_.service_account;
    if (group.need.gpus_per_node > 0) {
      spec["nodeSelector"] = {{settings_.gpu_label, product_label(group.need.gpu_model)}};
    }
    if (group.need.nodes > 1) spec["affinity"] = on_different_nodes(worker);
    spec["containers"] = Json::array({std::move(container)});
    spec["volumes"] = {
        {{"name", "config"}, {"configMap", {{"name", config_name()}}}},
        {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", settings_.claim}}}},
        // For NCCL's buffers between the GPUs of a node.
        {{"name", "shm"}, {"emptyDir", {{"medium", "Memory"}}}}};
    Json meta = {{"labels", labels}};
    if (group.need.roce && !settings_.network.empty())
      meta["annotations"] = {{"k8s.v1.cni.cncf.io/networks", settings_.network}};
    return {{"metadata", meta}, {"spec", spec}};
  }

  static Json on_different_nodes(const std::string& worker) {
    const Json term = {{"labelSelector", {{"matchLabels", {{kWorkerLabel, worker}}}}},
                       {"topologyKey", "kubernetes.io/hostname"}};
    return {{"podAntiAffinity",
             {{"requiredDuringSchedulingIgnoredDuringExecution", Json::array({term})}}}};
  }

  // GPU feature discovery writes NVML's name with dashes. ado leaves out the maker of some.
  std::string product_label(const std::string& gpu_model) const {
    std::string name = gpu_model;
    const GpuFacts* gpu = gpus_.find(gpu_model);
    const bool has_maker = name.rfind("NVIDIA", 0) == 0 || name.rfind("Tesla", 0) == 0;
    if (gpu != nullptr && !has_maker) {
      const auto full =
          std::find_if(gpu->aliases.begin(), gpu->aliases.end(),
                       [](const std::string& alias) { return alias.rfind("NVIDIA", 0) == 0; });
      if (full != gpu->aliases.end()) name = *full;
    }
    std::replace(name.begin(), name.end(), ' ', '-');
    return name;
  }

  Json container(const WorkerGroup& group) const {
    const DeviceNeed& need = group.need;
    const bool gpus = need.gpus_per_node > 0;
    const std::string image = gpus ? "sftbench:cuda" : "sftbench";
    Json limits = Json::object();
    if (gpus) limits[settings_.gpu_resource] = need.gpus_per_node;
    if (need.roce) limits[settings_.roce_resource] = settings_.roce_devices;
    if (!settings_.memory.empty()) limits["memory"] = settings_.memory;
    Json requests = limits;
    requests["cpu"] = gpus             ? std::max<int64_t>(1, need.gpus_per_node) * 2
                      : need.cores > 0 ? need.cores
                                       : 1;
    Json all = {{"name", "sftbench"},
                {"image", settings_.image.empty() ? image : settings_.image},
                {"env", environment()},
                {"resources", {{"requests", requests}}},
                {"volumeMounts",
                 {{{"name", "config"}, {"mountPath", kFiles}},
                  {{"name", "data"}, {"mountPath", kKubernetesVolume}},
                  {{"name", "shm"}, {"mountPath", "/dev/shm"}}}}};
    if (!limits.empty()) all["resources"]["limits"] = limits;
    // RDMA locks memory.
    if (need.roce) all["securityContext"]["capabilities"]["add"] = {"IPC_LOCK"};
    return all;
  }

  Json environment() const {
    Json list = Json::array();
    for (const auto& [name, value] : plan_.environment)
      list.push_back({{"name", name}, {"value", literal(value)}});
    for (const std::string& name : plan_.secrets) {
      list.push_back(
          {{"name", name},
           {"valueFrom", {{"secretKeyRef", {{"name", "sftbench-env"}, {"key", name}}}}}});
    }
    return list;
  }

  Json worker_container(const WorkerGroup& group) const {
    const std::vector<std::string> words = literal(worker_words(plan_, group, kFiles));
    Json all = container(group);
    all["command"] = {words.front()};
    all["args"] = std::vector<std::string>(words.begin() + 1, words.end());
    return all;
  }

  Json ranks_container(const WorkerGroup& group, int64_t worker, const std::string& name) const {
    Json all = container(group);
    // JobSet names pods <jobset>-<job>-<replica>-<index>; the service has the jobset's name.
    all["env"].push_back({{"name", "MASTER_ADDR"}, {"value", name + "-nodes-0-0." + name}});
    all["env"].push_back({{"name", "MASTER_PORT"}, {"value", std::to_string(kPort)}});
    all["env"].push_back(
        {{"name", "SFTBENCH_JOB_SECRET"},
         {"valueFrom",
          {{"secretKeyRef", {{"name", "sftbench-job"}, {"key", "secret"}, {"optional", true}}}}}});
    all["ports"] = {{{"containerPort", kPort}}};
    all["command"] = {"/bin/bash", "-c"};
    all["args"] = {literal(ranks_script(group, worker))};
    return all;
  }

  // All pods of a JobSet go through the same cells, with a process for each GPU of theirs.
  std::string ranks_script(const WorkerGroup& group, int64_t worker) const {
    const int64_t ranks = group.need.ranks_on_node();
    return "set -u\n" + cell_list(plan_, group, kFiles) + "measure() {\n  local rank ranks=\n" +
           "  for rank in $(seq 0 " + std::to_string(ranks - 1) + "); do\n" +
           "    WORLD_SIZE=" + std::to_string(ranks * group.need.nodes) +
           " LOCAL_WORLD_SIZE=" + std::to_string(ranks) +
           " LOCAL_RANK=$rank RANK=$((JOB_COMPLETION_INDEX * " + std::to_string(ranks) +
           " + rank)) \\\n      " + shell_line(rank_words(plan_, kFiles)) + " \"$@\" &\n" +
           R"(    ranks="$ranks $!"
  done
  for rank in $ranks; do wait "$rank" || outcome=$?; done
}
status=0
)" +
           "for ((cell = " + std::to_string(worker) +
           "; cell < ${#cells[@]}; cell += " + std::to_string(group.workers) + ")); do\n" +
           R"(  eval "set -- ${cells[cell]}"
  still_open "$@" || continue
  outcome=0
  measure "$@"
  case $outcome in 0 | 3 | 4 | 5) ;; *) status=$outcome ;; esac
done
exit $status
)";
  }

  CampaignPlan plan_;
  const KubernetesSettings& settings_;
  const GpuCatalog& gpus_;
};

class KubernetesEngine : public CampaignEngine {
 public:
  KubernetesEngine(KubernetesSettings settings, const GpuCatalog& gpus)
      : settings_(std::move(settings)), gpus_(gpus) {}

  std::string default_program() const override { return "sftbench"; }

  int start(const CampaignPlan& plan, std::ostream& out) override {
    const Manifests manifests(plan, settings_, gpus_);
    out << yaml_document(manifests.config_map());
    for (const WorkerGroup& group : plan.groups) {
      if (group.need.nodes == 1) {
        out << yaml_document(manifests.job(group));
        continue;
      }
      for (int64_t worker = 0; worker < group.workers; ++worker) {
        out << yaml_document(manifests.job_set(group, worker));
      }
    }
    return 0;
  }

 private:
  KubernetesSettings settings_;
  const GpuCatalog& gpus_;
};

}  // namespace

std::unique_ptr<CampaignEngine> make_kubernetes_engine(const std::vector<std::string>& settings,
                                                       const GpuCatalog& gpus) {
  return std::make_unique<KubernetesEngine>(read_kubernetes_settings(settings), gpus);
}

}  // namespace sftbench
