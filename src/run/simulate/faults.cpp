#include "simulate/faults.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numbers>
#include <stdexcept>
#include <thread>

namespace sftbench {
namespace {

constexpr double kGib = 1 << 30;
constexpr int kExitStatus = 7;

std::string gib_text(double gib) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f GiB", gib);
  return text.data();
}

// Memory that is there until the process ends; std::bad_alloc when it is not to be had.
void take_memory(double gib) {
  static std::unique_ptr<char[]> kept;
  kept = std::make_unique<char[]>(
      static_cast<size_t>(gib * kGib));  // zeroed: every page of it is touched
}

[[noreturn]] void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

void crash(int signal) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  std::fprintf(stderr, "simulated crash: %s\n", strsignal(signal));
  std::signal(signal, SIG_DFL);
  ::raise(signal);
}

}  // namespace

double uniform(std::mt19937_64& generator) {
  return static_cast<double>(generator() >> 11) * 0x1p-53;
}

double gaussian(std::mt19937_64& generator) {
  const double radius = std::sqrt(-2 * std::log(1 - uniform(generator)));
  return radius * std::cos(2 * std::numbers::pi * uniform(generator));
}

Faults::Faults(const SimulationSettings& settings, const JobCost& cost, bool on_gpu,
               std::mt19937_64& generator)
    : settings_(settings),
      device_gib_(cost.device_bytes / kGib),
      limit_gib_(settings.oom_gpu_above_gib.value_or(cost.device_limit_bytes / kGib)),
      host_gib_(cost.host_bytes / kGib),
      on_gpu_(on_gpu) {
  oom_gpu_ = uniform(generator) < settings.oom_gpu_probability;
  const bool fails = uniform(generator) < settings.fail_probability;
  const bool hangs = uniform(generator) < settings.hang_probability;
  const bool crashes = uniform(generator) < settings.crash_probability;
  const auto steps = static_cast<double>(cost.begin.total_steps);
  const auto step = 1 + static_cast<int64_t>(uniform(generator) * steps);
  if (hangs) settings_.hang_at_step = step;
  if (crashes) settings_.crash_at_step = step;
  if (settings.fail_probability > 0) {
    settings_.fail.reset();
    if (fails) settings_.fail = settings.fail.value_or(ReasonCode::kInternal);
  }
  device_gib_ *= 1 + settings.memory_noise * gaussian(generator);
}

void Faults::refuse_memory() const {
  const bool limited = settings_.oom_gpu_above_gib.has_value() || limit_gib_ > 0;
  const bool too_much = limited && device_gib_ > limit_gib_;
  if ((on_gpu_ && too_much) || oom_gpu_) {
    throw std::runtime_error("CUDA out of memory. Tried to allocate " + gib_text(device_gib_) +
                             " (simulated)");
  }
  if (settings_.oom_host_above_gib && host_gib_ > *settings_.oom_host_above_gib) {
    throw std::runtime_error("DefaultCPUAllocator: can't allocate memory: you tried to allocate " +
                             gib_text(host_gib_) + " (simulated)");
  }
}

void Faults::before_first_step() const {
  refuse_memory();
  take_memory(settings_.allocate_gib);
  if (settings_.fail) {
    throw RunError(*settings_.fail, "a simulated failure",
                   "--simulate fail=" + std::string(to_string(*settings_.fail)));
  }
}

void Faults::after_step(int64_t step) const {
  if (step == settings_.crash_at_step) crash(settings_.crash_signal);
  if (step == settings_.exit_at_step) ::_exit(kExitStatus);
  if (step == settings_.hang_at_step) hang();
}

}  // namespace sftbench
