#include "cli/sweep.h"

#include <spdlog/spdlog.h>

#include <limits>
#include <memory>

#include "cli/hub_fetch.h"
#include "cli/launched_run.h"
#include "cli/local_sweep.h"
#include "cli/number_checks.h"
#include "cli/sweep_arguments.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace {

EngineSweep on_engine(const SweepArguments& arguments, const DevicePrices& prices) {
  return {.selection = arguments.selection,
          .backend = arguments.backend.name(),
          .operation_path = arguments.operation_path,
          .seed = arguments.seed,
          .retry_failed = arguments.options.retry_failed,
          .repeats = arguments.options.repeats > 1,
          .output = arguments.output,
          .dry_run = arguments.dry_run,
          .prices = prices};
}

int sweep(const CLI::App& command, const SweepArguments& arguments, const CommonOptions& common) {
  const OutputFormat format = output_format(arguments.format);
  check_backend(arguments.backend);
  check_engine_options(arguments.engine);
  if (!arguments.engine.engine.empty() && arguments.nodes.given()) {
    throw InputError({{{},
                       0,
                       "--on",
                       "stands beside --launcher, --hosts or --hostfile",
                       "one of them: an engine finds the nodes itself",
                       {}}});
  }
  if (!arguments.engine.engine.empty()) {
    const DevicePrices prices = device_prices(arguments.prices);
    return sweep_on_engine(command, arguments.engine, on_engine(arguments, prices), format);
  }
  refuse_several_tasks("sweep");
  if (arguments.nodes.given()) pass_on(arguments.nodes);
  if (arguments.dry_run) return preview_sweep(arguments, format);
  return sweep_here(arguments, format,
                    common.no_progress || !spdlog::should_log(spdlog::level::info));
}

void add_work_options(CLI::App& command, SweepArguments& arguments) {
  SweepOptions& options = arguments.options;
  command
      .add_option("--operation", arguments.operation_path,
                  "which entities, in which order (ado's random_walk), or a search for the best "
                  "(ado's ray_tune)")
      ->type_name("FILE");
  command.add_option("--seed", arguments.seed, "of random orders; else it is drawn and said")
      ->transform(whole_number(0, std::numeric_limits<uint64_t>::max()))
      ->option_text("N");
  command
      .add_option("--jobs", arguments.jobs,
                  "measurements at a time, between which cores are divided; auto: as many as "
                  "have GPUs or cores of their own; default: 1, or the operation's batchSize")
      ->type_name("N|auto");
  command.add_option("--limit", options.limit, "cells to measure before the sweep ends; 0: all")
      ->transform(whole_number(0))
      ->option_text("N=0");
  command.add_option("--repeats", options.repeats, "samples of each cell that is valid")
      ->transform(whole_number(1, 1000))
      ->option_text("N=1");
  command.add_flag("--dry-run", arguments.dry_run,
                   "list what would be measured and what is there, and stop");
  command.add_flag("--worker", options.worker,
                   "one of many on this folder: leave to others what this machine cannot measure");
  command
      .add_option("--until", arguments.until,
                  "when to end: a duration (2h, 1h30m) or a time (2026-11-24T12:00Z); default of "
                  "--worker: the end of the job, where the launcher tells it")
      ->type_name("WHEN");
  command
      .add_option("--locking", arguments.claims,
                  "how processes on the folder keep off each other's cells; auto: locks on local "
                  "disks, leases elsewhere")
      ->type_name("auto|locks|leases")
      ->capture_default_str();
  command
      .add_option("--lease", arguments.lease_s,
                  "time without a renewal after which others take a lease over")
      ->transform(duration(0.1, 86400))
      ->option_text("DURATION=60s");
  command.add_option("-o,--output", arguments.output, "folder of the results")
      ->type_name("DIR")
      ->capture_default_str();
  command.add_option("--format", arguments.format, "table, json, jsonl, csv or md")
      ->capture_default_str();
}

void add_failure_options(CLI::App& command, SweepArguments& arguments) {
  SweepOptions& options = arguments.options;
  command
      .add_option("--timeout", options.timeout_s,
                  "time that a measurement, or each of its runs, may take; 0: any")
      ->transform(duration(0, kMostSeconds))
      ->option_text("DURATION=1d");
  command
      .add_option("--stall-timeout", options.stall_timeout_s,
                  "time that it may go without a step; 0: any")
      ->transform(duration(0, kMostSeconds))
      ->option_text("DURATION=1h");
  command
      .add_option("--host-memory", options.host_memory_bytes,
                  "private memory that a measurement may take, as 64GiB; more ends as OOM_HOST")
      ->transform(byte_count())
      ->option_text("BYTES");
  command
      .add_option("--max-retries", arguments.max_retries,
                  "of a failed measurement, at the end of the sweep")
      ->transform(whole_number(0, 1000))
      ->option_text("N=0");
  command.add_flag("!--no-retry-failed", options.retry_failed,
                   "leave alone what failed in an earlier sweep");
  command
      .add_option("--max-quick-failures", options.breaker_failures,
                  "failures in a row, each within --quick-failure, that stop the sweep; "
                  "0: never")
      ->transform(whole_number(0))
      ->option_text("N=10");
  command.add_option("--quick-failure", options.breaker_quick_s, "time within which one is quick")
      ->transform(duration(0, kMostSeconds))
      ->option_text("DURATION=10s");
}

}  // namespace

void add_sweep_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  CLI::App* command = app.add_subcommand("sweep", "measure every entity of a space, resumable");
  const auto arguments = std::make_shared<SweepArguments>();
  add_selection_options(*command, arguments->selection);
  add_fetch_option(*command, arguments->selection.fetch);
  add_work_options(*command, *arguments);
  add_failure_options(*command, *arguments);
  add_backend_options(*command, arguments->backend);
  add_save_options(*command, arguments->save);
  add_track_option(*command, arguments->track);
  add_node_options(*command, arguments->nodes);
  add_engine_options(*command, arguments->engine);
  add_price_option(*command, arguments->prices);
  add_price_book_option(*command, arguments->prices.book);
  command->footer(R"(
Each measurement runs in a child process and ends valid, invalid or failed; its
file is written, whole or not at all, as soon as it has ended. The same command
again goes on where this one stopped. Several sweeps and runs may work on one
folder. --output-dir and --save-model-dir get a folder for each measurement,
named as its result. A measurement that was interrupted goes on from its own.

A worker (--worker) begins at a random place of the space. It leaves cells to
others that this machine cannot measure, and begins none that would not end
before --until, going by those that it has measured.

At its end a sweep names, for each model, experiment and length, the cell whose
tokens cost least, or the fastest per device where there is no price, the next
one, and whether the difference is more than noise.

Exit status: 0 all is measured, valid or invalid; 2 usage or input error;
4 something failed, the sweep had to stop, or results that it had settled are
gone; 6 cells remain, for other machines or for later; 130 interrupted.

Examples:
  sftbench sweep space.yaml --dry-run
  sftbench sweep space.yaml -o results --jobs auto
  sftbench sweep space.yaml -o /shared/results --worker --until 2h
  sftbench sweep space.yaml --output-dir trained --save-model-dir models
  sftbench sweep space.yaml --backend simulate --simulate crash_probability=0.1
  sftbench sweep space.yaml --on slurm --slurm partition=gpu --submit)");
  command->callback([arguments, command, &common, &exit_code] {
    arguments->selection.shows_progress = !common.no_progress;
    arguments->selection.measures = !arguments->dry_run;
    exit_code = sweep(*command, *arguments, common);
  });
}

}  // namespace sftbench
