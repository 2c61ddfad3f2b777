#include "sftbench/launch/child_request.h"

#include "sftbench/base/error.h"
#include "sftbench/base/fields.h"

namespace sftbench {

// All but the job, which is checked as one that people may have edited.
template <typename Visitor>
void fields(Visitor& visitor, ChildRequest& request) {
  visitor("generate_dataset", request.generate_dataset);
  visitor("command", request.command);
  visitor("log", request.log);
  visitor("final_log", request.final_log);
  visitor("series", request.series);
  visitor("trackers", request.trackers);
  visitor("simulate", request.simulate);
  visitor("sample", request.sample);
  visitor("attempt", request.attempt);
  visitor("cpus", request.cpus);
  visitor("host_memory_bytes", request.host_memory_bytes);
  visitor("heartbeat_fd", request.heartbeat_fd);
  visitor("result_fd", request.result_fd);
}

Json to_json(const ChildRequest& request) {
  Json json = {{"job", to_json(request.job)}};
  json.update(json_of_fields(request));
  return json;
}

ChildRequest child_request_from_json(const Json& json, const std::string& origin) {
  ChildRequest request;
  try {
    request.job = training_job_from_json(json.at("job"), origin);
    read_fields(json, request);
  } catch (const Json::exception& error) {
    throw InputError(
        {{origin, 0, {}, "not a request for a measurement: " + json_problem(error), {}, {}}});
  }
  return request;
}

}  // namespace sftbench
