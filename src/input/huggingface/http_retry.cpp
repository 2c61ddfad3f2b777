#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <thread>

#include "huggingface/http.h"
#include "sftbench/base/clock.h"

namespace sftbench {
namespace {

constexpr double kLongestWaitSeconds = 60;
constexpr double kLongestAskedForSeconds = 600;
constexpr double kNapSeconds = 0.05;

std::string seconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", seconds);
  return text;
}

}  // namespace

void wait_or_cancel(const FetchSettings& settings, double seconds) {
  const double end_s = steady_seconds() + seconds;
  for (;;) {
    if (settings.cancelled()) throw FetchCancelled();
    const double left_s = end_s - steady_seconds();
    if (left_s <= 0) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left_s, kNapSeconds)));
  }
}

void with_retries(const FetchSettings& settings, const std::function<void()>& attempt) {
  for (int failures = 0;;) {
    try {
      return attempt();
    } catch (const HttpError& error) {
      failures = error.gained ? 1 : failures + 1;
      if (!error.retryable || failures > settings.retries) throw;
      double wait_s =
          std::min(kLongestWaitSeconds, settings.first_wait_s * std::ldexp(1.0, failures - 1));
      if (error.retry_after_s > 0) {
        if (error.retry_after_s > kLongestAskedForSeconds) throw;
        wait_s = error.retry_after_s;
      }
      settings.log(FetchLog::kWarning, std::string(error.what()) + "; trying again in " +
                                           seconds_text(wait_s) + " (" + std::to_string(failures) +
                                           " of " + std::to_string(settings.retries) + ")");
      wait_or_cancel(settings, wait_s);
    }
  }
}

}  // namespace sftbench
