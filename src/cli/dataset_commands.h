// The subcommands of `sftbench dataset`, one file per kind, and what they share.
#pragma once

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "cli/dataset_progress.h"
#include "sftbench/launch/interrupt.h"

namespace sftbench {

// `app` has the common options of the program, wherever the command hangs in it.
void add_generator_commands(CLI::App& parent, const CLI::App& app, int& exit_code);
void add_count_command(CLI::App& parent, const CLI::App& app, int& exit_code);
void add_show_command(CLI::App& parent, int& exit_code);

inline bool shows_progress(const CLI::App& app) {
  const CLI::Option* off = app.get_option_no_throw("--no-progress");
  return (off == nullptr || off->count() == 0) && spdlog::should_log(spdlog::level::info);
}

// To be called after each entry: shows how far things are, if `shown`, and throws
// DatasetInterrupted.
inline std::function<void(int64_t done)> watched(const InterruptNote& interrupts, bool shown,
                                                 std::string what, int64_t total,
                                                 int64_t already = 0) {
  std::shared_ptr<DatasetProgress> progress;
  if (shown) {
    progress = std::make_shared<DatasetProgress>(std::cerr, ::isatty(STDERR_FILENO) != 0,
                                                 std::move(what), total, already);
  }
  return [&interrupts, progress](int64_t done) {
    interrupts.throw_if_interrupted();
    if (progress) progress->update(done);
  };
}

// Runs `work`; returns the exit status. `kept` says what an interrupt leaves.
inline int run_interruptibly(const std::string& kept,
                             const std::function<void(const InterruptNote&)>& work) {
  const InterruptNote interrupts;
  try {
    work(interrupts);
    return 0;
  } catch (const DatasetInterrupted&) {
    std::cerr << "sftbench: interrupted; " << kept << "\n";
    return kInterruptedExitCode;
  }
}

}  // namespace sftbench
