// GET requests to a hub over libcurl, one after the other on one thread; the connection is kept.
// Redirects are followed, as large files lie on another host, and the token stays with the hub:
// libcurl gives it to no other host, port or scheme. From https no redirect leads to http.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sftbench/huggingface/fetch.h"

namespace sftbench {

struct HttpReply {
  long status = 0;
  std::map<std::string, std::string> headers;  // of the last answer, names in lower case
  std::string body;          // the beginning of it, unless the status is 200 or 206
  double retry_after_s = 0;  // 0: the server did not say
  std::string url;           // that answered, fit to be shown

  std::string header(const std::string& name) const;  // empty when absent
};

// A request that did not bring what was asked for.
class HttpError : public std::runtime_error {
 public:
  HttpError(const std::string& message, bool may_pass)
      : std::runtime_error(message), retryable(may_pass) {}

  bool retryable;            // the same request may succeed later
  bool gained = false;       // something came before it broke
  double retry_after_s = 0;  // what the server asked for
};

// settings.cancelled() said so.
class FetchCancelled : public std::exception {};

class HttpSession {
 public:
  // Takes each piece of a body that came with status 200 or 206. What it throws ends the request
  // and comes out of get().
  using Sink = std::function<void(const HttpReply& head, std::string_view piece)>;

  // `settings` outlives the session. RunError(kWeights) when there is no libcurl.
  explicit HttpSession(const FetchSettings& settings);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  // Asks for the bytes from `from_bytes` on (0: for the whole), without a retry. HttpError when no
  // whole answer came; FetchCancelled.
  HttpReply get(const std::string& url, uint64_t from_bytes, const Sink& sink);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// HttpError that explains a status other than 200 and 206; `what` is what was asked for.
HttpError status_error(const HttpReply& reply, const std::string& what,
                       const HubRepository& repository, const HubEndpoint& endpoint);

// Runs `attempt` until it succeeds. An HttpError that may pass is logged and, after a wait that
// doubles each time (or that the server asked for), tried again, `settings.retries` times in a row.
void with_retries(const FetchSettings& settings, const std::function<void()>& attempt);

// Waits; FetchCancelled as soon as that is asked for.
void wait_or_cancel(const FetchSettings& settings, double seconds);

}  // namespace sftbench
