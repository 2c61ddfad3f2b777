// The variables of launchers, as real ones left them (tests/reference/launchers.sh), to places.
#include "sftbench/cluster/launcher_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cluster/slurm_lists.h"
#include "sftbench/base/build_info.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::ElementsAre;
using testing::HasSubstr;

Environment captured(const std::string& name) {
  std::ifstream file(std::string(SFTBENCH_TEST_DATA) + "/launchers/" + name + ".env");
  EXPECT_TRUE(file) << name;
  Environment environment;
  for (std::string line; std::getline(file, line);) {
    const size_t equals = line.find('=');
    environment[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return environment;
}

Environment changed(Environment environment, const Environment& changes) {
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

std::string refusal(const Environment& environment) {
  try {
    launcher_place(environment);
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was refused";
}

struct Captured {
  const char* name;
  const char* launcher;
  const char* address;
};

class CapturedTest : public testing::TestWithParam<Captured> {};

// Two hosts with two ranks each.
TEST_P(CapturedTest, EachRankFindsItsPlaceAndAllMeetAtOne) {
  const Captured& launcher = GetParam();
  std::optional<RankPlace> first;
  for (int rank = 0; rank < 4; ++rank) {
    SCOPED_TRACE(rank);
    const Environment environment =
        captured(std::string(launcher.name) + "." + std::to_string(rank));
    const std::optional<RankPlace> place = launcher_place(environment);
    ASSERT_TRUE(place.has_value());
    EXPECT_EQ(place->launcher, launcher.launcher);
    EXPECT_EQ(place->rank, rank);
    EXPECT_EQ(place->world_size, 4);
    EXPECT_EQ(place->local_rank, rank % 2);
    EXPECT_EQ(place->local_size, 2);
    EXPECT_EQ(place->node, rank / 2);
    EXPECT_EQ(place->nodes, 2);
    EXPECT_EQ(place->address, launcher.address);
    // Two builds of one release are not the same program.
    EXPECT_THAT(place->version, HasSubstr(build_info().commit));
    if (!first) first = place;
    EXPECT_EQ(place->port, first->port);
    EXPECT_EQ(place->session, first->session);
  }
  EXPECT_THAT(first->session, testing::StartsWith(std::string(launcher.launcher) + ":"));
}

INSTANTIATE_TEST_SUITE_P(Launchers, CapturedTest,
                         testing::Values(Captured{"slurm", "slurm", "n1"},
                                         Captured{"openmpi", "mpi", "10.77.0.1"},
                                         Captured{"torchrun", "torchrun", "n1"}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(LauncherPlaceTest, ABatchScriptIsNoRank) {
  EXPECT_FALSE(launcher_place(captured("slurm_batch.0")).has_value());
  EXPECT_EQ(launcher_name(captured("slurm_batch.0")), "none");
}

TEST(LauncherPlaceTest, ALoneTaskStartsItsRanksItself) {
  EXPECT_FALSE(launcher_place({}).has_value());
  EXPECT_FALSE(launcher_place({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).has_value());
  // An indexed job of Kubernetes whose pods work each for itself.
  const Environment pod = {{"JOB_COMPLETION_INDEX", "3"}, {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
  EXPECT_FALSE(launcher_place(pod).has_value());
  EXPECT_EQ(launcher_name(pod), "kubernetes");
}

TEST(LauncherPlaceTest, OfSeveralLaunchersTheInnermostCounts) {
  const Environment slurm = captured("slurm.1");  // whose srun started mpirun's daemon
  EXPECT_EQ(launcher_place(changed(slurm, captured("openmpi.2")))->rank, 2);
  const Environment both = changed(slurm, captured("torchrun.3"));
  EXPECT_EQ(launcher_place(both)->rank, 3);
  EXPECT_EQ(launcher_place(both)->launcher, "torchrun");
  // srun --mpi=pmi2 says the same twice; mpiexec over srun says what its own ranks are.
  EXPECT_EQ(launcher_place(changed(slurm, {{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}))->launcher,
            "slurm");
  const Environment hydra = changed(slurm, {{"PMI_RANK", "5"},
                                            {"PMI_SIZE", "8"},
                                            {"MPI_LOCALRANKID", "1"},
                                            {"MPI_LOCALNRANKS", "4"},
                                            {"MASTER_ADDR", "n1"}});
  EXPECT_EQ(launcher_place(hydra)->rank, 5);
  EXPECT_EQ(launcher_place(hydra)->node, 1);
}

TEST(LauncherPlaceTest, ByHandARankIsItsNodesOnlyOneUnlessItSaysOtherwise) {
  const Environment pods = {{"RANK", "1"},
                            {"WORLD_SIZE", "4"},
                            {"MASTER_ADDR", "job-0"},
                            {"MASTER_PORT", "23456"},
                            {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}};
  const RankPlace pod = *launcher_place(pods);
  EXPECT_EQ(pod.node, 1);
  EXPECT_EQ(pod.nodes, 4);
  EXPECT_EQ(pod.port, 23456);
  EXPECT_EQ(pod.launcher, "kubernetes");
  const RankPlace second =
      *launcher_place(changed(pods, {{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}}));
  EXPECT_EQ(second.node, 0);
  EXPECT_EQ(second.nodes, 2);
  EXPECT_EQ(second.local_size, 2);
}

TEST(LauncherPlaceTest, AddressAndPortCanBeGiven) {
  const Environment slurm = captured("slurm.0");
  const int derived = launcher_place(slurm)->port;
  EXPECT_GE(derived, 20000);
  EXPECT_LT(derived, 30000);
  EXPECT_NE(launcher_place(changed(slurm, {{"SLURM_STEP_ID", "7"}}))->port, derived);
  const RankPlace given =
      *launcher_place(changed(slurm, {{"MASTER_ADDR", "10.0.0.9"}, {"MASTER_PORT", "1234"}}));
  EXPECT_EQ(given.address, "10.0.0.9");
  EXPECT_EQ(given.port, 1234);
  // At MASTER_PORT listens torchrun's agent, unless it leaves that to rank 0.
  const Environment torchrun = captured("torchrun.0");
  EXPECT_EQ(launcher_place(torchrun)->port, 29401);
  EXPECT_EQ(launcher_place(changed(torchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}))->port,
            29400);
  EXPECT_EQ(launcher_place(changed(torchrun, {{"MASTER_PORT", "65535"}}))->port, 65534);
  EXPECT_EQ(launcher_place(changed(torchrun, {{"SFTBENCH_PORT", "5555"}}))->port, 5555);
}

TEST(LauncherPlaceTest, ANodeOfItsOwnNeedsNoAddress) {
  const Environment local = {{"OMPI_COMM_WORLD_RANK", "1"},
                             {"OMPI_COMM_WORLD_SIZE", "2"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_EQ(launcher_place(local)->address, "127.0.0.1");
}

TEST(LauncherPlaceTest, RanksOfOneNodeMeetOnLoopbackWhateverTheNodeIsCalled) {
  const Environment local = {
      {"RANK", "1"},        {"WORLD_SIZE", "2"},       {"LOCAL_RANK", "1"},
      {"MASTER_PORT", "1"}, {"LOCAL_WORLD_SIZE", "2"}, {"MASTER_ADDR", "n1"}};
  EXPECT_EQ(launcher_place(local)->address, "127.0.0.1");
}

TEST(LauncherPlaceTest, TheSecretAndTheInterfaceAreTheEnvironments) {
  const RankPlace without = *launcher_place(captured("slurm.0"));
  EXPECT_EQ(without.secret + without.interface, "");
  const RankPlace place =
      *launcher_place(changed(captured("slurm.0"), {{"SFTBENCH_JOB_SECRET", "sixteen letters!"},
                                                    {"SFTBENCH_SOCKET_IFNAME", "ib0"}}));
  EXPECT_EQ(place.secret, "sixteen letters!");
  EXPECT_EQ(place.interface, "ib0");
  EXPECT_EQ(place.session, without.session);
  EXPECT_EQ(place.port, without.port);
  EXPECT_THAT(refusal(changed(captured("slurm.0"), {{"SFTBENCH_JOB_SECRET", "short"}})),
              HasSubstr("SFTBENCH_JOB_SECRET: a secret of 5 characters"));
}

TEST(LauncherPlaceTest, WhatIsMissingOrContradictoryIsNamedWithWhatWasFound) {
  EXPECT_EQ(refusal({{"RANK", "2"}}), "RANK and WORLD_SIZE: WORLD_SIZE is missing; found RANK=2");
  EXPECT_EQ(refusal({{"WORLD_SIZE", "2"}}), "RANK and WORLD_SIZE: RANK is missing");
  EXPECT_EQ(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
            "RANK and WORLD_SIZE: rank 2 of 2; found RANK=2 WORLD_SIZE=2");
  EXPECT_EQ(refusal({{"RANK", "one"}, {"WORLD_SIZE", "2"}}),
            "RANK and WORLD_SIZE: RANK is no count; found RANK=one");
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}),
              HasSubstr("LOCAL_WORLD_SIZE is missing; found RANK=0 WORLD_SIZE=2 LOCAL_RANK=0"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}}),
              HasSubstr("nothing says where rank 0 is; found RANK=0 WORLD_SIZE=2; expected "
                        "MASTER_ADDR"));
  EXPECT_THAT(refusal(changed(captured("slurm.0"), {{"SLURM_STEP_TASKS_PER_NODE", "2(y2)"}})),
              HasSubstr("slurm: found '2(y2)'; expected counts of tasks such as 2(x3),1"));
  EXPECT_THAT(refusal(changed(captured("slurm.3"), {{"SLURM_STEP_TASKS_PER_NODE", "4"}})),
              HasSubstr("SLURM_STEP_TASKS_PER_NODE does not tell about node 1"));
  EXPECT_THAT(refusal(changed(captured("torchrun.3"), {{"LOCAL_RANK", "2"}})),
              HasSubstr("torchrun: local rank 2 of 2"));
  EXPECT_THAT(refusal(changed(captured("torchrun.0"), {{"SFTBENCH_PORT", "70000"}})),
              HasSubstr("port 70000"));
}

TEST(LauncherPlaceTest, RanksThatMpirunDealsOutInTurnAreRefused) {
  // --map-by node: ranks 0 and 2 on one host, 1 and 3 on the other.
  const Environment dealt = changed(captured("openmpi.1"), {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  EXPECT_THAT(refusal(dealt), HasSubstr("not laid out node by node"));
  EXPECT_THAT(refusal(dealt), HasSubstr("--map-by ppr:N:node"));
}

TEST(LauncherPlaceTest, RankZeroOnAnotherMachineThanMpirunIsToldWhatHelps) {
  RankPlace place = *launcher_place(captured("openmpi.0"));
  place.address = "198.51.100.1";  // of no machine: for documentation
  try {
    check_mpirun_address(place, captured("openmpi.0"));
    FAIL() << "rank 0 believed that it is elsewhere";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("mpirun -x MASTER_ADDR="));
  }
  EXPECT_NO_THROW(check_mpirun_address(
      place, changed(captured("openmpi.0"), {{"MASTER_ADDR", "198.51.100.1"}})));
  place.address = "localhost";
  EXPECT_NO_THROW(check_mpirun_address(place, captured("openmpi.0")));
}

TEST(LauncherVariablesTest, DoctorSeesWhatIsSet) {
  const auto found = launcher_variables(captured("torchrun.1"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].first, "torchrun");
  EXPECT_THAT(found[0].second,
              ElementsAre("RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
                          "GROUP_RANK=0", "GROUP_WORLD_SIZE=2"));
  EXPECT_TRUE(launcher_variables({}).empty());
}

TEST(SlurmListsTest, HostsAreSpelledOut) {
  EXPECT_THAT(expand_host_list("n1"), ElementsAre("n1"));
  EXPECT_THAT(expand_host_list("n[01-03,7],login"),
              ElementsAre("n01", "n02", "n03", "n7", "login"));
  EXPECT_THAT(expand_host_list("n[9-11]"), ElementsAre("n9", "n10", "n11"));
  EXPECT_THAT(expand_host_list("r[1-2]n[0-1]-ib"),
              ElementsAre("r1n0-ib", "r1n1-ib", "r2n0-ib", "r2n1-ib"));
}

TEST(SlurmListsTest, WhatIsNoListIsRefused) {
  for (const char* list : {"", "n[", "n]", "n[]", "n[2-1]", "n[a]", "n1,,n2", "n[1-99999999]"}) {
    EXPECT_THROW(expand_host_list(list), InputError) << list;
  }
}

TEST(SlurmListsTest, TaskCountsAreSpelledOut) {
  EXPECT_THAT(expand_task_counts("2(x3),1"), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(expand_task_counts("4"), ElementsAre(4));
  for (const char* counts : {"", "2(x", "2(x)", "(x2)", "2(x99999999)", "two"}) {
    EXPECT_THROW(expand_task_counts(counts), InputError) << counts;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
