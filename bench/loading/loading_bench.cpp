// How fast weights get from the page cache into a model, beside `cat FILE >/dev/null`, which only
// reads them.
//   loading_bench write CONFIG DTYPE FOLDER   writes a checkpoint of random weights; prints how
//   long drawing them took loading_bench compare DTYPE FOLDER [N]    N interleaved rounds (default
//   11); prints medians and the ratio
// Three loads in one process, and a new process for every round. The first finds memory that is new
// to the process and, on a virtual machine, perhaps new to the machine too: its host hands that out
// at a tenth of the speed. (Before each process another one writes to as much memory and gives it
// back, which helps, but not reliably.) The second finds memory that the kernel has to supply and
// clear again, but not the host; the third what the second has left.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "engine/host_memory.h"
#include "sftbench/base/torch.h"
#include "sftbench/measure/host_info.h"
#include "sftbench/model/causal_lm.h"

namespace {

using namespace sftbench;

constexpr const char* kWeightsFile = "/model.safetensors";

struct DtypeRow {
  torch::Dtype dtype;
  const char* stored;
};

DtypeRow parse_dtype(const std::string& name) {
  static const std::map<std::string, DtypeRow> kDtypes = {{"float32", {torch::kFloat32, "F32"}},
                                                          {"bfloat16", {torch::kBFloat16, "BF16"}},
                                                          {"float16", {torch::kFloat16, "F16"}}};
  return kDtypes.at(name);
}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void write_checkpoint(CausalLm& model, const char* stored_dtype, const std::string& path) {
  Json header = Json::object();
  size_t offset = 0;
  for (const NamedParameter& parameter : model.parameters()) {
    const size_t end = offset + parameter.tensor->nbytes();
    header[parameter.name] = {{"dtype", stored_dtype},
                              {"shape", parameter.tensor->sizes().vec()},
                              {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::ofstream file(path, std::ios::binary);
  file.exceptions(std::ios::failbit | std::ios::badbit);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << text;
  for (const NamedParameter& parameter : model.parameters()) {
    file.write(static_cast<const char*>(parameter.tensor->data_ptr()),
               static_cast<std::streamsize>(parameter.tensor->nbytes()));
  }
}

void write(const std::string& config_path, const std::string& dtype_name,
           const std::string& folder) {
  const DtypeRow dtype = parse_dtype(dtype_name);
  const Json config = read_json_file(config_path);
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(config_path, folder + "/config.json",
                             std::filesystem::copy_options::overwrite_existing);
  const auto model = make_causal_lm(config, dtype.dtype, torch::kCPU);
  const double drawing_s = seconds([&] { initialize_randomly(*model, 42); });
  write_checkpoint(*model, dtype.stored, folder + kWeightsFile);
  int64_t numel = 0;
  for (const NamedParameter& parameter : model->parameters()) numel += parameter.tensor->numel();
  std::printf("%.1f M parameters drawn in %.3f s with %d threads\n",
              static_cast<double>(numel) / 1e6, drawing_s, at::get_num_threads());
}

// Gives the pages of all parameters back to the kernel: the next write to each finds a new one,
// cleared.
void give_back_pages(CausalLm& model) {
  constexpr uintptr_t kPageBytes = uintptr_t{2} << 20;
  uintptr_t begin = UINTPTR_MAX,
            end = 0;  // large parameters lie side by side, small ones elsewhere (host_memory.cpp)
  for (const NamedParameter& parameter : model.parameters()) {
    if (parameter.tensor->nbytes() < kPageBytes / 16) continue;
    const auto address = reinterpret_cast<uintptr_t>(parameter.tensor->data_ptr());
    begin = std::min(begin, address);
    end = std::max(end, address + parameter.tensor->nbytes());
  }
  begin = (begin + kPageBytes - 1) / kPageBytes * kPageBytes;
  end = end / kPageBytes * kPageBytes;
  if (begin < end && ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED) != 0) {
    throw std::runtime_error("madvise failed");
  }
}

void load_three_times(const std::string& dtype_name, const std::string& folder) {
  const Json config = read_json_file(folder + "/config.json");
  at::parallel_for(0, at::get_num_threads(), 1, [](int64_t, int64_t) {});  // starts the thread pool
  const auto model = make_causal_lm(config, parse_dtype(dtype_name).dtype, torch::kCPU);
  const double first_s = seconds([&] { load_weights(*model, folder); });
  give_back_pages(*model);
  const double cleared_s = seconds([&] { load_weights(*model, folder); });
  const double reused_s = seconds([&] { load_weights(*model, folder); });
  std::printf("%.6f %.6f %.6f\n", first_s, cleared_s, reused_s);
}

struct Loads {
  double first_s, cleared_s, reused_s;
};

Loads run_child(const std::string& command) {
  FILE* output = ::popen(command.c_str(), "r");
  Loads loads{};
  const bool read = output != nullptr && std::fscanf(output, "%lf %lf %lf", &loads.first_s,
                                                     &loads.cleared_s, &loads.reused_s) == 3;
  if (output == nullptr || ::pclose(output) != 0 || !read)
    throw std::runtime_error("failed: " + command);
  return loads;
}

void touch_memory(size_t bytes) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) ::_exit(1);
    ::madvise(memory, bytes, MADV_HUGEPAGE);
    std::memset(memory, 1, bytes);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void compare(const std::string& self, const std::string& dtype, const std::string& folder,
             int rounds) {
  const std::string file = folder + kWeightsFile;
  const std::string cat = "cat '" + file + "' >/dev/null";
  if (std::system(cat.c_str()) != 0)
    throw std::runtime_error("failed: " + cat);  // fills the page cache
  std::vector<double> cat_s, first_s, cleared_s, reused_s;
  for (int round = 0; round < rounds; ++round) {
    cat_s.push_back(seconds([&] { (void)!std::system(cat.c_str()); }));
    touch_memory(2 * std::filesystem::file_size(file));
    const Loads loads = run_child("'" + self + "' load " + dtype + " '" + folder + "'");
    first_s.push_back(loads.first_s);
    cleared_s.push_back(loads.cleared_s);
    reused_s.push_back(loads.reused_s);
  }
  const auto gigabytes = static_cast<double>(std::filesystem::file_size(file)) / 1e9;
  std::printf("%.3f GB, %d rounds, medians: cat %.4f s (%.2f GB/s)\n", gigabytes, rounds,
              median(cat_s), gigabytes / median(cat_s));
  const auto print = [&](const char* memory, const std::vector<double>& load_s) {
    std::printf("  load into %-42s %.4f s (%.2f GB/s), %.2f of the speed of cat\n", memory,
                median(load_s), gigabytes / median(load_s), median(cat_s) / median(load_s));
  };
  print("memory new to the process, the first load:", first_s);
  print("memory that the kernel clears:", cleared_s);
  print("memory in use:", reused_s);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  // As the training engine sets itself up.
  install_host_memory();
  at::set_num_threads(read_host_info().cores);
  try {
    if (words.size() == 4 && words[0] == "write") {
      write(words[1], words[2], words[3]);
    } else if (words.size() == 3 && words[0] == "load") {
      load_three_times(words[1], words[2]);
    } else if (words.size() >= 3 && words[0] == "compare") {
      compare(argv[0], words[1], words[2], words.size() > 3 ? std::stoi(words[3]) : 11);
    } else {
      std::cerr
          << "usage: loading_bench write CONFIG DTYPE FOLDER | compare DTYPE FOLDER [ROUNDS]\n";
      return 2;
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
