// HTTPS against OpenSSL's own server: who signed a certificate matters, and from https no redirect
// leads to http.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>

#include "huggingface/fake_hub.h"
#include "huggingface/test_folder.h"
#include "sftbench/base/file.h"
#include "sftbench/huggingface/fetch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* kCommit = "1234567890abcdef1234567890abcdef12345678";

// `openssl s_server` in `folder`, which sends the file that a request names. With `mode` -WWW the
// file is the body, with -HTTP the whole answer.
class TlsServer {
 public:
  TlsServer(const fs::path& folder, const std::string& mode) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      if (::chdir(folder.c_str()) == 0) {
        ::execlp("openssl", "openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", "../cert.pem",
                 "-key", "../key.pem", mode.c_str(), nullptr);
      }
      ::_exit(127);
    }
    ::close(ends[1]);
    std::string text;
    char c;
    // "ACCEPT 127.0.0.1:40123"
    while (port_.empty() && ::read(ends[0], &c, 1) == 1) {
      text += c;
      const size_t found = text.find("ACCEPT 127.0.0.1:");
      if (c == '\n' && found != std::string::npos)
        port_ = text.substr(found + 17, text.size() - found - 18);
    }
    out_ = ends[0];
  }
  ~TlsServer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(out_);
  }
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  std::string url() const { return "https://127.0.0.1:" + port_; }

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  std::string port_;
};

class HttpsTest : public testing::Test {
 protected:
  HttpsTest() {
    fs::create_directories(folder_ / "site");
    const std::string make_certificate =
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 "
        "-addext subjectAltName=IP:127.0.0.1 -keyout " +
        (folder_ / "key.pem").string() + " -out " + (folder_ / "cert.pem").string() +
        " 2>/dev/null";
    made_ = std::system(make_certificate.c_str()) == 0;
    settings_.cache = folder_ / "hub";
    settings_.retries = 0;
  }
  ~HttpsTest() override { fs::remove_all(folder_); }

  void SetUp() override { ASSERT_TRUE(made_) << "openssl makes no certificate"; }

  void put(const std::string& path, const std::string& content) {
    write_file_atomic(folder_ / "site" / path, content);
  }

  std::string fetch_problem(const TlsServer& server, bool trusted) {
    settings_.endpoint.url = server.url();
    settings_.endpoint.ca_bundle = trusted ? (folder_ / "cert.pem").string() : "";
    return fetch_repositories({{"m", "org/m"}}, settings_).repositories.at(0).problem;
  }

  fs::path folder_ = test_folder();
  bool made_ = false;
  FetchSettings settings_;
};

TEST_F(HttpsTest, OnlyATrustedCertificateIsBelieved) {
  const std::string weights = safetensors("w", 1000);
  const std::string config = R"({"model_type": "llama"})";
  const Json listing = {
      {"sha", kCommit},
      {"siblings",
       {{{"rfilename", "config.json"}, {"size", config.size()}, {"blobId", git_hash(config)}},
        {{"rfilename", "model.safetensors"},
         {"size", weights.size()},
         {"lfs", {{"sha256", sha256(weights)}, {"size", weights.size()}}}}}}};
  put("api/models/org/m/revision/main?blobs=true", listing.dump());
  put(std::string("org/m/resolve/") + kCommit + "/config.json", config);
  put(std::string("org/m/resolve/") + kCommit + "/model.safetensors", weights);
  const TlsServer server(folder_ / "site", "-WWW");
  const std::string problem = fetch_problem(server, false);
  EXPECT_THAT(problem, HasSubstr("the certificate of 127.0.0.1:"));
  EXPECT_THAT(problem, HasSubstr("is not trusted (SSL certificate problem: self-signed certificate)"
                                 "; if it is signed by your own authority, name that one's file in "
                                 "CURL_CA_BUNDLE"));
  EXPECT_EQ(fetch_problem(server, true), "");
  EXPECT_EQ(read_file(settings_.cache / "models--org--m/snapshots" / kCommit / "model.safetensors"),
            weights);
}

TEST_F(HttpsTest, ABundleThatIsNoneIsNamed) {
  const TlsServer server(folder_ / "site", "-WWW");
  fs::copy_file(folder_ / "key.pem", folder_ / "cert.pem", fs::copy_options::overwrite_existing);
  EXPECT_THAT(fetch_problem(server, true),
              HasSubstr("cannot use " + (folder_ / "cert.pem").string() +
                        " (CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE or SSL_CERT_FILE): "));
}

TEST_F(HttpsTest, ARedirectToPlainHttpIsNotFollowed) {
  LoopbackServer plain([](const ServedRequest&) { return ServedReply{200, {}, "{}"}; });
  put("api/models/org/m/revision/main?blobs=true",
      "HTTP/1.0 302 Found\r\nContent-Length: 0\r\nLocation: " + plain.url() + "/x\r\n\r\n");
  const TlsServer server(folder_ / "site", "-HTTP");
  EXPECT_THAT(fetch_problem(server, true),
              HasSubstr("redirects to an address that is not followed"));
  EXPECT_TRUE(plain.requests().empty());
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
