#include "engine/environment.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#if SFTBENCH_CUDA
#include <ATen/detail/CUDAHooksInterface.h>
#endif
#include <dlfcn.h>
#include <torch/version.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "sftbench/base/cpu_instructions.h"
#include "sftbench/base/torch.h"
#include "sftbench/measure/nvml.h"
#include "sftbench/ops/attention.h"
#include "sftbench/ops/product_dtype.h"

namespace sftbench {
namespace {

// The library that the single-precision GEMM comes from. Two BLAS can be loaded at once, so what
// counts is the file in which the dynamic linker finds the symbol, not which libraries are there.
Json blas_in_use() {
  if (at::hasMKL()) return "MKL";
  void* gemm = dlsym(RTLD_DEFAULT, "sgemm_");
  Dl_info info{};
  if (gemm == nullptr || dladdr(gemm, &info) == 0 || info.dli_fname == nullptr) return nullptr;
  std::error_code error;
  const auto file = std::filesystem::canonical(info.dli_fname, error);
  const std::string path = error ? std::string(info.dli_fname) : file.string();
  if (path.find("openblas") == std::string::npos) {
    return path.find("/blas/") != std::string::npos ? "reference BLAS (" + path + ")" : path;
  }
  using ConfigFunction = const char* (*)();
  const auto config = reinterpret_cast<ConfigFunction>(dlsym(RTLD_DEFAULT, "openblas_get_config"));
  return config != nullptr ? std::string(config()) : "OpenBLAS (" + path + ")";
}

// One line of at::show_config() after `label`: the versions that libtorch was built with.
Json build_line(const std::string& label) {
  std::istringstream lines(at::show_config());
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find(label);
    if (at != std::string::npos) return line.substr(at + label.size());
  }
  return nullptr;
}

// Who multiplies matrices on the host, by dtype.
Json product_libraries() {
  return {{"float32", ops::product_library(torch::kFloat32)},
          {"bfloat16", ops::product_library(torch::kBFloat16)},
          {"float16", ops::product_library(torch::kFloat16)}};
}

Json gpu_names(const Nvml& nvml) {
  Json names = Json::array();
  for (const GpuIdentity& gpu : nvml.gpus()) names.push_back(gpu.name);
  return names;
}

// Of the library that is loaded, which another one in the search path may have replaced.
std::string cudnn_version() {
#if SFTBENCH_CUDA
  const long version = at::detail::getCUDAHooks().versionRuntimeCuDNN();
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
#else
  return {};
#endif
}

}  // namespace

Json engine_environment() {
  const std::unique_ptr<Nvml> nvml = Nvml::load();
  Json environment = {{"libtorch", TORCH_VERSION},
                      {"blas", blas_in_use()},
                      {"onednn", build_line("Intel(R) MKL-DNN ")},
                      {"products", product_libraries()},
                      {"threads", at::get_num_threads()},
                      {"cpu_instructions", to_string(cpu_instructions())},
                      {"cuda", build_line("CUDA Runtime ")},
                      {"nccl", build_line("NCCL ")},
                      {"driver", nvml ? Json(nvml->driver_version()) : Json()},
                      {"gpus", nvml ? gpu_names(*nvml) : Json::array()}};
  if (const std::string cudnn = cudnn_version(); !cudnn.empty()) environment["cudnn"] = cudnn;
  if (const auto kernels = ops::library_attention_in_use(); !kernels.empty())
    environment["attention"] = kernels;
  return environment;
}

}  // namespace sftbench
