// A whole optimisation step on SmolLM2-135M's shapes: the engine beside the same step written with
// stock operators. Both run in processes of their own that take turns, so that a change of the
// machine's mood meets both.
//
//   step_bench [--dtype bfloat16|float32] [--length 512] [--rounds 5] [--steps 4]   speed, batch 1
//   step_bench --memory [--length 2048]                                             activation
//   memory step_bench --child engine|plain|memory --dtype D --length L --steps N           one
//   process, JSON on stdout
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
  std::string child, dtype = "bfloat16";
  int64_t length = 512, rounds = 5, steps = 4;
  bool memory = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--memory") {
      options.memory = true;
      options.length = 2048;
      continue;
    }
    if (i + 1 == argc) throw std::invalid_argument(name + " needs a value");
    const std::string value = argv[++i];
    if (name == "--child") {
      options.child = value;
    } else if (name == "--dtype") {
      options.dtype = value;
    } else if (name == "--length") {
      options.length = std::stoll(value);
    } else if (name == "--rounds") {
      options.rounds = std::stoll(value);
    } else if (name == "--steps") {
      options.steps = std::stoll(value);
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
    result = run_plain(options.dtype, options.length, options.steps);
  } else if (options.child == "engine") {
    result = run_engine(
        smollm2_job(options.dtype, options.length, options.steps, false, texts.string()));
  } else {
    result = measure_activations(options.dtype, options.length, texts.string());
  }
  std::filesystem::remove(texts);
  return result;
}

Json start_child(const std::string& program, const std::string& child, const Options& options) {
  const std::string command = program + " --child " + child + " --dtype " + options.dtype +
                              " --length " + std::to_string(options.length) + " --steps " +
                              std::to_string(options.steps);
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

// The first step of each process warms up and is left out.
int compare_speed(const std::string& program, const Options& options) {
  std::map<std::string, std::vector<double>> seconds;
  std::map<std::string, double> peak_mib;
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (const char* child : {"plain", "engine"}) {
      const Json result = start_child(program, child, options);
      const auto steps = result["step_seconds"].get<std::vector<double>>();
      seconds[child].insert(seconds[child].end(), steps.begin() + 1, steps.end());
      peak_mib[child] = std::max(peak_mib[child], result["peak_rss_bytes"].get<double>() / 1048576);
    }
  }
  std::printf("SmolLM2-135M shapes, batch 1x%ld, AdamW, %s, %ld processes of each kind in turn\n",
              options.length, options.dtype.c_str(), options.rounds);
  std::printf("%-7s %10s %10s %10s %10s %10s %10s\n", "step", "median s", "p25 s", "p75 s", "min s",
              "tokens/s", "peak MiB");
  for (const auto& [child, values] : seconds) {
    const double median = quantile(values, 0.5);
    std::printf("%-7s %10.3f %10.3f %10.3f %10.3f %10.1f %10.0f\n", child.c_str(), median,
                quantile(values, 0.25), quantile(values, 0.75), quantile(values, 0),
                static_cast<double>(options.length) / median, peak_mib[child]);
  }
  std::printf("plain / engine: median %.2f, min %.2f\n",
              quantile(seconds["plain"], 0.5) / quantile(seconds["engine"], 0.5),
              quantile(seconds["plain"], 0) / quantile(seconds["engine"], 0));
  return 0;
}

int compare_memory(const std::string& program, const Options& options) {
  const Json bytes = start_child(program, "memory", options);
  const auto mib = [&bytes](const char* key) { return bytes[key].get<double>() / 1048576; };
  std::printf(
      "SmolLM2-135M shapes, batch 1x%ld, %s: peak of one pass beyond parameters, gradients and "
      "optimiser state\n",
      options.length, options.dtype.c_str());
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
  return options.memory ? compare_memory(program, options) : compare_speed(program, options);
} catch (const std::exception& error) {
  std::cerr << "step_bench: " << error.what() << '\n';
  return 1;
}
