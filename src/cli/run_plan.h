// From the arguments of `run` to what it measures: an entity of a space, or a job that was printed.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "cli/backend_options.h"
#include "cli/generation_options.h"
#include "cli/price_options.h"
#include "cli/save_options.h"
#include "cli/selection.h"
#include "cli/track_options.h"
#include "sftbench/launch/node_launch.h"
#include "sftbench/plan/classify_error.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

struct RunArguments {
  Selection selection;
  BackendOptions backend;
  std::string job_path;
  std::string output = "results";
  std::string format = "table";
  double sample_period_s = 1.0;
  double timeout_s = 0;        // of each of several runs; 0: none
  double stall_timeout_s = 0;  // the same, without a step
  std::string trace;           // file for a timeline; empty: none
  SaveOptions save;
  GenerationOptions generation;
  PriceOptions price;
  TrackOptions track;
  NodeOptions nodes;
  bool dry_run = false;
};

// What is to be measured, or why that is settled already.
struct RunPlan {
  TrainingJob job;  // names and inputs are always there
  bool generate_dataset = false;
  std::optional<ErrorClass> ending;  // of a measurement that cannot begin
  SaveOptions save;                  // options, and beside them what --arguments says
  std::vector<TrackerSpec> trackers;
};

// InputError. What ends a measurement before it begins stands in the plan, and warnings and notes
// are logged.
RunPlan make_run_plan(const RunArguments& arguments);

// A job has everything that options of a space say: beside --job they would change nothing.
// InputError.
void refuse_beside_job(const CLI::App& command);

// Prints the job for --dry-run, with a warning for what this machine lacks. The exit status.
int print_job(const RunPlan& plan);

}  // namespace sftbench
