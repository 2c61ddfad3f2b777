#include "parallel/collective_call.h"

#include <numeric>
#include <sstream>

namespace sftbench {
namespace {

CollectiveCall call_of(Collective collective, const torch::Tensor& whole) {
  return {.collective = collective, .bytes = static_cast<int64_t>(whole.nbytes())};
}

void check_pair(const torch::Tensor& one, const torch::Tensor& other) {
  check(one.is_contiguous() && other.is_contiguous(), "tensors of collectives are contiguous");
  check(one.device() == other.device(), "tensors of a collective are on one device");
}

void check_summable(torch::ScalarType dtype) {
  switch (dtype) {
    case torch::kFloat32:
    case torch::kFloat64:
    case torch::kBFloat16:
    case torch::kFloat16:
    case torch::kInt64:
    case torch::kInt32:
    case torch::kInt8:
    case torch::kUInt8:
      return;
    default:
      break;
  }
  throw RunError(ReasonCode::kUnsupported,
                 std::string("no reduction over ranks for dtype ") + c10::toString(dtype));
}

}  // namespace

std::string to_string(Collective collective) {
  constexpr std::array<const char*, kCollectives> kNames = {
      "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "barrier"};
  return kNames[static_cast<size_t>(collective)];
}

std::string describe(const CollectiveCall& call, const std::string& group, int64_t ranks) {
  return to_string(call.collective) + " #" + std::to_string(call.sequence) + " of group " + group +
         " (" + std::to_string(ranks) + " ranks, " + std::to_string(call.known_bytes()) + " bytes)";
}

std::string overdue_text(const std::string& described, double timeout_s, int rank) {
  std::ostringstream text;
  text << described << " was not done within " << timeout_s << " s on rank " << rank
       << ": another rank is stuck, cannot be reached or has started something else";
  return text.str();
}

int64_t sent_bytes_by_formula(const CollectiveCall& call, int64_t rank, int64_t ranks) {
  if (call.sent_bytes >= 0) return call.sent_bytes;
  switch (call.collective) {
    case Collective::kAllReduce:
      return 2 * call.bytes * (ranks - 1) / ranks;
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return call.bytes / ranks * (ranks - 1);
    case Collective::kBroadcast:
      return rank == ranks - 1 ? 0 : call.bytes;
    case Collective::kBarrier:
      break;
  }
  return 0;
}

CollectiveCall all_reduce_call(const torch::Tensor& tensor) {
  check_pair(tensor, tensor);
  check_summable(tensor.scalar_type());
  return call_of(Collective::kAllReduce, tensor);
}

CollectiveCall all_gather_call(const torch::Tensor& output, const torch::Tensor& input,
                               int64_t ranks) {
  check_pair(output, input);
  check(output.dtype() == input.dtype(), "an all-gather converts nothing");
  check(output.numel() == input.numel() * ranks, "an all-gather's output is N inputs");
  return call_of(Collective::kAllGather, output);
}

CollectiveCall reduce_scatter_call(const torch::Tensor& output, const torch::Tensor& input,
                                   int64_t ranks) {
  check_pair(output, input);
  check_summable(input.scalar_type());
  check(output.dtype() == input.dtype() || output.scalar_type() == torch::kFloat32,
        "a reduce-scatter's output has the input's dtype or float32");
  check(input.numel() == output.numel() * ranks, "a reduce-scatter's input is N outputs");
  return call_of(Collective::kReduceScatter, input);
}

CollectiveCall broadcast_call(const torch::Tensor& tensor, int64_t root, int64_t ranks) {
  check_pair(tensor, tensor);
  check(root >= 0 && root < ranks, "a broadcast's root is a rank of the group");
  return call_of(Collective::kBroadcast, tensor);
}

CollectiveCall all_to_all_call(const torch::Tensor& output, const torch::Tensor& input,
                               int64_t ranks) {
  check_pair(output, input);
  check(output.dtype() == input.dtype(), "an all-to-all converts nothing");
  check(output.numel() == input.numel() && input.numel() % ranks == 0,
        "an all-to-all's output and input are N parts");
  check(output.numel() == 0 || ranks == 1 || output.data_ptr() != input.data_ptr(),
        "an all-to-all is not in place");
  return call_of(Collective::kAllToAll, output);
}

CollectiveCall all_to_all_call(const torch::Tensor& output, const torch::Tensor& input,
                               const std::vector<int64_t>& output_parts,
                               const std::vector<int64_t>& input_parts, int64_t rank,
                               int64_t ranks) {
  check_pair(output, input);
  check(output.dtype() == input.dtype(), "an all-to-all converts nothing");
  const auto covers = [ranks](const std::vector<int64_t>& parts, const torch::Tensor& tensor) {
    return static_cast<int64_t>(parts.size()) == ranks &&
           std::accumulate(parts.begin(), parts.end(), int64_t{0}) == tensor.numel();
  };
  check(covers(output_parts, output) && covers(input_parts, input),
        "an all-to-all's parts are those of its output and its input");
  const auto own = static_cast<size_t>(rank);
  check(output_parts[own] == input_parts[own], "a rank gets from itself what it gives itself");
  const int64_t sent = input.numel() - input_parts[own];
  return {.collective = Collective::kAllToAll,
          .sent_bytes = sent * static_cast<int64_t>(input.element_size())};
}

bool is_part_of(const torch::Tensor& part, const torch::Tensor& whole, int64_t index) {
  return part.data_ptr() == static_cast<const char*>(whole.data_ptr()) + index * part.nbytes();
}

}  // namespace sftbench
