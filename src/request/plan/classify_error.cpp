#include "sftbench/plan/classify_error.h"
#include "sftbench/base/text.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace sftbench {
namespace {

struct Pattern {
  std::string_view text;  // lower case
  ReasonCode code;
  std::string_view message;
};

constexpr std::string_view kGpuMemory = "the GPU's memory does not suffice";
constexpr std::string_view kHostMemory = "the host's memory does not suffice";
constexpr std::string_view kNccl = "communication between GPUs failed";

// The first that occurs decides: GPU memory outranks NCCL, since a rank that runs out of memory
// makes the others report a lost peer.
constexpr std::array kPatterns = {
    Pattern{"cuda out of memory", ReasonCode::kOomGpu, kGpuMemory},
    Pattern{"cuda error: out of memory", ReasonCode::kOomGpu, kGpuMemory},
    Pattern{"cuda failure 2 'out of memory'", ReasonCode::kOomGpu, kGpuMemory},  // NCCL's own words
    Pattern{"cudaerrormemoryallocation", ReasonCode::kOomGpu, kGpuMemory},
    Pattern{"cublas_status_alloc_failed", ReasonCode::kOomGpu, kGpuMemory},
    Pattern{"cudnn_status_alloc_failed", ReasonCode::kOomGpu, kGpuMemory},
    Pattern{"cudnn_status_internal_error_device_allocation_failed", ReasonCode::kOomGpu,
            kGpuMemory},
    Pattern{"an illegal memory access was encountered", ReasonCode::kOomGpu,
            "a GPU kernel accessed memory that it must not: counted as out of memory"},
    Pattern{"nccl error", ReasonCode::kNccl, kNccl},
    Pattern{"ncclunhandledcudaerror", ReasonCode::kNccl, kNccl},
    Pattern{"ncclsystemerror", ReasonCode::kNccl, kNccl},
    Pattern{"ncclinternalerror", ReasonCode::kNccl, kNccl},
    Pattern{"ncclinvalidusage", ReasonCode::kNccl, kNccl},
    Pattern{"ncclinvalidargument", ReasonCode::kNccl, kNccl},
    Pattern{"ncclremoteerror", ReasonCode::kNccl, kNccl},
    Pattern{"nccl communicator was aborted", ReasonCode::kNccl, kNccl},
    Pattern{"std::bad_alloc", ReasonCode::kOomHost, kHostMemory},
    Pattern{"defaultcpuallocator: can't allocate memory", ReasonCode::kOomHost, kHostMemory},
    Pattern{"c10 out of memory", ReasonCode::kOomHost, kHostMemory},
    Pattern{"cannot allocate memory", ReasonCode::kOomHost, kHostMemory},
};

// libtorch appends a stack trace; one line of the text is the evidence.
std::string line_around(std::string_view text, size_t position) {
  const size_t before = text.rfind('\n', position);
  const size_t begin = before == std::string_view::npos ? 0 : before + 1;
  const size_t end = std::min(text.find('\n', position), text.size());
  return std::string(text.substr(begin, end - begin));
}

bool lies_below(const std::string& file, const std::string& directory) {
  return !directory.empty() && file.compare(0, directory.size(), directory) == 0;
}

ReasonCode code_of_input_error(const InputError& error, const TrainingJob& job) {
  for (const Diagnostic& diagnostic : error.diagnostics()) {
    if (diagnostic.file == job.data.path) return ReasonCode::kData;
    if (lies_below(diagnostic.file, job.model.weights_directory) ||
        lies_below(diagnostic.file, job.model.tokenizer_directory)) {
      return ReasonCode::kWeights;
    }
  }
  return ReasonCode::kInternal;
}

}  // namespace

ErrorClass classify_error(std::string_view what) {
  const std::string lower = lower_case(what);
  for (const Pattern& pattern : kPatterns) {
    const size_t position = lower.find(pattern.text);
    if (position == std::string::npos) continue;
    return {pattern.code, std::string(pattern.message), line_around(what, position)};
  }
  const std::string first_line =
      line_around(what, std::min(what.find_first_not_of('\n'), what.size()));
  return {ReasonCode::kInternal, "the run ended with an unexpected error", first_line};
}

ErrorClass classify_exception(const std::exception& error, const TrainingJob& job) {
  if (const auto* run = dynamic_cast<const RunError*>(&error)) {
    return {run->code(), run->what(), run->evidence()};
  }
  if (const auto* input = dynamic_cast<const InputError*>(&error)) {
    return {code_of_input_error(*input, job), input->what(), {}};
  }
  return classify_error(error.what());
}

bool makes_invalid(ReasonCode code) {
  return code == ReasonCode::kOomGpu || (code >= ReasonCode::kRule1 && code <= ReasonCode::kRule7);
}

}  // namespace sftbench
