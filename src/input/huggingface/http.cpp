#include "huggingface/http.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>

#include "huggingface/listing.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/http/libcurl.h"

namespace sftbench {
namespace {

constexpr size_t kKeptOfErrorBody = 16384;
constexpr long kConnectTimeoutSeconds = 20;
constexpr long kSlowestBytesPerSecond = 1024;  // below it for stall_s, a connection is dead
constexpr long kMostRedirects = 8;
constexpr long kReceiveBufferBytes = 512 * 1024;
constexpr size_t kMostHeaderBytes = 512 * 1024;  // of all answers to one request
constexpr curl_off_t kMostRedirectBytes = 64 * 1024;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return result;
}

std::string host_of(const std::string& url) {
  const size_t host = url.find("://") + 3;
  return shown_url(url.substr(0, url.find('/', host))).substr(host);
}

// What the system or the other side has to be asked about, in words of its own.
std::string explained(CURLcode code, const std::string& detail, const std::string& url,
                      const FetchSettings& settings) {
  const std::string host = host_of(url);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return "the name " + host + " is not known here; is this machine offline?";
    case CURLE_COULDNT_RESOLVE_PROXY:
      return "the name of the proxy (https_proxy) is not known here";
    case CURLE_COULDNT_CONNECT:
      return "nothing answers at " + host + " (" + detail + ")";
    case CURLE_PEER_FAILED_VERIFICATION:
      return "the certificate of " + host + " is not trusted (" + detail +
             "); if it is signed by your own authority, name that one's file in CURL_CA_BUNDLE";
    case CURLE_SSL_CACERT_BADFILE:
      return "cannot use " + settings.endpoint.ca_bundle +
             " (CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE or SSL_CERT_FILE): " + detail;
    case CURLE_OPERATION_TIMEDOUT:
      return "nothing more came from " + host + " (" + detail + ")";
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
      return "the connection to " + host + " was lost (" + detail + ")";
    case CURLE_UNSUPPORTED_PROTOCOL:
      return host + " redirects to an address that is not followed (" + detail + ")";
    default:
      return host + ": " + detail;
  }
}

bool may_pass(CURLcode code) {
  switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_OUT_OF_MEMORY:
      return false;
    default:
      return true;
  }
}

}  // namespace

std::string HttpReply::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

struct HttpSession::State {
  explicit State(const FetchSettings& all) : settings(all), handle(Curl::get().easy_init()) {
    check(handle != nullptr, "libcurl makes a handle");
    set_up();
  }
  ~State() { Curl::get().easy_cleanup(handle); }

  template <typename Value>
  void set(CURLoption option, Value value) {
    check(Curl::get().easy_setopt(handle, option, value) == CURLE_OK,
          "libcurl knows the option; it must be 7.85 or newer");
  }

  void set_up() {
    const bool secure = settings.endpoint.url.rfind("https://", 0) == 0;
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_USERAGENT, "sftbench");
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, kMostRedirects);
    set(CURLOPT_CONNECTTIMEOUT, kConnectTimeoutSeconds);
    set(CURLOPT_LOW_SPEED_LIMIT, kSlowestBytesPerSecond);
    set(CURLOPT_LOW_SPEED_TIME, std::max(1L, std::lround(settings.stall_s)));
    set(CURLOPT_BUFFERSIZE, kReceiveBufferBytes);
    set(CURLOPT_ERRORBUFFER, error.data());
    if (!settings.endpoint.ca_bundle.empty())
      set(CURLOPT_CAINFO, settings.endpoint.ca_bundle.c_str());
    if (!settings.endpoint.token.empty()) {
      set(CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
      set(CURLOPT_XOAUTH2_BEARER, settings.endpoint.token.c_str());
    }
    set(CURLOPT_HEADERFUNCTION, &State::on_header);
    set(CURLOPT_HEADERDATA, this);
    set(CURLOPT_WRITEFUNCTION, &State::on_body);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &State::on_progress);
    set(CURLOPT_XFERINFODATA, this);
  }

  static size_t on_header(char* data, size_t, size_t size, void* self_pointer) {
    auto* self = static_cast<State*>(self_pointer);
    self->header_bytes += size;
    if (self->header_bytes > kMostHeaderBytes) return self->stop("sends headers without end");
    const std::string_view line = trimmed({data, size});
    if (line.rfind("HTTP/", 0) == 0) {  // an answer begins; the one before it was a redirect
      self->reply.headers.clear();
      self->redirect = line.substr(std::min(line.size(), line.find(' ')), 2) == " 3";
    } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
      self->reply.headers[lower(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
    }
    return size;
  }

  static size_t on_body(char* data, size_t, size_t size, void* self_pointer) {
    auto* self = static_cast<State*>(self_pointer);
    try {
      self->take({data, size});
      return self->body_suffices ? 0 : size;
    } catch (...) {  // not through libcurl's frames
      self->thrown = std::current_exception();
      return size == 0 ? 1 : 0;
    }
  }

  void take(std::string_view piece) {
    if (reply.status == 0) Curl::get().easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &reply.status);
    if (reply.status == 200 || reply.status == 206) {
      (*sink)(reply, piece);
      gained = true;
    } else {
      reply.body.append(
          piece.substr(0, kKeptOfErrorBody - std::min(kKeptOfErrorBody, reply.body.size())));
      body_suffices = reply.body.size() == kKeptOfErrorBody;  // the rest may never end
    }
  }

  static int on_progress(void* self_pointer, curl_off_t, curl_off_t got_bytes, curl_off_t,
                         curl_off_t) {
    auto* self = static_cast<State*>(self_pointer);
    if (self->settings.cancelled()) return 1;
    // libcurl reads the body of a redirect to its end, and shows it to nobody.
    if (self->redirect && got_bytes > kMostRedirectBytes) {
      self->stop("redirects with a body that does not end");
      return 1;
    }
    return 0;
  }

  // Ends the request from within a callback.
  size_t stop(const std::string& problem) {
    const char* url = nullptr;
    Curl::get().easy_getinfo(handle, CURLINFO_EFFECTIVE_URL, &url);
    const std::string who = url == nullptr ? "the hub" : host_of(url);
    thrown = std::make_exception_ptr(HttpError(who + " " + problem, false));
    return 0;
  }

  void finish(CURLcode code, const std::string& url) {
    if (thrown) std::rethrow_exception(thrown);
    if (code == CURLE_ABORTED_BY_CALLBACK) throw FetchCancelled();
    if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && body_suffices)) return;
    const std::string detail = error[0] != '\0' ? error.data() : Curl::get().easy_strerror(code);
    HttpError failure(explained(code, shown_text(detail, settings.endpoint), url, settings),
                      may_pass(code));
    failure.gained = gained;
    throw failure;
  }

  const FetchSettings& settings;
  CURL* handle;
  std::array<char, CURL_ERROR_SIZE> error{};
  // of the request that is under way
  HttpReply reply;
  const Sink* sink = nullptr;
  std::exception_ptr thrown;
  bool gained = false;
  bool redirect = false;       // the answer that is coming
  bool body_suffices = false;  // of an error, so that it need not be read to its end
  size_t header_bytes = 0;
};

HttpSession::HttpSession(const FetchSettings& settings)
    : state_(std::make_unique<State>(settings)) {}

HttpSession::~HttpSession() = default;

HttpReply HttpSession::get(const std::string& url, uint64_t from_bytes, const Sink& sink) {
  const Curl& curl = Curl::get();
  State& state = *state_;
  state.reply = {};
  state.sink = &sink;
  state.thrown = nullptr;
  state.gained = state.redirect = state.body_suffices = false;
  state.header_bytes = 0;
  state.error[0] = '\0';
  const std::string range = std::to_string(from_bytes) + "-";
  state.set(CURLOPT_URL, url.c_str());
  state.set(CURLOPT_RANGE, from_bytes > 0 ? range.c_str() : nullptr);
  const double begin_s = steady_seconds();
  const CURLcode code = curl.easy_perform(state.handle);

  curl.easy_getinfo(state.handle, CURLINFO_RESPONSE_CODE, &state.reply.status);
  curl_off_t retry_after_s = 0;
  curl.easy_getinfo(state.handle, CURLINFO_RETRY_AFTER, &retry_after_s);
  state.reply.retry_after_s = static_cast<double>(retry_after_s);
  const char* last_url = nullptr;
  curl.easy_getinfo(state.handle, CURLINFO_EFFECTIVE_URL, &last_url);
  state.reply.url = shown_url(last_url == nullptr ? url : last_url);
  state.settings.log(FetchLog::kTrace,
                     "GET " + shown_url(url) + (from_bytes > 0 ? " from byte " + range : "") +
                         ": status " + std::to_string(state.reply.status) + " of " +
                         state.reply.url + ", " +
                         std::to_string(std::lround((steady_seconds() - begin_s) * 1e3)) + " ms");
  state.finish(code, last_url == nullptr ? url : last_url);
  return std::move(state.reply);
}

HttpError status_error(const HttpReply& reply, const std::string& what,
                       const HubRepository& repository, const HubEndpoint& endpoint) {
  const std::string& hub_id = repository.id();
  const std::string code = reply.header("x-error-code");
  const std::string status = std::to_string(reply.status);
  const std::string page = page_url(endpoint, repository);
  const std::string token = endpoint.token.empty() ? "give a token that may read it in HF_TOKEN"
                                                   : "the token of " + endpoint.token_origin +
                                                         " must be one that may read it";
  if (code == "GatedRepo") {
    return {hub_id + " is gated (status " + status + "): accept its terms at " + shown_url(page) +
                ", then " + token,
            false};
  }
  if (code == "RevisionNotFound") return {what + " does not exist (status " + status + ")", false};
  if (reply.status == 401 && !endpoint.token.empty() && code != "RepoNotFound") {
    return {"the hub does not accept the token of " + endpoint.token_origin + " (status 401)",
            false};
  }
  if (reply.status == 401 || reply.status == 403 || code == "RepoNotFound") {
    return {hub_id + " does not exist or is private (status " + status +
                "): check its name; if it is private, " + token,
            false};
  }
  if (reply.status == 404)
    return {what + " is not on " + shown_url(endpoint.url) + " (status 404)", false};

  std::string said = reply.header("x-error-message");
  if (said.empty()) said = reply.body;
  said = shown_text(said, endpoint);
  const bool passes = reply.status == 408 || reply.status == 429 || reply.status >= 500;
  HttpError error(what + ": status " + status + (said.empty() ? "" : " (" + said + ")"), passes);
  error.retry_after_s = reply.retry_after_s;
  return error;
}

}  // namespace sftbench
