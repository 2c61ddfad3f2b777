#include <algorithm>

#include "ops/causal_convolution_impl.h"
#include "ops/cpu/dispatch.h"
#include "sftbench/base/torch.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

// A thread takes so many positions of so many channels: the rows that it reads several times stay
// in the first-level cache. Sums of the weights' gradients are by block, so they do not depend on
// threads.
constexpr int64_t kBlockPositions = 256, kBlockChannels = 512;

struct PositionBlock {
  int64_t row;         // of the sequence's first position among all rows of x
  int64_t begin, end;  // positions of the sequence
  int64_t length;
};

std::vector<PositionBlock> position_blocks(const Tensor& x, const std::vector<int64_t>& offsets) {
  const std::vector<int64_t> ends = offsets.empty() ? std::vector<int64_t>{0, x.size(1)} : offsets;
  std::vector<PositionBlock> blocks;
  for (int64_t row = 0; row < x.size(0); ++row) {
    for (size_t i = 0; i + 1 < ends.size(); ++i) {
      const int64_t length = ends[i + 1] - ends[i];
      for (int64_t begin = 0; begin < length; begin += kBlockPositions) {
        blocks.push_back(
            {row * x.size(1) + ends[i], begin, std::min(begin + kBlockPositions, length), length});
      }
    }
  }
  return blocks;
}

// task(block, its index, first channel, channels, thread) for all blocks of all channels.
template <class Task>
void for_each_block(const std::vector<PositionBlock>& blocks, int64_t channels, const Task& task) {
  const int64_t across = (channels + kBlockChannels - 1) / kBlockChannels;
  parallel_tasks(static_cast<int64_t>(blocks.size()) * across, [&](int64_t i, int64_t thread) {
    const int64_t channel = i % across * kBlockChannels;
    task(blocks[static_cast<size_t>(i / across)], i / across, channel,
         std::min(kBlockChannels, channels - channel), thread);
  });
}

ConvolutionProblem problem_at(const PositionBlock& block, int64_t channel, int64_t channels,
                              const ConvolutionInputs& in) {
  return {.x = element(in.x, block.row * in.x.stride(1) + channel),
          .x_stride = in.x.stride(1),
          .row_stride = in.x.size(2),
          .taps = in.taps.data_ptr<float>() + channel,
          .bias = in.bias.defined() ? in.bias.data_ptr<float>() + channel : nullptr,
          .tap_count = in.taps.size(0),
          .tap_stride = in.x.size(2),
          .channels = channels,
          .begin = block.begin,
          .end = block.end,
          .length = block.length,
          .silu = in.silu};
}

Tensor forward(const ConvolutionInputs& in) {
  const Tensor& x = in.x;
  const CpuKernels& kernels = cpu_kernels(x);
  Tensor y = torch::empty(x.sizes(), x.options());
  for_each_block(
      position_blocks(x, in.offsets), x.size(2),
      [&](const PositionBlock& block, int64_t, int64_t channel, int64_t channels, int64_t) {
        ConvolutionProblem problem = problem_at(block, channel, channels, in);
        problem.y = element(y, block.row * x.size(2) + channel);
        kernels.convolution_forward(problem);
      });
  return y;
}

ConvolutionGradients backward(const Tensor& y_gradient, const ConvolutionInputs& in) {
  const Tensor &x = in.x, &taps = in.taps;
  const CpuKernels& kernels = cpu_kernels(x);
  const std::vector<PositionBlock> blocks = position_blocks(x, in.offsets);
  const int64_t count = taps.size(0), width = x.size(2);
  const Tensor dx = torch::empty(x.sizes(), x.options());
  const Tensor partial =
      torch::zeros({static_cast<int64_t>(blocks.size()), count + 1, width}, taps.options());
  const Tensor scratch =
      torch::empty({at::get_num_threads(), count * kBlockChannels}, taps.options());
  for_each_block(blocks, width,
                 [&](const PositionBlock& block, int64_t index, int64_t channel, int64_t channels,
                     int64_t thread) {
                   ConvolutionProblem problem = problem_at(block, channel, channels, in);
                   const int64_t at = block.row * width + channel;
                   problem.y_gradient = element(y_gradient, at);
                   problem.x_gradient = element(dx, at);
                   problem.tap_gradients =
                       partial.data_ptr<float>() + index * (count + 1) * width + channel;
                   problem.scratch = scratch.data_ptr<float>() + thread * count * kBlockChannels;
                   kernels.convolution_backward(problem);
                 });
  const Tensor sums = partial.sum(0);
  return {dx, sums.narrow(0, 0, count), in.bias.defined() ? sums[count] : Tensor()};
}

}  // namespace

const ConvolutionImpl kConvolutionCpu{forward, backward};

}  // namespace sftbench::ops
