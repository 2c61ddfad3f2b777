// A whole optimization step on SmolLM2-135M's shapes: the engine beside the same step written with
// stock operators, or full fine-tuning beside LoRA and prompt tuning. Each runs in processes of its
// own that take turns, so that a change of the machine's mood meets all.
//
//   step_bench [--dtype bfloat16|float32] [--length 512] [--rounds 5] [--steps 4]     batch 1
//   step_bench --tuning [--checkpointing] [...]               full, lora and pt in turn
//   step_bench --kernels [--checkpointing] [...]    full beside each kernel, and all, switched off
//   step_bench --offload [...]   each offload, copied on this CPU, beside without; --checkpointing
//   step_bench --memory [--length 2048]                       activation memory
//   step_bench --child full|lora|pt|no_loss|...|plain|memory [...]     one process, JSON on stdout
//                                       full and lora take --config CONFIG_JSON of another model
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "step/children.h"

namespace {

using sftbench::Json;

struct Options {
  std::string child;
  sftbench::bench::Work work;
  int64_t rounds = 5;
  bool memory = false, tuning = false, kernels = false, offload = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--memory") {
      options.memory = true;
      options.work.length = 2048;
      continue;
    }
    const std::map<std::string, bool*> switches = {
        {"--tuning", &options.tuning},
        {"--kernels", &options.kernels},
        {"--offload", &options.offload},
        {"--checkpointing", &options.work.checkpointing}};
    if (const auto found = switches.find(name); found != switches.end()) {
      *found->second = true;
      continue;
    }
    if (i + 1 == argc) throw std::invalid_argument(name + " needs a value");
    const std::string value = argv[++i];
    if (name == "--child") {
      options.child = value;
    } else if (name == "--dtype") {
      options.work.dtype = value;
    } else if (name == "--config") {
      options.work.config = std::filesystem::absolute(value);
    } else if (name == "--length") {
      options.work.length = std::stoll(value);
    } else if (name == "--rounds") {
      options.rounds = std::stoll(value);
    } else if (name == "--steps") {
      options.work.steps = std::stoll(value);
    } else {
      throw std::invalid_argument("unknown option " + name);
    }
  }
  return options;
}

std::string run_child(const Options& options) {
  using namespace sftbench::bench;
  const auto texts =
      std::filesystem::temp_directory_path() / ("step_bench." + std::to_string(getpid()));
  std::string result;
  if (options.child == "plain") {
    result = run_plain(options.work);
  } else if (options.child == "memory") {
    result = measure_activations(options.work, texts.string());
  } else {
    result = run_engine(random_job(options.child, options.work, texts.string()));
  }
  std::filesystem::remove(texts);
  return result;
}

Json start_child(const std::string& program, const std::string& child, const Options& options) {
  const sftbench::bench::Work& work = options.work;
  const std::string command = program + " --child " + child + " --dtype " + work.dtype +
                              " --length " + std::to_string(work.length) + " --steps " +
                              std::to_string(work.steps) +
                              (work.checkpointing ? " --checkpointing" : "");
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + command);
  std::string output;
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    output.append(buffer.data(), n);
  if (const int status = pclose(pipe); status != 0) {
    throw std::runtime_error(command + " ended with status " + std::to_string(WEXITSTATUS(status)));
  }
  return sftbench::parse_json(output, command);
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}

// The first step of each process warms up and is left out. Ratios are to the first of `children`.
int compare_speed(const std::string& program, const Options& options,
                  const std::vector<std::string>& children) {
  std::map<std::string, std::vector<double>> seconds;
  std::map<std::string, double> peak_mib, tokens;
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (const std::string& child : children) {
      const Json result = start_child(program, child, options);
      const auto steps = result["step_seconds"].get<std::vector<double>>();
      seconds[child].insert(seconds[child].end(), steps.begin() + 1, steps.end());
      tokens[child] = result["tokens_per_step"];
      peak_mib[child] = std::max(peak_mib[child], result["peak_rss_bytes"].get<double>() / 1048576);
    }
  }
  std::printf(
      "SmolLM2-135M shapes, batch 1x%ld, AdamW, %s, checkpointing %s, %ld processes of each kind "
      "in "
      "turn\n",
      options.work.length, options.work.dtype.c_str(), options.work.checkpointing ? "on" : "off",
      options.rounds);
  std::printf("%-20s %10s %10s %10s %10s %10s %10s %8s %8s\n", "step", "median s", "p25 s", "p75 s",
              "min s", "tokens/s", "peak MiB", "speed", "memory");
  const std::string& first = children.front();
  const auto rate = [&](const std::string& child) {
    return tokens[child] / quantile(seconds[child], 0.5);
  };
  for (const std::string& child : children) {
    const std::vector<double>& values = seconds[child];
    std::printf("%-20s %10.3f %10.3f %10.3f %10.3f %10.1f %10.0f %8.2f %8.2f\n", child.c_str(),
                quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75),
                quantile(values, 0), rate(child), peak_mib[child], rate(child) / rate(first),
                peak_mib[child] / peak_mib[first]);
  }
  return 0;
}

int compare_memory(const std::string& program, const Options& options) {
  const Json bytes = start_child(program, "memory", options);
  const auto mib = [&bytes](const char* key) { return bytes[key].get<double>() / 1048576; };
  std::printf(
      "SmolLM2-135M shapes, batch 1x%ld, %s: peak of one pass beyond parameters, gradients and "
      "optimizer state\n",
      options.work.length, options.work.dtype.c_str());
  for (const char* key : {"kept", "checkpointed", "checkpointed_reentrant"}) {
    std::printf("%-24s %8.1f MiB  %.2f of kept\n", key, mib(key), mib(key) / mib("kept"));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  if (!options.child.empty()) {
    std::cout << run_child(options) << '\n';
    return 0;
  }
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  if (options.memory) return compare_memory(program, options);
  const std::vector<std::string> methods = {"full", "lora", "pt"}, written = {"plain", "full"},
                                 kernels = {"full",    "no_loss",      "no_rms_norm",
                                            "no_rope", "no_attention", "no_kernels"},
                                 offloads = {"kept", "offload_optimizer", "offload_activations",
                                             "sharded", "offload_params"};
  return compare_speed(program, options,
                       options.tuning    ? methods
                       : options.kernels ? kernels
                       : options.offload ? offloads
                                         : written);
} catch (const std::exception& error) {
  std::cerr << "step_bench: " << error.what() << '\n';
  return 1;
}
