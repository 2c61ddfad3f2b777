#include "cli/engine_probe.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/launch/engine_library.h"

namespace sftbench {
namespace {

// What is asked of an engine.
using EngineQuestion = Json (*)(Engine&);

[[noreturn]] void answer(const std::string& device, EngineQuestion question, int pipe_end) {
  Json reply;
  try {
    reply = {{"environment", question(*load_engine(device))}};
  } catch (const std::exception& error) {
    reply = {{"problem", error.what()}};
  }
  const std::string text = json_text(reply);
  [[maybe_unused]] const ssize_t written = ::write(pipe_end, text.data(), text.size());
  _exit(0);
}

std::string read_until_closed(int pipe_end, double timeout_s) {
  std::string text;
  std::array<char, 4096> buffer{};
  const double end_s = steady_seconds() + timeout_s;
  for (;;) {
    pollfd poll_one = {pipe_end, POLLIN, 0};
    const int left_ms = static_cast<int>((end_s - steady_seconds()) * 1000);
    if (left_ms <= 0 || ::poll(&poll_one, 1, left_ms) <= 0) return text;
    const ssize_t got = ::read(pipe_end, buffer.data(), buffer.size());
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
}

}  // namespace

namespace {

EngineProbe ask_engine(const std::string& device, EngineQuestion question, double timeout_s) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return {Json::object(), "no pipe to a child process"};
  const pid_t child = ::fork();
  if (child < 0) return {Json::object(), "no child process"};
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::close(ends[0]);
    answer(device, question, ends[1]);
  }
  ::close(ends[1]);
  const std::string text = read_until_closed(ends[0], timeout_s);
  ::close(ends[0]);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  const Json reply = Json::parse(text, nullptr, false);
  if (reply.is_object()) {
    return {reply.value("environment", Json(Json::object())),
            reply.value("problem", std::string())};
  }
  const bool crashed = WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL;
  return {Json::object(),
          crashed ? std::string("loading it ends with signal ") + strsignal(WTERMSIG(status))
                  : "it does not answer"};
}

}  // namespace

EngineProbe probe_engine(const std::string& device, double timeout_s) {
  return ask_engine(
      device, [](Engine& engine) { return engine.environment(); }, timeout_s);
}

EngineProbe probe_constants(double timeout_s) {
  return ask_engine(
      "cpu", [](Engine& engine) { return engine.probe(); }, timeout_s);
}

}  // namespace sftbench
