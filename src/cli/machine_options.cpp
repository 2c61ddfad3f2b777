#include "cli/machine_options.h"

#include "cli/number_checks.h"

namespace sftbench {

void add_free_memory_option(CLI::App& command, MachineOverrides& machine) {
  command
      .add_option("--free-gib", machine.free_gib,
                  "of its memory, what a display and other programs leave at most")
      ->check(above_zero())
      ->type_name("X");
}

void add_machine_options(CLI::App& command, MachineOverrides& machine) {
  constexpr double kLeast = 1e-6, kMost = 1e9;  // of GB/s, GiB and microseconds
  constexpr double kLeastFlops = 1e6, kMostFlops = 1e21;
  const auto add = [&command](const char* name, std::optional<double>& value, const char* meaning,
                              double least, double most) {
    command.add_option(name, value, meaning)->check(number(least, most))->type_name("X");
  };
  const auto figure = [&add](const char* name, std::optional<double>& value, const char* meaning) {
    add(name, value, meaning, kLeast, kMost);
  };
  const auto flops = [&add](const char* name, std::optional<double>& value, const char* meaning) {
    add(name, value, meaning, kLeastFlops, kMostFlops);
  };
  flops("--flops-per-s", machine.flops_per_s, "that large products of a rank reach");
  flops("--attention-flops-per-s", machine.attention_flops_per_s, "that attention reaches");
  figure("--element-gb-per-s", machine.element_gb_per_s, "that element-wise kernels reach");
  figure("--memory-gb-per-s", machine.memory_gb_per_s, "of a rank's memory");
  figure("--memory-gib", machine.memory_gib, "that a rank has");
  add_free_memory_option(command, machine);
  figure("--inside-gb-per-s", machine.inside_gb_per_s, "that a rank sends within its node");
  figure("--inside-latency-us", machine.inside_latency_us, "of a hop within a node");
  figure("--between-gb-per-s", machine.between_gb_per_s, "that a rank sends to other nodes");
  figure("--between-latency-us", machine.between_latency_us, "of a hop between nodes");
  command.add_flag("--no-overlap", machine.no_overlap,
                   "transfers take the core that computes, as on CPUs with a rank on every core");
  command
      .add_option("--stack", machine.stack,
                  "what trains: this program, or another of config/stacks.yaml")
      ->each([&machine](const std::string&) { machine.says_stack = true; })
      ->type_name("sftbench|transformers|...")
      ->capture_default_str();
}

}  // namespace sftbench
