#include "sftbench/launch/rank_request.h"

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

Json to_json(const RankPlace& place) {
  return {{"rank", place.rank},
          {"world_size", place.world_size},
          {"local_rank", place.local_rank},
          {"local_size", place.local_size},
          {"node", place.node},
          {"nodes", place.nodes},
          {"address", place.address},
          {"port", place.port},
          {"listening_fd", place.listening_fd},
          {"session", place.session},
          {"secret", place.secret},
          {"version", place.version},
          {"rendezvous_timeout_s", place.rendezvous_timeout_s},
          {"communication_timeout_s", place.communication_timeout_s},
          {"launcher", place.launcher}};
}

RankPlace rank_place_from_json(const Json& json) {
  RankPlace place;
  json.at("rank").get_to(place.rank);
  json.at("world_size").get_to(place.world_size);
  json.at("local_rank").get_to(place.local_rank);
  json.at("local_size").get_to(place.local_size);
  json.at("node").get_to(place.node);
  json.at("nodes").get_to(place.nodes);
  json.at("address").get_to(place.address);
  json.at("port").get_to(place.port);
  json.at("listening_fd").get_to(place.listening_fd);
  json.at("session").get_to(place.session);
  json.at("secret").get_to(place.secret);
  json.at("version").get_to(place.version);
  json.at("rendezvous_timeout_s").get_to(place.rendezvous_timeout_s);
  json.at("communication_timeout_s").get_to(place.communication_timeout_s);
  json.at("launcher").get_to(place.launcher);
  return place;
}

}  // namespace

Json to_json(const RankRequest& request) {
  return {{"job", to_json(request.job)},    {"place", to_json(request.place)},
          {"cpus", request.cpus},           {"host_memory_bytes", request.host_memory_bytes},
          {"events_fd", request.events_fd}, {"control_fd", request.control_fd}};
}

RankRequest rank_request_from_json(const Json& json, const std::string& origin) {
  RankRequest request;
  try {
    request.job = training_job_from_json(json.at("job"), origin);
    request.place = rank_place_from_json(json.at("place"));
    json.at("cpus").get_to(request.cpus);
    json.at("host_memory_bytes").get_to(request.host_memory_bytes);
    json.at("events_fd").get_to(request.events_fd);
    json.at("control_fd").get_to(request.control_fd);
  } catch (const Json::exception& error) {
    throw InputError({{origin, 0, {}, "not a request for a rank: " + json_problem(error), {}, {}}});
  }
  return request;
}

}  // namespace sftbench
