// How fast weights get from the page cache into a model, beside `cat FILE >/dev/null`, which only
// reads them.
//   loading_bench write CONFIG DTYPE FOLDER   writes a checkpoint of random weights; prints how
//   long drawing them took loading_bench compare DTYPE FOLDER [N]    N interleaved rounds (default
//   11); prints medians and the ratio
// Every load runs in a process of its own: memory that a process has used before would be free of
// page faults.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

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
  const double drawing_s = seconds([&] { initialise_randomly(*model, config, 42); });
  write_checkpoint(*model, dtype.stored, folder + kWeightsFile);
  int64_t numel = 0;
  for (const NamedParameter& parameter : model->parameters()) numel += parameter.tensor->numel();
  std::printf("%.1f M parameters drawn in %.3f s with %d threads\n",
              static_cast<double>(numel) / 1e6, drawing_s, at::get_num_threads());
}

void load_once(const std::string& dtype_name, const std::string& folder) {
  const Json config = read_json_file(folder + "/config.json");
  const auto model = make_causal_lm(config, parse_dtype(dtype_name).dtype, torch::kCPU);
  at::parallel_for(0, at::get_num_threads(), 1, [](int64_t, int64_t) {});  // starts the thread pool
  std::printf("%.6f\n", seconds([&] { load_weights(*model, folder); }));
}

double run_child(const std::string& command) {
  FILE* output = ::popen(command.c_str(), "r");
  double result = 0;
  const bool read = output != nullptr && std::fscanf(output, "%lf", &result) == 1;
  if (output == nullptr || ::pclose(output) != 0 || !read)
    throw std::runtime_error("failed: " + command);
  return result;
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
  std::vector<double> cat_s, load_s;
  for (int round = 0; round < rounds; ++round) {
    cat_s.push_back(seconds([&] { (void)!std::system(cat.c_str()); }));
    load_s.push_back(run_child("'" + self + "' once " + dtype + " '" + folder + "'"));
  }
  const auto gigabytes = static_cast<double>(std::filesystem::file_size(file)) / 1e9;
  std::printf(
      "%.3f GB, %d rounds, medians: cat %.4f s (%.2f GB/s), load %.4f s (%.2f GB/s), speed ratio "
      "%.2f\n",
      gigabytes, rounds, median(cat_s), gigabytes / median(cat_s), median(load_s),
      gigabytes / median(load_s), median(cat_s) / median(load_s));
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 4 && words[0] == "write") {
      write(words[1], words[2], words[3]);
    } else if (words.size() == 3 && words[0] == "once") {
      load_once(words[1], words[2]);
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
