#include "sftbench/launch/child_request.h"

#include "sftbench/base/error.h"

namespace sftbench {

Json to_json(const ChildRequest& request) {
  return {{"job", to_json(request.job)},
          {"generate_dataset", request.generate_dataset},
          {"command", request.command},
          {"log", request.log},
          {"final_log", request.final_log},
          {"simulate", request.simulate},
          {"sample", request.sample},
          {"attempt", request.attempt},
          {"cpus", request.cpus},
          {"host_memory_bytes", request.host_memory_bytes},
          {"heartbeat_fd", request.heartbeat_fd},
          {"result_fd", request.result_fd}};
}

ChildRequest child_request_from_json(const Json& json, const std::string& origin) {
  ChildRequest request;
  try {
    request.job = training_job_from_json(json.at("job"), origin);
    json.at("generate_dataset").get_to(request.generate_dataset);
    json.at("command").get_to(request.command);
    json.at("log").get_to(request.log);
    json.at("final_log").get_to(request.final_log);
    json.at("simulate").get_to(request.simulate);
    json.at("sample").get_to(request.sample);
    json.at("attempt").get_to(request.attempt);
    json.at("cpus").get_to(request.cpus);
    json.at("host_memory_bytes").get_to(request.host_memory_bytes);
    json.at("heartbeat_fd").get_to(request.heartbeat_fd);
    json.at("result_fd").get_to(request.result_fd);
  } catch (const Json::exception& error) {
    throw InputError(
        {{origin, 0, {}, "not a request for a measurement: " + json_problem(error), {}, {}}});
  }
  return request;
}

}  // namespace sftbench
