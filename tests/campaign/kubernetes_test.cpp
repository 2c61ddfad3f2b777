// Manifests, read back by a YAML reader; against the published schemas:
// tests/campaign/manifests.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "campaign/campaign_fixture.h"
#include "sftbench/base/error.h"
#include "sftbench/campaign/engines.h"
#include "sftbench/catalog/catalog.h"
#include "temporary_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::AllOf;
using testing::HasSubstr;

CampaignPlan with_space(std::vector<WorkerGroup> groups, const std::string& content = "a: 1\n") {
  CampaignPlan plan = plan_of(std::move(groups));
  const std::string path = temporary_file("space.yaml");
  std::ofstream(path) << content;
  plan.program = "sftbench";
  plan.options.front().value = path;
  return plan;
}

std::vector<YAML::Node> manifests(const CampaignPlan& plan,
                                  const std::vector<std::string>& settings = {}) {
  std::ostringstream out;
  EXPECT_EQ(make_kubernetes_engine(settings, Catalog::shipped().gpus)->start(plan, out), 0);
  return YAML::LoadAll(out.str());
}

std::string refusal(const CampaignPlan& plan, const std::vector<std::string>& settings) {
  try {
    manifests(plan, settings);
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(KubernetesTest, OneNodeIsAnIndexedJobWhosePodsAreWorkers) {
  const CampaignPlan plan =
      with_space(group_cells({gpu_cell(8, 1, "L40S"), gpu_cell(8, 1, "L40S")}, kByGpus));
  const auto all =
      manifests(plan, {"queue=team", "namespace=lab", "image=registry/sft:1", "claim=disk"});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0]["kind"].as<std::string>(), "ConfigMap");
  const YAML::Node& job = all[1];
  EXPECT_EQ(job["kind"].as<std::string>(), "Job");
  EXPECT_EQ(job["metadata"]["namespace"].as<std::string>(), "lab");
  EXPECT_EQ(job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"].as<std::string>(), "team");
  EXPECT_EQ(job["spec"]["completions"].as<int>(), 2);
  EXPECT_EQ(job["spec"]["completionMode"].as<std::string>(), "Indexed");
  const YAML::Node pod = job["spec"]["template"]["spec"];
  EXPECT_EQ(pod["nodeSelector"]["nvidia.com/gpu.product"].as<std::string>(), "NVIDIA-L40S");
  EXPECT_EQ(pod["volumes"][1]["persistentVolumeClaim"]["claimName"].as<std::string>(), "disk");
  const YAML::Node container = pod["containers"][0];
  EXPECT_EQ(container["image"].as<std::string>(), "registry/sft:1");
  EXPECT_EQ(container["resources"]["limits"]["nvidia.com/gpu"].as<int>(), 8);
  EXPECT_EQ(container["resources"]["requests"]["cpu"].as<int>(), 16);
  std::string words;
  for (const YAML::Node& word : container["args"]) words += word.as<std::string>() + " ";
  EXPECT_THAT(words, AllOf(HasSubstr("sweep /config/"), HasSubstr("--worker -o /data/results")));
}

TEST(KubernetesTest, SeveralNodesAreAJobSetForEachWorker) {
  const auto cells = std::vector<CampaignCell>{gpu_cell(16, 2, "NVIDIA-H100-PCIe", true),
                                               gpu_cell(16, 2, "NVIDIA-H100-PCIe", true)};
  const auto all = manifests(with_space(group_cells(cells, kByGpus)),
                             {"network=multi-nic-network", "roce-devices=4"});
  ASSERT_EQ(all.size(), 3u);
  const YAML::Node& set = all[1];
  EXPECT_EQ(set["kind"].as<std::string>(), "JobSet");
  const auto name = set["metadata"]["name"].as<std::string>();
  EXPECT_LE(name.size(), 45u);
  EXPECT_NE(name, all[2]["metadata"]["name"].as<std::string>());
  const YAML::Node job = set["spec"]["replicatedJobs"][0]["template"]["spec"];
  EXPECT_EQ(job["completions"].as<int>(), 2);
  const YAML::Node pod = job["template"];
  EXPECT_EQ(pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"].as<std::string>(),
            "multi-nic-network");
  const YAML::Node container = pod["spec"]["containers"][0];
  EXPECT_EQ(container["resources"]["limits"]["nvidia.com/roce_gdr"].as<int>(), 4);
  EXPECT_EQ(container["securityContext"]["capabilities"]["add"][0].as<std::string>(), "IPC_LOCK");
  EXPECT_THAT(container["args"][0].as<std::string>(),
              AllOf(HasSubstr("WORLD_SIZE=16"), HasSubstr("seq 0 7"), HasSubstr("still_open")));
}

TEST(KubernetesTest, NamesOfTheClusterAreCheckedByKey) {
  const CampaignPlan plan = with_space(group_cells({gpu_cell(1)}, kByGpus));
  EXPECT_THAT(refusal(plan, {"imgae=x"}),
              AllOf(HasSubstr("unknown key 'imgae'"), HasSubstr("did you mean 'image'")));
  EXPECT_THAT(refusal(plan, {"queue"}), HasSubstr("expected KEY=VALUE"));
  EXPECT_THAT(refusal(plan, {"roce-devices=two"}), HasSubstr("a number of devices"));
  CampaignPlan elsewhere = plan;
  elsewhere.output = "/scratch/results";
  EXPECT_THAT(refusal(elsewhere, {}), HasSubstr("a path below /data/"));
  elsewhere.output = "/database/results";
  EXPECT_THAT(refusal(elsewhere, {}), HasSubstr("a path below /data/"));
  elsewhere.output = "/data/results";
  EXPECT_EQ(refusal(elsewhere, {"roce-devices=1"}), "nothing was refused");
  for (const char* setting :
       {"roce-devices=0", "roce-devices=-1", "roce-devices=2x", "roce-devices=x2"})
    EXPECT_THAT(refusal(plan, {setting}), HasSubstr("a number of devices, 1 or more")) << setting;
  for (const char* setting : {"queue=", "=team", "=", ""})
    EXPECT_THAT(refusal(plan, {setting}), HasSubstr("--kubernetes")) << setting;
}

TEST(KubernetesTest, PodsWithoutGpusAskForCoresAlone) {
  CampaignCell three_cores = cpu_cell();
  three_cores.need->cores = 3;
  const auto all = manifests(with_space(group_cells({cpu_cell(), three_cores}, {{}, 1})));
  ASSERT_EQ(all.size(), 3u);
  std::vector<int> cores;
  for (const YAML::Node& job : {all[1], all[2]}) {
    const YAML::Node pod = job["spec"]["template"]["spec"];
    EXPECT_FALSE(pod["nodeSelector"]);
    EXPECT_FALSE(pod["affinity"]) << "one node";
    EXPECT_FALSE(pod["serviceAccountName"]);
    const YAML::Node container = pod["containers"][0];
    EXPECT_EQ(container["image"].as<std::string>(), "sftbench");
    EXPECT_FALSE(container["resources"]["limits"]);
    EXPECT_FALSE(container["securityContext"]);
    cores.push_back(container["resources"]["requests"]["cpu"].as<int>());
    EXPECT_FALSE(job["metadata"]["namespace"]);
    EXPECT_FALSE(job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]);
  }
  EXPECT_THAT(cores, testing::UnorderedElementsAre(1, 3));
}

// GPU feature discovery's label is NVML's name of the product with dashes.
TEST(KubernetesTest, NodesAreChosenByTheLabelOfTheirProduct) {
  const std::pair<const char*, const char*> kProducts[] = {
      {"L40S", "NVIDIA-L40S"},
      {"Tesla-T4", "Tesla-T4"},
      {"NVIDIA-H100-PCIe", "NVIDIA-H100-PCIe"},
      {"AMD-Instinct-MI300X", "AMD-Instinct-MI300X"},
      {"Somebodys GPU", "Somebodys-GPU"}};
  for (const auto& [model, label] : kProducts) {
    const auto all = manifests(with_space(group_cells({gpu_cell(1, 1, model)}, kByGpus)),
                               {"gpu-label=product", "gpu-resource=gpu", "memory=64Gi"});
    const YAML::Node pod = all[1]["spec"]["template"]["spec"];
    EXPECT_EQ(pod["nodeSelector"]["product"].as<std::string>(), label);
    const YAML::Node container = pod["containers"][0];
    EXPECT_EQ(container["image"].as<std::string>(), "sftbench:cuda");
    for (const char* kind : {"requests", "limits"}) {
      EXPECT_EQ(container["resources"][kind]["gpu"].as<int>(), 1);
      EXPECT_EQ(container["resources"][kind]["memory"].as<std::string>(), "64Gi");
    }
    EXPECT_EQ(container["resources"]["requests"]["cpu"].as<int>(), 2);
    EXPECT_FALSE(container["resources"]["limits"]["cpu"]);
  }
}

// Kubernetes gives pods' names, of which these are the beginning, 63 characters.
TEST(KubernetesTest, NamesAreAtMost45CharactersAndDiffer) {
  CampaignPlan plan = with_space(group_cells({gpu_cell(16, 2), gpu_cell(16, 2)}, kByGpus));
  const auto names = [&plan] {
    std::vector<std::string> all;
    for (const YAML::Node& one : manifests(plan))
      all.push_back(one["metadata"]["name"].as<std::string>());
    return all;
  };
  plan.name = std::string(36, 'x');  // "sftbench-" has nine
  EXPECT_EQ(names()[0], "sftbench-" + plan.name);
  plan.name += "y";
  std::set<std::string> different;
  for (const std::string& name : names()) {
    EXPECT_EQ(name.size(), 45u);
    EXPECT_THAT(name, testing::MatchesRegex(
                          "sftbench-x+-[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]"));
    different.insert(name);
  }
  EXPECT_EQ(different.size(), 3u);
}

// Keys of a ConfigMap: letters, digits, '-', '_' and '.'.
TEST(KubernetesTest, AFileIsAKeyOfTheConfigMap) {
  CampaignPlan plan = with_space(group_cells({gpu_cell(1)}, kByGpus));
  const std::filesystem::path folder = temporary_file("folder");
  std::filesystem::create_directories(folder);
  const auto named = [&](const std::string& name) {
    std::ofstream(folder / name) << "b: 2\n";
    plan.options.front().value = (folder / name).string();
    return plan;
  };
  EXPECT_EQ(manifests(named("aZ09-_."))[0]["data"]["aZ09-_."].as<std::string>(), "b: 2\n");
  for (const char* name : {"a b", "a+b", "a~", "\xc3\xa9"})
    EXPECT_THAT(refusal(named(name), {}), HasSubstr("a ConfigMap has no such key")) << name;
}

TEST(KubernetesTest, APodHasItsEnvironmentAndSecretsByName) {
  CampaignPlan plan = with_space(group_cells({gpu_cell(16, 2), gpu_cell(1)}, kByGpus));
  plan.environment["XDG_DATA_HOME"] = "/elsewhere";
  plan.environment["DOLLARS"] = "$(HF_HOME)$$x$";  // $$ is one dollar sign, $x is itself
  plan.secrets = {"HF_TOKEN"};
  plan.parameters_file = *plan.options.front().value;
  const auto all = manifests(plan, {"service-account=roce", "network=nic", "queue=team"});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_FALSE(all[0]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"])
      << "files wait for nothing";
  const YAML::Node nodes = all[1]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"];
  const YAML::Node worker = all[2]["spec"]["template"];
  for (const YAML::Node& pod : {nodes, worker}) {
    EXPECT_FALSE(pod["metadata"]["annotations"]) << "no RoCE";
    EXPECT_EQ(pod["spec"]["serviceAccountName"].as<std::string>(), "roce");
    std::map<std::string, YAML::Node> variables;
    for (const YAML::Node& variable : pod["spec"]["containers"][0]["env"])
      variables[variable["name"].as<std::string>()] = variable;
    EXPECT_EQ(variables["HF_HOME"]["value"].as<std::string>(), "/data/huggingface");
    EXPECT_EQ(variables["XDG_DATA_HOME"]["value"].as<std::string>(), "/elsewhere");
    EXPECT_EQ(variables["DOLLARS"]["value"].as<std::string>(), "$$(HF_HOME)$$$x$");
    EXPECT_EQ(variables["SFTTRAINER_PARAMETERS_FILE"]["value"].as<std::string>(),
              "/config/" + std::filesystem::path(plan.parameters_file).filename().string());
    const YAML::Node secret = variables["HF_TOKEN"]["valueFrom"]["secretKeyRef"];
    EXPECT_EQ(secret["name"].as<std::string>(), "sftbench-env");
    EXPECT_EQ(secret["key"].as<std::string>(), "HF_TOKEN");
  }
  // The service of a JobSet gives each pod a name of its own.
  EXPECT_TRUE(all[1]["spec"]["network"]["enableDNSHostnames"].as<bool>());
  for (const YAML::Node& variable : nodes["spec"]["containers"][0]["env"]) {
    const auto name = variable["name"].as<std::string>();
    const auto set = all[1]["metadata"]["name"].as<std::string>();
    if (name == "MASTER_ADDR") {
      EXPECT_EQ(variable["value"].as<std::string>(), set + "-nodes-0-0." + set);
    } else if (name == "SFTBENCH_JOB_SECRET") {
      EXPECT_TRUE(variable["valueFrom"]["secretKeyRef"]["optional"].as<bool>());
    }
  }
  // Pods of one worker are on different nodes.
  const YAML::Node apart = nodes["spec"]["affinity"]["podAntiAffinity"]
                                ["requiredDuringSchedulingIgnoredDuringExecution"][0];
  EXPECT_EQ(apart["topologyKey"].as<std::string>(), "kubernetes.io/hostname");
  EXPECT_EQ(apart["labelSelector"]["matchLabels"]["sftbench/worker"].as<std::string>(),
            nodes["metadata"]["labels"]["sftbench/worker"].as<std::string>());
}

// Exit status 2: the command line is wrong. 4 and 6: what failed or remains would do so again.
TEST(KubernetesTest, AWorkerIsStartedAgainUnlessItsStatusTellsThatThisIsInVain) {
  const auto all = manifests(with_space(group_cells({gpu_cell(1), gpu_cell(16, 2)}, kByGpus)));
  EXPECT_EQ(all[1]["spec"]["failurePolicy"]["maxRestarts"].as<int>(), 3);
  const YAML::Node spec = all[2]["spec"];
  EXPECT_EQ(spec["backoffLimitPerIndex"].as<int>(), 3);
  const YAML::Node rules = spec["podFailurePolicy"]["rules"];
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[0]["action"].as<std::string>(), "Ignore");
  EXPECT_EQ(rules[1]["action"].as<std::string>(), "FailJob");
  EXPECT_EQ(rules[1]["onExitCodes"]["values"].as<std::vector<int>>(), std::vector<int>{2});
  EXPECT_EQ(rules[2]["action"].as<std::string>(), "FailIndex");
  EXPECT_EQ(rules[2]["onExitCodes"]["values"].as<std::vector<int>>(), (std::vector<int>{4, 6}));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
