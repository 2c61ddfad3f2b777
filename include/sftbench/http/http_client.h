// Requests to a REST server over libcurl, one after the other, each within a time limit. No
// redirect is followed: a token goes to the server that it was given for.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sftbench {

struct HttpClientSettings {
  double timeout_s = 10;         // of a whole request
  double connect_timeout_s = 5;  // of its connection
  std::string token;             // bearer token; empty: none
  std::string user, password;    // basic authentication, where there is no token; empty: none
  std::string ca_bundle;         // certificates to trust instead of the system's; may be empty
  std::function<bool()> cancelled = [] { return false; };  // asked while a request waits
};

struct HttpAnswer {
  long status = 0;
  std::string body;
  double retry_after_s = 0;  // 0: the server did not say
};

// No answer came: nothing listens, the time is over, the certificate is not trusted, it was
// cancelled.
class NoAnswer : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class HttpClient {
 public:
  // RunError when there is no libcurl.
  explicit HttpClient(HttpClientSettings settings);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Whatever status the server answers with is returned. NoAnswer.
  HttpAnswer get(const std::string& url);
  HttpAnswer post_json(const std::string& url, const std::string& body);
  HttpAnswer put(const std::string& url, const std::string& body);

  // For a value in a query.
  std::string escaped(const std::string& text) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE or SSL_CERT_FILE, the first that is set; else empty.
std::string ca_bundle_of_environment();

// What may be shown of an address: without user, password and query, which can hold secrets.
std::string shown_url(std::string_view url);

}  // namespace sftbench
