#include "sftbench/launch/rank_request.h"

#include "sftbench/base/error.h"
#include "sftbench/base/fields.h"

namespace sftbench {

template <typename Visitor>
void fields(Visitor& visitor, RankPlace& place) {
  visitor("rank", place.rank);
  visitor("world_size", place.world_size);
  visitor("local_rank", place.local_rank);
  visitor("local_size", place.local_size);
  visitor("node", place.node);
  visitor("nodes", place.nodes);
  visitor("address", place.address);
  visitor("port", place.port);
  visitor("listening_fd", place.listening_fd);
  visitor("session", place.session);
  visitor("secret", place.secret);
  visitor("version", place.version);
  visitor("rendezvous_timeout_s", place.rendezvous_timeout_s);
  visitor("communication_timeout_s", place.communication_timeout_s);
  visitor("launcher", place.launcher);
}

// All but the job, which is checked as one that people may have edited.
template <typename Visitor>
void fields(Visitor& visitor, RankRequest& request) {
  visitor("place", request.place);
  visitor("cpus", request.cpus);
  visitor("host_memory_bytes", request.host_memory_bytes);
  visitor("events_fd", request.events_fd);
  visitor("control_fd", request.control_fd);
}

Json to_json(const RankRequest& request) {
  Json json = {{"job", to_json(request.job)}};
  json.update(json_of_fields(request));
  return json;
}

RankRequest rank_request_from_json(const Json& json, const std::string& origin) {
  RankRequest request;
  try {
    request.job = training_job_from_json(json.at("job"), origin);
    read_fields(json, request);
  } catch (const Json::exception& error) {
    throw InputError({{origin, 0, {}, "not a request for a rank: " + json_problem(error), {}, {}}});
  }
  return request;
}

}  // namespace sftbench
