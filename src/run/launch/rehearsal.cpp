#include "sftbench/launch/rehearsal.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "launch/child_files.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/launch/child_process.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 3;  // the first one allocates what later ones reuse
constexpr auto kLookAgain = std::chrono::milliseconds(10);

// Numbers come from nowhere else than the job itself, and nothing is kept.
TrainingJob rehearsed(TrainingJob job) {
  job.model.weights_directory.clear();
  job.batches.max_steps = kSteps;
  job.batches.stop_after_seconds = -1;
  job.batches.auto_stop_method.clear();
  job.batches.stop_when_known = 0;
  job.evaluation = {};
  job.save = {};
  job.trace_path.clear();
  return job;
}

Json phantom_settings(const RehearsedGpu& gpu) {
  const size_t point = gpu.compute_capability.find('.');
  Json settings = {{"name", gpu.name}, {"memory_bytes", gpu.memory_bytes}};
  if (gpu.multiprocessors > 0) settings["multiprocessors"] = gpu.multiprocessors;
  if (point == std::string::npos) return settings;
  settings["major"] = std::stoi(gpu.compute_capability.substr(0, point));
  settings["minor"] = std::stoi(gpu.compute_capability.substr(point + 1));
  return settings;
}

std::string content_of(int fd) {
  std::string text(static_cast<size_t>(std::max<off_t>(0, ::lseek(fd, 0, SEEK_END))), '\0');
  const ssize_t read = ::pread(fd, text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(0, read)));
  return text;
}

std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.find_last_of('\n') + 1);
}

Rehearsal rehearsal_of(const std::string& answer, const std::string& log) {
  const Json json = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  Rehearsal rehearsal;
  if (json.is_discarded()) {
    rehearsal.failure = {ReasonCode::kInternal, "the rehearsal ended without a result",
                         last_line(log)};
    return rehearsal;
  }
  if (json.contains("failure")) {
    const Json& failure = json["failure"];
    rehearsal.failure = {static_cast<ReasonCode>(failure["code"].get<int>()), failure["message"],
                         failure["evidence"]};
    return rehearsal;
  }
  rehearsal.allocated_peak_bytes = json["allocated_peak_bytes"];
  rehearsal.reserved_peak_bytes = json["reserved_peak_bytes"];
  const Json& peak = json["peak"];
  rehearsal.peak = {peak["place"], peak["allocation_bytes"], peak["held"]};
  rehearsal.host_s = json["host_s"];
  rehearsal.launches = json["report"]["launches"];
  rehearsal.graph_nodes = json["report"]["graph_nodes"];
  rehearsal.copies = json["report"]["copies"];
  rehearsal.kernels = json["report"]["kernels"];
  return rehearsal;
}

}  // namespace

fs::path phantom_library() {
  if (const char* file = std::getenv("SFTBENCH_PHANTOM_LIBRARY"); file != nullptr && *file != '\0')
    return file;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  constexpr const char* kName = "libsftbench_phantom.so";
  for (const fs::path& place : {folder / kName, folder.parent_path() / "lib" / "sftbench" / kName})
    if (fs::exists(place, error)) return place;
  throw RunError(ReasonCode::kUnsupported,
                 "there is no " + std::string(kName) +
                     " beside this program: a rehearsal runs the engine for GPUs, which only a "
                     "build with -DSFTBENCH_CUDA=ON has; docs/internals/building.md tells how to "
                     "make it");
}

Rehearsal rehearse(const TrainingJob& job, const RehearsedGpu& gpu, const fs::path& executable) {
  const fs::path library = phantom_library();
  const OwnedFd answer = anonymous_file("rehearsal"), log = anonymous_file("rehearsal log");
  const Json request = {{"job", to_json(rehearsed(job))}, {"answer_fd", answer.get()}};
  const OwnedFd input = anonymous_file("request", packed_json(request));
  ChildProcess child({.executable = executable,
                      .arguments = {kRehearseCommand},
                      .environment = {{"LD_PRELOAD", library.string()},
                                      {"LD_LIBRARY_PATH", library.parent_path() / "phantom"},
                                      {"SFTBENCH_PHANTOM", json_text(phantom_settings(gpu))}},
                      .standard_input = input.get(),
                      .standard_output = log.get(),
                      .inherited_fds = {answer.get()}});
  while (!child.ended()) std::this_thread::sleep_for(kLookAgain);
  return rehearsal_of(content_of(answer.get()), content_of(log.get()));
}

}  // namespace sftbench
