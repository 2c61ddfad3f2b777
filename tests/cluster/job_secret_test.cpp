// Where a job's secret comes from, and what is refused as one.
#include "cluster/job_secret.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "sftbench/base/error.h"
#include "temporary_file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSecret = "0123456789abcdef0123456789abcdef";
constexpr const char* kOfMpirun = "d41d8cd98f00b204-e9800998ecf8427e";

// A file with `text` that only its owner may read.
fs::path secret_file(const std::string& text, mode_t mode = 0600) {
  const fs::path path = temporary_file("secret");
  std::ofstream(path) << text;
  EXPECT_EQ(::chmod(path.c_str(), mode), 0);
  return path;
}

std::string refusal(const Environment& environment) {
  try {
    job_secret(environment);
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(JobSecretTest, IsTheVariablesOrTheFilesOrMpiruns) {
  EXPECT_EQ(job_secret({}), "");
  EXPECT_EQ(job_secret({{"SFTBENCH_JOB_SECRET", kSecret}}), kSecret);
  const Environment file = {
      {"SFTBENCH_JOB_SECRET_FILE", secret_file(std::string(kSecret) + "\r\n")}};
  EXPECT_EQ(job_secret(file), kSecret);
  const Environment mpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_MCA_orte_precondition_transports", kOfMpirun}};
  EXPECT_EQ(job_secret(mpirun), kOfMpirun);
  Environment both = mpirun;
  both["SFTBENCH_JOB_SECRET"] = kSecret;
  EXPECT_EQ(job_secret(both), kSecret);
}

TEST(JobSecretTest, AKeyOfOpenMpiThatFollowsFromTheJobsNumberIsNone) {
  for (const char* key : {"017569a900000000-017569a900000000", "0000000000000001-e9800998ecf8427e",
                          "d41d8cd98f00b204-d41d8cd98f00b204", "", "d41d8cd98f00b204"}) {
    EXPECT_EQ(
        job_secret({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_MCA_orte_precondition_transports", key}}),
        "")
        << key;
  }
  // Left by an mpirun outside of what srun started.
  EXPECT_EQ(job_secret({{"OMPI_MCA_orte_precondition_transports", kOfMpirun}}), "");
}

TEST(JobSecretTest, WhatIsTooShortToBeOneIsRefusedWithoutRepeatingIt) {
  EXPECT_THAT(refusal({{"SFTBENCH_JOB_SECRET", "hunter2"}}),
              AllOf(HasSubstr("SFTBENCH_JOB_SECRET: a secret of 7 characters; expected at least 16 "
                              "characters, as of: openssl rand -hex 32"),
                    Not(HasSubstr("hunter2"))));
  EXPECT_THAT(refusal({{"SFTBENCH_JOB_SECRET_FILE", secret_file("hunter2\n")}}),
              AllOf(HasSubstr("a secret of 7 characters"), Not(HasSubstr("hunter2"))));
  EXPECT_THAT(refusal({{"SFTBENCH_JOB_SECRET_FILE", secret_file(std::string(9999, 'x'))}}),
              HasSubstr("a secret of "));
  EXPECT_THAT(
      refusal({{"SFTBENCH_JOB_SECRET", kSecret}, {"SFTBENCH_JOB_SECRET_FILE", "/nowhere"}}),
      HasSubstr("SFTBENCH_JOB_SECRET: is set, and so is SFTBENCH_JOB_SECRET_FILE; expected one of "
                "the two"));
}

TEST(JobSecretTest, AFileThatOthersMayReadOrWriteIsRefused) {
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0644, 0666}) {
    const fs::path file = secret_file(kSecret, mode);
    EXPECT_THAT(refusal({{"SFTBENCH_JOB_SECRET_FILE", file}}),
                AllOf(HasSubstr("others may read or write it; expected chmod 600 "),
                      HasSubstr(file.string()), Not(HasSubstr(kSecret))));
  }
  EXPECT_EQ(job_secret({{"SFTBENCH_JOB_SECRET_FILE", secret_file(kSecret, 0400)}}), kSecret);
}

TEST(JobSecretTest, WhatIsNoFileOfOnesOwnIsRefused) {
  EXPECT_THAT(refusal({{"SFTBENCH_JOB_SECRET_FILE", "/nowhere/secret"}}),
              HasSubstr("No such file or directory"));
  EXPECT_THAT(refusal({{"SFTBENCH_JOB_SECRET_FILE", testing::TempDir()}}),
              HasSubstr("is not a regular file"));
  const fs::path pipe = temporary_file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refusal({{"SFTBENCH_JOB_SECRET_FILE", pipe}}), HasSubstr("is not a regular file"));
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const fs::path others = secret_file(kSecret);
  ASSERT_EQ(::chown(others.c_str(), 65534, 65534), 0);
  EXPECT_THAT(refusal({{"SFTBENCH_JOB_SECRET_FILE", others}}),
              HasSubstr("belongs to another user"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
