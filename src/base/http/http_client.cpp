#include "sftbench/http/http_client.h"

#include <array>
#include <cmath>
#include <utility>

#include "sftbench/base/environment.h"
#include "sftbench/base/error.h"
#include "sftbench/base/loaded_library.h"
#include "sftbench/http/libcurl.h"

namespace sftbench {
namespace {

constexpr size_t kMostAnswerBytes = size_t{64} << 20;

std::string place_of(const std::string& url) {
  const size_t scheme = url.find("://");
  const size_t host = scheme == std::string::npos ? 0 : scheme + 3;
  return shown_url(url.substr(0, url.find('/', host))).substr(host);
}

std::string explained(CURLcode code, const std::string& detail, const std::string& url) {
  const std::string host = place_of(url);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return "the name " + host + " is not known here";
    case CURLE_COULDNT_CONNECT:
      return "nothing answers at " + host + " (" + detail + ")";
    case CURLE_PEER_FAILED_VERIFICATION:
      return "the certificate of " + host + " is not trusted (" + detail + ")";
    case CURLE_OPERATION_TIMEDOUT:
      return "no answer from " + host + " in time (" + detail + ")";
    case CURLE_ABORTED_BY_CALLBACK:
      return "the time for an answer from " + host + " is over";
    default:
      return host + ": " + detail;
  }
}

}  // namespace

const Curl& Curl::get() {
  static const Curl curl = [] {
    const LoadedLibrary library(ReasonCode::kWeights, {"libcurl.so.4", "libcurl-gnutls.so.4"},
                                "libcurl4");
    Curl loaded{};
    library.find(loaded.global_init, "curl_global_init");
    library.find(loaded.easy_init, "curl_easy_init");
    library.find(loaded.easy_cleanup, "curl_easy_cleanup");
    library.find(loaded.easy_setopt, "curl_easy_setopt");
    library.find(loaded.easy_perform, "curl_easy_perform");
    library.find(loaded.easy_getinfo, "curl_easy_getinfo");
    library.find(loaded.easy_strerror, "curl_easy_strerror");
    library.find(loaded.easy_escape, "curl_easy_escape");
    library.find(loaded.slist_append, "curl_slist_append");
    library.find(loaded.slist_free_all, "curl_slist_free_all");
    library.find(loaded.free, "curl_free");
    check(loaded.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "libcurl starts");
    return loaded;
  }();
  return curl;
}

struct HttpClient::State {
  explicit State(HttpClientSettings given)
      : settings(std::move(given)), handle(Curl::get().easy_init()) {
    check(handle != nullptr, "libcurl makes a handle");
    json_header = Curl::get().slist_append(nullptr, "Content-Type: application/json");
    set_up();
  }
  ~State() {
    Curl::get().slist_free_all(json_header);
    Curl::get().easy_cleanup(handle);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  template <typename Value>
  void set(CURLoption option, Value value) {
    check(Curl::get().easy_setopt(handle, option, value) == CURLE_OK,
          "libcurl knows the option; it must be 7.85 or newer");
  }

  void set_up() {
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_USERAGENT, "sftbench");
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_TIMEOUT_MS, std::lround(settings.timeout_s * 1e3));
    set(CURLOPT_CONNECTTIMEOUT_MS, std::lround(settings.connect_timeout_s * 1e3));
    set(CURLOPT_ERRORBUFFER, error.data());
    if (!settings.ca_bundle.empty()) set(CURLOPT_CAINFO, settings.ca_bundle.c_str());
    if (!settings.token.empty()) {
      set(CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
      set(CURLOPT_XOAUTH2_BEARER, settings.token.c_str());
    } else if (!settings.user.empty()) {
      set(CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
      set(CURLOPT_USERNAME, settings.user.c_str());
      set(CURLOPT_PASSWORD, settings.password.c_str());
    }
    set(CURLOPT_WRITEFUNCTION, &State::on_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &State::on_progress);
    set(CURLOPT_XFERINFODATA, this);
  }

  static size_t on_body(char* data, size_t, size_t size, void* self_pointer) {
    auto* self = static_cast<State*>(self_pointer);
    if (self->answer.body.size() + size > kMostAnswerBytes) return 0;
    self->answer.body.append(data, size);
    return size;
  }

  static int on_progress(void* self_pointer, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return static_cast<State*>(self_pointer)->settings.cancelled() ? 1 : 0;
  }

  HttpAnswer perform(const std::string& url) {
    answer = {};
    error[0] = '\0';
    set(CURLOPT_URL, url.c_str());
    const CURLcode code = Curl::get().easy_perform(handle);
    if (code != CURLE_OK) {
      throw NoAnswer(
          explained(code, error[0] != '\0' ? error.data() : Curl::get().easy_strerror(code), url));
    }
    Curl::get().easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &answer.status);
    curl_off_t retry_after_s = 0;
    Curl::get().easy_getinfo(handle, CURLINFO_RETRY_AFTER, &retry_after_s);
    answer.retry_after_s = static_cast<double>(retry_after_s);
    return std::move(answer);
  }

  HttpClientSettings settings;
  CURL* handle;
  curl_slist* json_header = nullptr;
  std::array<char, CURL_ERROR_SIZE> error{};
  HttpAnswer answer;  // to the request that is under way
};

HttpClient::HttpClient(HttpClientSettings settings)
    : state_(std::make_unique<State>(std::move(settings))) {}

HttpClient::~HttpClient() = default;

HttpAnswer HttpClient::get(const std::string& url) {
  state_->set(CURLOPT_HTTPGET, 1L);
  state_->set(CURLOPT_HTTPHEADER, static_cast<curl_slist*>(nullptr));
  return state_->perform(url);
}

HttpAnswer HttpClient::post_json(const std::string& url, const std::string& body) {
  state_->set(CURLOPT_POST, 1L);
  state_->set(CURLOPT_HTTPHEADER, state_->json_header);
  state_->set(CURLOPT_POSTFIELDS, body.c_str());
  state_->set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  return state_->perform(url);
}

HttpAnswer HttpClient::put(const std::string& url, const std::string& body) {
  state_->set(CURLOPT_POST, 1L);
  state_->set(CURLOPT_HTTPHEADER, static_cast<curl_slist*>(nullptr));
  state_->set(CURLOPT_POSTFIELDS, body.c_str());
  state_->set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  state_->set(CURLOPT_CUSTOMREQUEST, "PUT");
  const auto as_before = [this] {
    state_->set(CURLOPT_CUSTOMREQUEST, static_cast<const char*>(nullptr));
  };
  try {
    HttpAnswer answer = state_->perform(url);
    as_before();
    return answer;
  } catch (...) {
    as_before();
    throw;
  }
}

std::string HttpClient::escaped(const std::string& text) const {
  char* made = Curl::get().easy_escape(state_->handle, text.data(), static_cast<int>(text.size()));
  check(made != nullptr, "libcurl escapes a text");
  std::string result = made;
  Curl::get().free(made);
  return result;
}

std::string ca_bundle_of_environment() {
  for (const char* name : {"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"}) {
    if (std::string bundle = environment(name); !bundle.empty()) return bundle;
  }
  return {};
}

std::string shown_url(std::string_view url) {
  std::string shown(url.substr(0, url.find_first_of("?#")));
  const size_t scheme = shown.find("://");
  const size_t host = scheme == std::string::npos ? 0 : scheme + 3;
  const size_t at = shown.substr(host, shown.find('/', host) - host).rfind('@');
  if (at != std::string::npos) shown.erase(host, at + 1);
  return shown;
}

}  // namespace sftbench
