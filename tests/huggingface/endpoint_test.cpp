#include "sftbench/huggingface/endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "huggingface/test_folder.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// An environment in which nothing points to the user's own files.
class EndpointTest : public testing::Test {
 protected:
  EndpointTest() {
    for (const char* name :
         {"HF_ENDPOINT", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE",
          "HF_HUB_CACHE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"}) {
      ::unsetenv(name);
    }
    ::setenv("HF_HOME", (folder_ / "env_home").c_str(), 1);
  }
  ~EndpointTest() override {
    for (const char* name : {"HF_ENDPOINT", "HF_TOKEN", "HF_TOKEN_PATH", "HF_HUB_OFFLINE",
                             "HF_HOME", "SSL_CERT_FILE", "CURL_CA_BUNDLE"}) {
      ::unsetenv(name);
    }
    fs::remove_all(folder_);
  }

  std::string problem(const std::string& url = {}) {
    try {
      find_hub_endpoint(url, std::nullopt);
    } catch (const InputError& error) {
      return error.what();
    }
    return {};
  }

  fs::path folder_ = test_folder();
};

TEST_F(EndpointTest, OptionBeforeEnvironmentBeforeDefault) {
  EXPECT_EQ(find_hub_endpoint("", {}).url, "https://huggingface.co");
  ::setenv("HF_ENDPOINT", "https://mirror.example/hf/", 1);
  EXPECT_EQ(find_hub_endpoint("", {}).url, "https://mirror.example/hf");
  EXPECT_EQ(find_hub_endpoint("http://127.0.0.1:80", {}).url, "http://127.0.0.1:80");
}

TEST_F(EndpointTest, WhatIsNoAddressIsRefused) {
  EXPECT_EQ(problem("huggingface.co"),
            "--endpoint: found 'huggingface.co'; expected an address like https://huggingface.co");
  EXPECT_THAT(problem("file:///etc"), HasSubstr("expected an address"));
  EXPECT_THAT(problem("https://"), HasSubstr("expected an address"));
  EXPECT_THAT(problem("https://a?b"), HasSubstr("expected an address"));
  ::setenv("HF_ENDPOINT", "ftp://x", 1);
  EXPECT_THAT(problem(), HasSubstr("HF_ENDPOINT: found 'ftp://x'"));
}

TEST_F(EndpointTest, TheTokenOfTheNearestPlaceIsTaken) {
  EXPECT_EQ(find_hub_endpoint("", {}).token, "");
  write_file_atomic(folder_ / "env_home/token", "hf_home\n");
  EXPECT_EQ(find_hub_endpoint("", {}).token, "hf_home");
  write_file_atomic(folder_ / "given/token", "hf_given");
  const HubEndpoint given = find_hub_endpoint("", (folder_ / "given").string());
  EXPECT_EQ(given.token, "hf_given");
  EXPECT_EQ(given.token_origin, (folder_ / "given/token").string());
  write_file_atomic(folder_ / "file", " hf_file \n");
  ::setenv("HF_TOKEN_PATH", (folder_ / "file").c_str(), 1);
  EXPECT_EQ(find_hub_endpoint("", (folder_ / "given").string()).token, "hf_file");
  ::setenv("HF_TOKEN", "hf_variable", 1);
  EXPECT_EQ(find_hub_endpoint("", {}).token, "hf_variable");
  EXPECT_EQ(find_hub_endpoint("", {}).token_origin, "HF_TOKEN");
}

TEST_F(EndpointTest, WhatIsNoTokenIsRefusedWithoutShowingIt) {
  ::setenv("HF_TOKEN", "hf_secret\r\nX-Evil: 1", 1);
  EXPECT_EQ(
      problem(),
      "HF_TOKEN: is no token: it has blanks or characters that are not ASCII; expected hf_...");
  ::unsetenv("HF_TOKEN");
  ::setenv("HF_TOKEN_PATH", (folder_ / "nowhere").c_str(), 1);
  EXPECT_EQ(problem(), (folder_ / "nowhere").string() + ": cannot open: No such file or directory");
}

TEST_F(EndpointTest, OfflineMeansThatNothingIsFetched) {
  ::setenv("HF_HUB_OFFLINE", "true", 1);
  EXPECT_EQ(problem(), "HF_HUB_OFFLINE: is set, so nothing is fetched; expected it to be unset");
  ::setenv("HF_HUB_OFFLINE", "0", 1);
  EXPECT_EQ(problem(), "");
}

TEST_F(EndpointTest, CertificatesOfTheFirstVariableThatIsSet) {
  ::setenv("SSL_CERT_FILE", "/b.pem", 1);
  EXPECT_EQ(find_hub_endpoint("", {}).ca_bundle, "/b.pem");
  ::setenv("CURL_CA_BUNDLE", "/a.pem", 1);
  EXPECT_EQ(find_hub_endpoint("", {}).ca_bundle, "/a.pem");
}

TEST(ShownUrlTest, HasNeitherQueryNorUser) {
  EXPECT_EQ(shown_url("https://cdn.example/a/b?Signature=secret#x"), "https://cdn.example/a/b");
  EXPECT_EQ(shown_url("https://me:secret@host:1/a@b"), "https://host:1/a@b");
}

TEST(ShownTextTest, IsOneLineWithoutTokenAndWithoutEnd) {
  HubEndpoint endpoint;
  endpoint.token = "hf_secret";
  EXPECT_EQ(shown_text("  a\nb\x1b[31m hf_secret\xc2\x9b ", endpoint), "a b [31m [token]");
  EXPECT_EQ(shown_text("a ~\x7f!\x1f/", endpoint), "a ~ ! /");
  EXPECT_EQ(shown_text(std::string(300, 'x'), endpoint), std::string(300, 'x'));
  EXPECT_EQ(shown_text(std::string(301, 'x'), endpoint), std::string(297, 'x') + "...");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
