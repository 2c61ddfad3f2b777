#include "cli/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <fstream>

#include "cli/program.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// subject -> finding, of `sftbench doctor --format json`.
std::map<std::string, Json> findings(const std::map<std::string, std::string>& environment,
                                     int expected_status = 0) {
  const ProgramResult result = run_program({"doctor", "--format", "json"}, environment);
  EXPECT_EQ(result.status, expected_status) << result.err;
  std::map<std::string, Json> by_subject;
  for (Json finding : Json::parse(result.out)) by_subject[finding["subject"]] = finding;
  return by_subject;
}

TEST(DoctorTest, TellsAboutEveryPartOfTheMachine) {
  const auto found = findings({});
  for (const char* subject : {"program",
                              "files",
                              "cpu",
                              "cpu instructions",
                              "memory",
                              "libtorch",
                              "blas",
                              "threads",
                              "nvidia driver",
                              "gpus",
                              "cuda",
                              "nccl",
                              "rdma devices",
                              "locked memory",
                              "launcher",
                              "job secret",
                              "disk for datasets",
                              "disk for results",
                              "datasets",
                              "hugging face cache"}) {
    EXPECT_EQ(found.count(subject), 1u) << subject;
  }
  EXPECT_EQ(found.at("libtorch")["found"], "0.0-fake");
  EXPECT_EQ(found.at("datasets")["found"].get<std::string>().rfind("0 of ", 0), 0u);
}

TEST(DoctorTest, AnEngineThatIsMissingIsTheReasonForStatusFour) {
  const auto found = findings({{"SFTBENCH_ENGINE", "/nowhere/engine.so"}}, 4);
  EXPECT_EQ(found.at("libtorch")["state"], "missing");
  EXPECT_THAT(found.at("libtorch")["found"].get<std::string>(), HasSubstr("/nowhere/engine.so"));
  EXPECT_THAT(found.at("libtorch")["advice"].get<std::string>(), HasSubstr("sftbench[train]"));
}

TEST(DoctorTest, ListsGpusAndWhetherTheirPeaksAreKnown) {
  const auto found =
      findings({{"LD_LIBRARY_PATH", fs::path(SFTBENCH_FAKE_NVML).parent_path()},
                {"FAKE_NVML_GPUS", "NVIDIA H100 80GB HBM3;Future GPU 9000;Tesla V100-SXM2-16GB"}});
  EXPECT_EQ(found.at("nvidia driver")["found"], "570.00");
  EXPECT_EQ(found.at("gpu 0")["found"], "NVIDIA H100 80GB HBM3, 80.0 GiB");
  EXPECT_EQ(found.at("gpu 0")["advice"], "gpu_model: NVIDIA-H100-80GB-HBM3");
  EXPECT_EQ(found.at("gpu 1")["state"], "warn");
  EXPECT_EQ(found.at("gpu 2")["state"], "warn");
  EXPECT_THAT(found.at("gpu 2")["advice"].get<std::string>(),
              HasSubstr("no code for its compute capability 7.0"));
  EXPECT_EQ(found.at("cuda")["state"], "missing");  // the fake engine's libtorch is for CPUs
  EXPECT_EQ(found.at("nccl")["state"], "missing");
}

TEST(DoctorTest, CoresThatAnAffinityMaskKeepsAwayAreAWarning) {
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  if (online < 2) GTEST_SKIP() << "this machine has one core: no mask can keep any away";
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);  // children inherit it
  const auto found = findings({});
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_EQ(found.at("threads")["state"], "warn");
  EXPECT_EQ(found.at("threads")["found"], "1 of " + std::to_string(online) + " cores");
}

TEST(JudgeTest, ReferenceBlasIsAWarningWithTheCure) {
  EXPECT_EQ(judge_blas({{"blas", "OpenBLAS 0.3.21"}}).state, "ok");
  const Finding slow = judge_blas({{"blas", "reference BLAS (/usr/lib/blas/libblas.so.3)"}});
  EXPECT_EQ(slow.state, "warn");
  EXPECT_THAT(slow.advice, HasSubstr("apt-get install libopenblas0-openmp"));
  EXPECT_EQ(judge_blas(Json::object()).state, "none");
}

TEST(JudgeTest, ProductsAreSaidByDtype) {
  const Finding found =
      judge_products({{"products", {{"float32", "oneDNN 2.6.3"}, {"bfloat16", "sftbench"}}}});
  EXPECT_EQ(found.state, "ok");
  EXPECT_EQ(found.found, "float32 by oneDNN 2.6.3; bfloat16 by sftbench");
  EXPECT_EQ(judge_products(Json::object()).state, "none");
}

TEST(JudgeTest, BfloatArithmeticIsLookedForAmongTheCpusFlags) {
  EXPECT_EQ(judge_cpu_flags({"fpu", "avx2", "avx512f", "avx512_bf16"}).state, "ok");
  EXPECT_EQ(judge_cpu_flags({"amx_bf16"}).found, "amx_bf16");
  const Finding old = judge_cpu_flags({"avx2"});
  EXPECT_EQ(old.state, "warn");
  EXPECT_EQ(old.found, "avx2");
  EXPECT_THAT(old.advice, HasSubstr("float32"));
}

TEST(JudgeTest, CudaAndNcclAreMissingOnlyWhereGpusWouldNeedThem) {
  EXPECT_EQ(judge_cuda({}, 0).state, "none");
  EXPECT_EQ(judge_cuda({}, 1).state, "missing");
  const EngineProbe works = {{{"cuda", "13.0"}, {"libtorch", "2.11.0"}}, ""};
  EXPECT_EQ(judge_cuda(works, 1).state, "ok");
  EXPECT_EQ(judge_cuda(works, 1).found, "13.0 of libtorch 2.11.0");
  const EngineProbe broken = {Json::object(), "libcudart.so.13 is missing"};
  EXPECT_EQ(judge_cuda(broken, 1).state, "missing");
  EXPECT_EQ(judge_cuda(broken, 0).state, "none");
  EXPECT_EQ(judge_nccl(Json::object(), 1).state, "none");
  EXPECT_EQ(judge_nccl(Json::object(), 2).state, "missing");
  EXPECT_EQ(judge_nccl({{"nccl", "2.27"}}, 2).state, "ok");
}

TEST(JudgeTest, RdmaPortsAreShownWithTheAddressesThatRoceCouldUse) {
  EXPECT_EQ(judge_rdma({}).front().state, "none");
  RdmaPort port = {"mlx5_0", 1, "Ethernet", "ACTIVE", "200 Gb/sec (4X HDR)", {}};
  EXPECT_EQ(judge_rdma({port}).front().state, "warn");  // no address
  port.gids = {{1, "RoCE v2", "fe80::1", "", "net1-0"},
               {2, "IB/RoCE v1", "x", "10.0.0.1", "net1-0"},
               {3, "RoCE v2", "x", "10.0.0.1", "net1-0"}};
  const Finding found = judge_rdma({port}).front();
  EXPECT_EQ(found.subject, "rdma mlx5_0:1");
  EXPECT_EQ(found.state, "ok");
  EXPECT_EQ(found.found,
            "Ethernet, ACTIVE, 200 Gb/sec (4X HDR), RoCE v2 GIDs: 1 fe80::1 on net1-0; 3 10.0.0.1 "
            "on net1-0");
  port.state = "DOWN";
  EXPECT_EQ(judge_rdma({port}).front().advice, "its link is not up");
}

TEST(JudgeTest, ALimitOnLockedMemoryMattersWhereThereIsRdma) {
  EXPECT_EQ(judge_locked_memory("", true).state, "ok");
  EXPECT_EQ(judge_locked_memory("no more than 65536 bytes", true).state, "warn");
  EXPECT_EQ(judge_locked_memory("no more than 65536 bytes", false).state, "none");
}

TEST(JudgeTest, TheLaunchersVariablesAreShownWithWhatTheyComeTo) {
  EXPECT_EQ(judge_launcher({}).state, "none");
  const Environment rank = {
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(judge_launcher(rank).found, "by hand: RANK=1 WORLD_SIZE=2");
  EXPECT_EQ(judge_launcher(rank).advice, "rank 1 of 2, which meet at n1:29500");
  const Finding broken = judge_launcher({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(broken.state, "warn");
  EXPECT_THAT(broken.advice, HasSubstr("rank 2 of 2"));
}

TEST(JudgeTest, TheJobsSecretIsFoundAndNeverShown) {
  EXPECT_EQ(judge_job_secret({}).state, "none");
  EXPECT_THAT(judge_job_secret({}).advice, HasSubstr("openssl rand -hex 32"));
  const std::string secret = "0123456789abcdef-secret";
  const Finding found = judge_job_secret({{"SFTBENCH_JOB_SECRET", secret}});
  EXPECT_EQ(found.state, "ok");
  EXPECT_EQ(found.found, "SFTBENCH_JOB_SECRET");
  const Finding brief = judge_job_secret({{"SFTBENCH_JOB_SECRET", "hush"}});
  EXPECT_EQ(brief.state, "warn");
  EXPECT_THAT(brief.advice, HasSubstr("16 characters"));
  EXPECT_THAT(brief.advice, Not(HasSubstr("hush")));
}

TEST(FindTest, DiskSpaceIsThatOfTheNearestFolderThatExists) {
  const fs::path folder = fresh_folder("disk");
  const Finding there = find_disk("disk", folder);
  const Finding not_there = find_disk("disk", folder / "a/b/c");
  EXPECT_THAT(there.found, HasSubstr(" free for " + folder.string()));
  EXPECT_EQ(there.state, not_there.state);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
