// Ray's Jobs REST API over libcurl.
// Source: docs.ray.io, "Ray Jobs REST API", and Ray 2.60's dashboard/modules/job/job_head.py.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "sftbench/base/json.h"
#include "sftbench/http/http_client.h"

namespace sftbench {

// No answer came, or one of a head that is about to be there: the same request may succeed later.
class RayAway : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The request was given up, as `cancelled` asked for.
class RayCancelled : public std::exception {};

enum class RayStatus { kPending, kRunning, kSucceeded, kFailed, kStopped };

struct RayJob {
  RayStatus status = RayStatus::kPending;
  std::string message;           // of a job that failed
  std::optional<int> exit_code;  // of its command; nothing: it did not come to its end
  bool ended() const { return status >= RayStatus::kSucceeded; }
};

class RayClient {
 public:
  // `address`: "http://HOST:8265". InputError when it is no such address, or libcurl is missing.
  // `cancelled` is asked while a request lasts.
  RayClient(const std::string& address, std::function<bool()> cancelled);

  // All of these: RayAway, RayCancelled; InputError when the other side refuses, with its words, or
  // is not Ray.

  std::string version();

  // Uploads unless it is there.
  void ensure_package(const std::string& name, const std::string& content);

  // Nothing: there is no such job.
  std::optional<RayJob> find(const std::string& submission_id);

  // False when there is a job of that id already.
  bool submit(const Json& request);

  // All that the job has said so far; empty before it has said anything.
  std::string logs(const std::string& submission_id);

  void stop(const std::string& submission_id);

 private:
  template <typename Request>
  HttpAnswer send(const Request& request);
  HttpAnswer get(const std::string& path);
  Json json_of(const HttpAnswer& answer, const std::string& path) const;
  [[noreturn]] void refuse(const HttpAnswer& answer, const std::string& what) const;

  std::string address_;  // without a slash at its end
  std::function<bool()> cancelled_;
  HttpClient http_;
};

}  // namespace sftbench
