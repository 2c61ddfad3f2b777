// Workers on Ray, against a head that is made up; against a real one:
// tests/distributed/campaign.sh.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <minizip/unzip.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

#include "campaign/campaign_fixture.h"
#include "campaign/fake_ray.h"
#include "campaign/ray_package.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/campaign/engines.h"
#include "temporary_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class RayTest : public testing::Test {
 protected:
  CampaignPlan plan(std::vector<WorkerGroup> groups) {
    CampaignPlan all = plan_of(std::move(groups));
    const std::string path = temporary_file("space.yaml");
    std::ofstream(path) << "a: 1\n";
    all.program = "sftbench";
    all.output = "/shared/results";
    all.options.front().value = path;
    all.environment = {{"HF_HOME", "/shared/hf"}};
    return all;
  }
  CampaignPlan one_worker() { return plan(group_cells({cells_.front()}, {{}, 1})); }

  int run(const CampaignPlan& plan, const std::string& address = {}) {
    RaySettings settings;
    settings.address = address.empty() ? ray_.url() : address;
    settings.poll_s = 0.005;
    settings.patience_s = patience_s_;
    settings.pending_s = pending_s_;
    settings.interrupt_fd = interrupt_fd_;
    CampaignLog log;
    log.info = log.warn = [this](const std::string& text) {
      said_ += text + "\n";
      on_log_(text);
    };
    std::ostringstream out;
    return make_ray_engine(settings, log)->start(plan, out);
  }

  std::string refusal(const CampaignPlan& plan, const std::string& address = {}) {
    try {
      run(plan, address);
    } catch (const InputError& error) {
      return error.what();
    }
    return "nothing was refused";
  }

  FakeRay ray_;
  std::vector<CampaignCell> cells_ = {gpu_cell(4, 1, "NVIDIA-A100-SXM4-80GB")};
  std::string said_;
  std::function<void(const std::string&)> on_log_ = [](const std::string&) {};
  int interrupt_fd_ = -1;
  double patience_s_ = 30;
  double pending_s_ = 30;
};

TEST_F(RayTest, AWorkerIsAJobWithResourcesByAdosConvention) {
  EXPECT_EQ(run(one_worker()), 0);
  ASSERT_THAT(ray_.submitted(), SizeIs(1));
  const Json job = ray_.submitted().front();
  EXPECT_EQ(job.at("entrypoint_num_gpus"), 4);
  EXPECT_EQ(job.at("entrypoint_num_cpus"), 8);
  EXPECT_EQ(job.at("entrypoint_resources"), Json({{"NVIDIA-A100-SXM4-80GB", 4}}));
  EXPECT_EQ(job.at("runtime_env").at("env_vars"), Json({{"HF_HOME", "/shared/hf"}}));
  EXPECT_THAT(job.at("entrypoint").get<std::string>(),
              AllOf(HasSubstr("sftbench sweep ./"), HasSubstr("--worker -o /shared/results")));
  const auto uri = job.at("runtime_env").at("working_dir").get<std::string>();
  EXPECT_THAT(uri, AllOf(HasSubstr("gcs://_ray_pkg_"), HasSubstr(".zip")));
  EXPECT_EQ(ray_.count(uri.substr(6)), 2) << "asked for, then uploaded";
  EXPECT_THAT(ray_.package(), Not(HasSubstr("ray_nodes.py"))) << "of several nodes alone";
}

TEST_F(RayTest, ACellOfTheCpuAsksForTwoCpusAndNoGpu) {
  cells_ = {cpu_cell()};
  EXPECT_EQ(run(one_worker()), 0);
  const Json job = ray_.submitted().at(0);
  EXPECT_EQ(job.at("entrypoint_num_cpus"), 2);
  EXPECT_FALSE(job.contains("entrypoint_num_gpus"));
  EXPECT_FALSE(job.contains("entrypoint_resources"));
  cells_.front().need->cores = 3;
  EXPECT_EQ(run(one_worker()), 0);
  EXPECT_EQ(ray_.submitted().at(1).at("entrypoint_num_cpus"), 3);
}

TEST_F(RayTest, ThePackageHoldsTheSpacesFile) {
  const CampaignPlan all = one_worker();
  EXPECT_EQ(run(all), 0);
  const std::string path = temporary_file("package.zip");
  std::ofstream(path) << ray_.package();
  unzFile zip = ::unzOpen(path.c_str());
  ASSERT_NE(zip, nullptr);
  const std::string name = std::filesystem::path(*all.options.front().value).filename();
  ASSERT_EQ(::unzLocateFile(zip, name.c_str(), 1), UNZ_OK);
  ASSERT_EQ(::unzOpenCurrentFile(zip), UNZ_OK);
  char text[16] = {};
  EXPECT_EQ(::unzReadCurrentFile(zip, text, sizeof text), 5);
  EXPECT_STREQ(text, "a: 1\n");
  EXPECT_EQ(::unzCloseCurrentFile(zip), UNZ_OK) << "its checksum";
  ::unzClose(zip);
}

TEST_F(RayTest, TheSameCommandAgainFollowsWhatRunsAndSubmitsAnewWhatHasEnded) {
  const CampaignPlan all = one_worker();
  EXPECT_EQ(run(all), 0);
  const auto id = ray_.submitted().at(0).at("submission_id").get<std::string>();
  ray_.add(id, {{"RUNNING", "RUNNING", "SUCCEEDED"}, 0, "", ""});
  EXPECT_EQ(run(all), 0);
  EXPECT_THAT(ray_.submitted(), SizeIs(1));
  EXPECT_THAT(said_, HasSubstr("runs already"));
  EXPECT_EQ(run(all), 0);
  ASSERT_THAT(ray_.submitted(), SizeIs(2));
  EXPECT_EQ(ray_.submitted().at(1).at("submission_id"), id + "-2");
}

TEST_F(RayTest, EachWorkerOfEachCampaignHasAnIdOfItsOwn) {
  std::vector<CampaignCell> cells = {gpu_cell(1), gpu_cell(1), gpu_cell(2)};
  CampaignPlan all = plan(group_cells(cells, kByGpus));
  EXPECT_EQ(run(all), 0);
  all.output = "/shared/others";
  EXPECT_EQ(run(all), 0);
  std::set<std::string> ids;
  for (const Json& job : ray_.submitted()) ids.insert(job.at("submission_id"));
  EXPECT_THAT(ids, SizeIs(6));
}

TEST_F(RayTest, LogsAreShownOnceLineByLine) {
  ray_.fate = [](int) {
    return FakeRay::Job{{"RUNNING", "RUNNING", "SUCCEEDED"}, 0, "one\n\x1b[2Jtwo\nthree", ""};
  };
  EXPECT_EQ(run(one_worker()), 0);
  EXPECT_THAT(said_,
              AllOf(HasSubstr("/1  one\n"), HasSubstr("\\x1b[2Jtwo\n"), HasSubstr("/1  three\n")));
  EXPECT_EQ(said_.find("/1  one"), said_.rfind("/1  one"));
}

// A line that has no end yet may go on. Logs are asked for every 3 s, and at the end.
TEST_F(RayTest, LogsOfAJobThatRunsAreWholeLinesNowAndThen) {
  constexpr int kLooks = 20;
  ray_.fate = [](int) { return FakeRay::Job{{"RUNNING"}, {}, "", ""}; };
  ray_.fault = [looks = 0](const ServedRequest& request,
                           int) mutable -> std::optional<ServedReply> {
    if (request.path().ends_with("/logs")) {
      const std::string text = looks < kLooks ? "one\nbegin" : "one\nbegin end";
      return ServedReply{200, {}, Json{{"logs", text}}.dump()};
    }
    if (request.path().rfind("/api/jobs/sftbench-", 0) != 0 || ++looks < kLooks) return {};
    return ServedReply{200, {}, R"({"status": "SUCCEEDED"})"};
  };
  EXPECT_EQ(run(one_worker()), 0);
  EXPECT_LT(ray_.count("/logs"), kLooks - 2) << "not at each look";
  EXPECT_THAT(said_, AllOf(HasSubstr("/1  one\n"), HasSubstr("/1  begin end\n"),
                           Not(HasSubstr("/1  begin\n"))));
}

TEST_F(RayTest, ALostWorkerStartsAgainAndIsGivenUpAtLast) {
  ray_.fate = [](int nth) {
    return nth == 1 ? FakeRay::Job{{"RUNNING", "FAILED"}, {}, "", "node died"}
                    : FakeRay::Job{{"SUCCEEDED"}, 0, "", ""};
  };
  EXPECT_EQ(run(one_worker()), 0);
  EXPECT_THAT(ray_.submitted(), SizeIs(2));
  EXPECT_THAT(said_, HasSubstr("was lost: node died"));
}

TEST_F(RayTest, AWorkerThatIsLostEachTimeIsGivenUp) {
  ray_.fate = [](int) { return FakeRay::Job{{"FAILED"}, {}, "", "node died"}; };
  EXPECT_EQ(run(one_worker()), 4);
  EXPECT_THAT(said_, HasSubstr("was lost 4 times and is given up"));
  ASSERT_THAT(ray_.submitted(), SizeIs(4));
  const auto id = ray_.submitted()[0].at("submission_id").get<std::string>();
  for (const size_t attempt : {2, 3, 4})
    EXPECT_EQ(ray_.submitted()[attempt - 1].at("submission_id"),
              id + "-" + std::to_string(attempt));
}

TEST_F(RayTest, TheWorstOfTheWorkersStatusesIsThatOfTheCampaign) {
  cells_ = {gpu_cell(1), gpu_cell(1)};
  const struct {
    int first, second, expected;
  } kStatuses[] = {{0, 6, 6}, {6, 0, 6}, {6, 4, 4}, {4, 6, 4}, {0, 4, 4},
                   {4, 0, 4}, {4, 2, 2}, {2, 6, 2}, {0, 2, 2}, {6, 6, 6}};
  for (const auto& [first, second, expected] : kStatuses) {
    const size_t before = ray_.submitted().size();
    ray_.fate = [&, odd = first, even = second](int nth) {
      const int status = (static_cast<size_t>(nth) - before) % 2 == 1 ? odd : even;
      return FakeRay::Job{{status == 0 ? "SUCCEEDED" : "FAILED"}, status, "", ""};
    };
    EXPECT_EQ(run(plan(group_cells(cells_, {{}, 2}))), expected) << first << " and " << second;
    EXPECT_THAT(ray_.submitted(), SizeIs(before + 2));
  }
}

TEST_F(RayTest, AJobThatSomebodyStoppedIsNotStartedAgain) {
  ray_.fate = [](int) { return FakeRay::Job{{"RUNNING", "STOPPED"}, {}, "", ""}; };
  EXPECT_EQ(run(one_worker()), 4);
  EXPECT_THAT(ray_.submitted(), SizeIs(1));
  EXPECT_THAT(said_, HasSubstr("/1 was stopped"));
}

TEST_F(RayTest, AWorkersOwnVerdictIsNoLoss) {
  for (const int status : {2, 4, 6}) {
    ray_.fate = [status](int) { return FakeRay::Job{{"FAILED"}, status, "", ""}; };
    const size_t before = ray_.submitted().size();
    EXPECT_EQ(run(one_worker()), status);
    EXPECT_THAT(ray_.submitted(), SizeIs(before + 1));
  }
}

TEST_F(RayTest, AHeadThatIsAwayForAWhileCostsNothing) {
  ray_.fault = [](const ServedRequest&, int nth) -> std::optional<ServedReply> {
    if (nth == 7 || nth == 8) return ServedReply{503, {}, ""};
    if (nth == 9) {
      ServedReply lost{200, {}, "{}"};
      lost.cut_after_bytes = 0;
      return lost;
    }
    return std::nullopt;
  };
  ray_.fate = [](int) {
    return FakeRay::Job{{"RUNNING", "RUNNING", "RUNNING", "RUNNING", "SUCCEEDED"}, 0, "", ""};
  };
  EXPECT_EQ(run(one_worker()), 0);
  EXPECT_THAT(ray_.submitted(), SizeIs(1));
  EXPECT_THAT(said_, AllOf(HasSubstr("trying again for 30 s"), HasSubstr("is back")));
}

TEST_F(RayTest, AHeadThatHasForgottenTheJobGetsItAgain) {
  bool forgotten = false;
  ray_.fate = [](int nth) {
    return nth == 1 ? FakeRay::Job{{"RUNNING"}, {}, "", ""}
                    : FakeRay::Job{{"SUCCEEDED"}, 0, "", ""};
  };
  on_log_ = [&](const std::string& text) {
    if (text.find("is submitted") != std::string::npos && !forgotten) {
      forgotten = true;
      ray_.forget_all();
    }
  };
  EXPECT_EQ(run(one_worker()), 0);
  ASSERT_THAT(ray_.submitted(), SizeIs(2));
  EXPECT_EQ(ray_.submitted()[0].at("submission_id"), ray_.submitted()[1].at("submission_id"));
}

TEST_F(RayTest, PatienceEnds) {
  patience_s_ = 0.02;
  ray_.fault = [](const ServedRequest&, int nth) -> std::optional<ServedReply> {
    return nth > 5 ? std::optional(ServedReply{503, {}, ""}) : std::nullopt;
  };
  EXPECT_EQ(run(one_worker()), 4);
  EXPECT_THAT(said_, HasSubstr("the same command follows them again"));
}

TEST_F(RayTest, CtrlCStopsTheJobs) {
  interrupt_fd_ = ::eventfd(0, EFD_CLOEXEC);
  ray_.fate = [](int) { return FakeRay::Job{{"RUNNING"}, {}, "", ""}; };
  on_log_ = [this](const std::string& text) {
    const uint64_t one = 1;
    if (text.find("is submitted") == std::string::npos) return;
    EXPECT_EQ(::write(interrupt_fd_, &one, sizeof one), 8);
  };
  EXPECT_EQ(run(one_worker()), 130);
  EXPECT_EQ(ray_.count("/stop"), 1);
  ::close(interrupt_fd_);
}

// Twice: this process ends, and the jobs go on until Ray has stopped them.
TEST_F(RayTest, CtrlCTwiceWaitsForNothing) {
  interrupt_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  ray_.fault = [](const ServedRequest& request, int) -> std::optional<ServedReply> {
    if (!request.path().ends_with("/stop")) return std::nullopt;
    return ServedReply{200, {}, "{}"};  // but it runs on
  };
  ray_.fate = [](int) { return FakeRay::Job{{"RUNNING"}, {}, "", ""}; };
  on_log_ = [this](const std::string& text) {
    const uint64_t two = 2;
    if (text.find("is submitted") == std::string::npos) return;
    EXPECT_EQ(::write(interrupt_fd_, &two, sizeof two), 8);
  };
  EXPECT_EQ(run(one_worker()), 130);
  EXPECT_EQ(ray_.count("/stop"), 1);
  ::close(interrupt_fd_);
}

TEST_F(RayTest, CtrlCWhileAJobIsLostStartsItNoMore) {
  interrupt_fd_ = ::eventfd(0, EFD_CLOEXEC);
  ray_.fate = [](int) { return FakeRay::Job{{"RUNNING", "FAILED"}, {}, "", "node died"}; };
  ray_.fault = [](const ServedRequest& request, int) -> std::optional<ServedReply> {
    if (!request.path().ends_with("/stop")) return std::nullopt;
    return ServedReply{200, {}, "{}"};
  };
  on_log_ = [this](const std::string& text) {
    const uint64_t one = 1;
    if (text.find("is submitted") == std::string::npos) return;
    EXPECT_EQ(::write(interrupt_fd_, &one, sizeof one), 8);
  };
  EXPECT_EQ(run(one_worker()), 130);
  EXPECT_THAT(ray_.submitted(), SizeIs(1));
  ::close(interrupt_fd_);
}

TEST_F(RayTest, CtrlCDoesNotWaitForAJobThatHasNoRoom) {
  interrupt_fd_ = ::eventfd(0, EFD_CLOEXEC);
  ray_.fate = [](int) { return FakeRay::Job{{"PENDING"}, {}, "", ""}; };
  on_log_ = [this](const std::string& text) {
    const uint64_t one = 1;
    if (text.find("is submitted") == std::string::npos) return;
    EXPECT_EQ(::write(interrupt_fd_, &one, sizeof one), 8);
  };
  EXPECT_EQ(run(one_worker()), 130);
  EXPECT_EQ(ray_.count("/stop"), 1);
  EXPECT_THAT(said_, HasSubstr("Ray stops it as soon as it does"));
  ::close(interrupt_fd_);
}

TEST_F(RayTest, CtrlCIsHeardWhileTheHeadIsAway) {
  interrupt_fd_ = ::eventfd(0, EFD_CLOEXEC);
  ray_.fault = [](const ServedRequest&, int nth) -> std::optional<ServedReply> {
    return nth > 5 ? std::optional(ServedReply{503, {}, ""}) : std::nullopt;
  };
  on_log_ = [this](const std::string& text) {
    const uint64_t one = 1;
    if (text.find("trying again") == std::string::npos) return;
    EXPECT_EQ(::write(interrupt_fd_, &one, sizeof one), 8);
  };
  EXPECT_EQ(run(one_worker()), 130);
  EXPECT_THAT(said_, HasSubstr("jobs that run go on"));
  ::close(interrupt_fd_);
}

TEST_F(RayTest, WhatIsNoRayIsNamed) {
  EXPECT_THAT(refusal(one_worker(), "http://127.0.0.1:1"),
              AllOf(HasSubstr("--ray-address: nothing answers at 127.0.0.1:1"), HasSubstr("8265")));
  EXPECT_THAT(refusal(one_worker(), "head:8265"), HasSubstr("found 'head:8265'"));
  for (const auto& [reply, problem] : std::vector<std::pair<ServedReply, std::string>>{
           {{404, {}, ""}, "answers with status 404: that is no Ray"},
           {{200, {}, "<html>"}, "answers, but not as Ray does"},
           {{200, {}, "{}"}, "names no ray_version"},
           {{401, {}, ""}, "RAY_AUTH_TOKEN"},
           {{403, {}, ""}, "RAY_AUTH_TOKEN"}}) {
    ray_.fault = [answer = reply](const ServedRequest&, int) { return answer; };
    EXPECT_THAT(refusal(one_worker()), HasSubstr(problem));
  }
}

TEST_F(RayTest, WhatRayRefusesIsToldInItsWords) {
  ray_.fault = [](const ServedRequest& request, int) -> std::optional<ServedReply> {
    if (request.path() != "/api/jobs/") return std::nullopt;
    return ServedReply{400, {}, "TypeError: no \x1b[31mgood"};
  };
  EXPECT_THAT(refusal(one_worker()),
              AllOf(HasSubstr("is refused"), HasSubstr("status 400"), HasSubstr("no \\x1b[31mgood"),
                    testing::Not(HasSubstr("RAY_AUTH_TOKEN"))));
  for (const int status : {401, 403}) {
    ray_.fault = [status](const ServedRequest& request, int) -> std::optional<ServedReply> {
      if (request.path() != "/api/jobs/") return std::nullopt;
      return ServedReply{status, {}, std::string(400, 'a') + (status == 403 ? "b" : "")};
    };
    EXPECT_THAT(refusal(one_worker()),
                AllOf(HasSubstr("RAY_AUTH_TOKEN"), HasSubstr(status == 403 ? "aa...)" : "aa)"),
                      testing::Not(HasSubstr("ab"))));
  }
}

TEST_F(RayTest, SeveralNodesAreReservedByTheirJob) {
  cells_ = {gpu_cell(16, 2, "L40S", true)};
  EXPECT_EQ(run(one_worker()), 0);
  const Json job = ray_.submitted().at(0);
  for (const char* resource :
       {"entrypoint_num_cpus", "entrypoint_num_gpus", "entrypoint_resources"})
    EXPECT_FALSE(job.contains(resource)) << "the nodes would have fewer for the ranks";
  EXPECT_THAT(job.at("entrypoint").get<std::string>(),
              AllOf(HasSubstr("python3 ray_nodes.py '{"),
                    HasSubstr(R"("bundle":{"CPU":16,"GPU":8,"L40S":8,"full-worker":1,"RoCE":1})"),
                    HasSubstr(R"("nodes":2)"), HasSubstr("--worker -o /shared/results")));
  EXPECT_THAT(ray_.package(), HasSubstr("ray_nodes.py"));
  cells_ = {cpu_cell()};
  cells_.front().need = DeviceNeed{2, 0, "", false, 3, 3};
  EXPECT_EQ(run(one_worker()), 0);
  EXPECT_THAT(ray_.submitted().at(1).at("entrypoint").get<std::string>(),
              HasSubstr(R"("bundle":{"CPU":3,"full-worker":1})"));
}

TEST_F(RayTest, AJobThatWaitsLongIsTold) {
  ray_.fate = [](int) {
    return FakeRay::Job{{"PENDING", "PENDING", "SUCCEEDED"}, 0, "", "no room"};
  };
  EXPECT_EQ(run(one_worker()), 0);
  EXPECT_THAT(said_, Not(HasSubstr("no room")));
  pending_s_ = 0;
  EXPECT_EQ(run(one_worker()), 0);
  EXPECT_THAT(said_, HasSubstr("/1: no room\n"));
  EXPECT_EQ(said_.find("no room"), said_.rfind("no room")) << "once";
  said_.clear();
  ray_.fate = [](int) { return FakeRay::Job{{"RUNNING", "SUCCEEDED"}, 0, "", "no room"}; };
  EXPECT_EQ(run(one_worker()), 0);
  EXPECT_THAT(said_, Not(HasSubstr("no room"))) << "it waits for nothing";
}

TEST_F(RayTest, FollowsItsJobs) {
  RaySettings settings;
  settings.address = ray_.url();
  EXPECT_TRUE(make_ray_engine(settings, {})->waits_for_workers());
  EXPECT_EQ(make_ray_engine(settings, {})->default_program(), "sftbench") << "of Ray's nodes";
}

TEST_F(RayTest, ResultsMustBeWhereAllNodesSeeThem) {
  CampaignPlan all = one_worker();
  all.output = "results";
  EXPECT_THAT(refusal(all), HasSubstr("an absolute path"));
}

TEST_F(RayTest, ASecretIsNoPartOfAJobThatOthersSee) {
  CampaignPlan all = one_worker();
  all.secrets = {"HF_TOKEN"};
  EXPECT_THAT(refusal(all), AllOf(HasSubstr("--env: Ray shows the environment of a job"),
                                  HasSubstr("expected HF_TOKEN where Ray's nodes start")));
  EXPECT_THAT(ray_.submitted(), IsEmpty());
}

TEST_F(RayTest, ParametersAreAFileOfThePackage) {
  CampaignPlan all = one_worker();
  all.parameters_file = temporary_file("parameters.json");
  std::ofstream(all.parameters_file) << "{}";
  EXPECT_EQ(run(all), 0);
  const std::string name = std::filesystem::path(all.parameters_file).filename();
  EXPECT_THAT(ray_.package(), HasSubstr(name));
  EXPECT_EQ(ray_.submitted().at(0)["runtime_env"]["env_vars"]["SFTTRAINER_PARAMETERS_FILE"],
            "./" + name);
}

TEST(RayPackageTest, IsTheSameForTheSameFiles) {
  const std::string package = ray_package({{"a", "1"}, {"b", "2"}});
  EXPECT_EQ(package, ray_package({{"a", "1"}, {"b", "2"}}));
  EXPECT_NE(ray_package_name(package), ray_package_name(ray_package({{"a", "1"}})));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
