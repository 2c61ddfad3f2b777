#include "campaign/ray_client.h"

#include <map>
#include <string_view>
#include <utility>

#include "sftbench/base/environment.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr double kConnectSeconds = 10;
constexpr double kRequestSeconds = 60;
constexpr const char* kExpected =
    "the address of a Ray cluster's dashboard, as http://head:8265; of a KubeRay cluster after "
    "kubectl port-forward";

[[noreturn]] void refuse_address(const std::string& message) {
  throw InputError({{{}, 0, "--ray-address", message, kExpected, {}}});
}

std::string checked_address(std::string address) {
  while (!address.empty() && address.back() == '/') address.pop_back();
  if (address.empty()) refuse_address("is not given");
  const bool known = address.rfind("http://", 0) == 0 || address.rfind("https://", 0) == 0;
  if (!known) refuse_address("found '" + shown_url(address) + "'");
  return address;
}

RayStatus status_named(const std::string& name) {
  static const std::map<std::string, RayStatus> names = {{"PENDING", RayStatus::kPending},
                                                         {"RUNNING", RayStatus::kRunning},
                                                         {"SUCCEEDED", RayStatus::kSucceeded},
                                                         {"FAILED", RayStatus::kFailed},
                                                         {"STOPPED", RayStatus::kStopped}};
  const auto found = names.find(name);
  return found == names.end() ? RayStatus::kPending : found->second;
}

// A status of a head, or a proxy before it, that is starting or ending.
bool is_away(long status) {
  return status == 502 || status == 503 || status == 504;
}

HttpClientSettings settings_of(const std::function<bool()>& cancelled) {
  HttpClientSettings settings;
  settings.timeout_s = kRequestSeconds;
  settings.connect_timeout_s = kConnectSeconds;
  settings.token = environment("RAY_AUTH_TOKEN");  // as Ray's own client reads it
  settings.ca_bundle = ca_bundle_of_environment();
  settings.cancelled = cancelled;
  return settings;
}

// What a server said, fit for a message.
std::string shown(std::string_view text) {
  constexpr size_t kMost = 400;
  std::string line = terminal_line(trimmed(text.substr(0, kMost)));
  return text.size() > kMost ? line + "..." : line;
}

}  // namespace

RayClient::RayClient(const std::string& address, std::function<bool()> cancelled)
    : address_(checked_address(address)),
      cancelled_(std::move(cancelled)),
      http_(settings_of(cancelled_)) {}

template <typename Request>
HttpAnswer RayClient::send(const Request& request) {
  try {
    HttpAnswer answer = request();
    if (is_away(answer.status)) {
      throw RayAway(shown_url(address_) + " answers with status " + std::to_string(answer.status));
    }
    return answer;
  } catch (const NoAnswer& error) {
    if (cancelled_()) throw RayCancelled();
    throw RayAway(error.what());
  }
}

HttpAnswer RayClient::get(const std::string& path) {
  return send([&] { return http_.get(address_ + path); });
}

void RayClient::refuse(const HttpAnswer& reply, const std::string& what) const {
  const std::string said = shown(reply.body);
  throw InputError(
      {{{},
        0,
        "ray",
        what + ": " + shown_url(address_) + " answers with status " + std::to_string(reply.status) +
            (said.empty() ? "" : " (" + said + ")"),
        reply.status == 401 || reply.status == 403 ? "its token in RAY_AUTH_TOKEN" : "",
        {}}});
}

Json RayClient::json_of(const HttpAnswer& reply, const std::string& path) const {
  Json json = Json::parse(reply.body, nullptr, false);
  if (!json.is_object()) {
    refuse_address(shown_url(address_) + path + " answers, but not as Ray does");
  }
  return json;
}

std::string RayClient::version() {
  const std::string path = "/api/version";
  const HttpAnswer reply = get(path);
  if (reply.status == 401 || reply.status == 403) refuse(reply, "the version");
  if (reply.status != 200) {
    refuse_address(shown_url(address_) + path + " answers with status " +
                   std::to_string(reply.status) + ": that is no Ray");
  }
  const Json json = json_of(reply, path);
  if (!json.contains("ray_version") || !json["ray_version"].is_string()) {
    refuse_address(shown_url(address_) + path + " names no ray_version");
  }
  return json["ray_version"].get<std::string>();
}

void RayClient::ensure_package(const std::string& name, const std::string& content) {
  const std::string path = "/api/packages/gcs/" + name;
  if (get(path).status == 200) return;
  const HttpAnswer reply = send([&] { return http_.put(address_ + path, content); });
  if (reply.status != 200) refuse(reply, "the space's file cannot be uploaded");
}

std::optional<RayJob> RayClient::find(const std::string& submission_id) {
  const std::string path = "/api/jobs/" + submission_id;
  const HttpAnswer reply = get(path);
  if (reply.status == 404) return std::nullopt;
  if (reply.status != 200) refuse(reply, "job " + submission_id);
  const Json json = json_of(reply, path);
  RayJob job;
  const auto text = [&json](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
  };
  job.status = status_named(text("status"));
  const std::string message = text("message");  // and the end of the log, which is read anyway
  job.message = shown(message.substr(0, message.find(", last available logs")));
  if (json.contains("driver_exit_code") && json["driver_exit_code"].is_number_integer()) {
    job.exit_code = json["driver_exit_code"].get<int>();
  }
  return job;
}

bool RayClient::submit(const Json& request) {
  const HttpAnswer reply =
      send([&] { return http_.post_json(address_ + "/api/jobs/", json_text(request)); });
  if (reply.status == 200) return true;
  // Ray says so in words alone.
  const auto id = request.at("submission_id").get<std::string>();
  if (find(id)) return false;
  refuse(reply, "job " + id + " is refused");
}

std::string RayClient::logs(const std::string& submission_id) {
  const std::string path = "/api/jobs/" + submission_id + "/logs";
  const HttpAnswer reply = get(path);
  if (reply.status != 200) return {};
  const Json json = Json::parse(reply.body, nullptr, false);
  const bool has_logs = json.is_object() && json.contains("logs") && json["logs"].is_string();
  return has_logs ? json["logs"].get<std::string>() : "";
}

void RayClient::stop(const std::string& submission_id) {
  send([&] {
    return http_.post_json(address_ + "/api/jobs/" + submission_id + "/stop", "{}");
  });  // one that has ended needs no stop
}

}  // namespace sftbench
