// Manifests, read back by a YAML reader; against the published schemas: tests/campaign/manifests.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <fstream>
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
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
