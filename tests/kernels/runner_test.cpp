// The runner finds what it is there to find.
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "kernels/kernel_test_support.h"
#include "ops/cuda/pack.h"
#include "ops/cuda/reduce.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

constexpr int kThreads = 64;

std::string fault_of(void (*kernel)(float*), dim3 grid = 1, dim3 block = kThreads) {
  alignas(16) std::array<float, 1024> memory{};
  try {
    launch_kernel(kernel, {grid, block}, memory.data());
  } catch (const host::KernelFault& fault) {
    return fault.what();
  }
  return "";
}

__global__ void reverse(float* x) {
  SFTBENCH_BLOCK_SHARED(float, values, [kThreads]);
  values[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = values[kThreads - 1 - threadIdx.x];
}

__global__ void reverse_without_barrier(float* x) {
  SFTBENCH_BLOCK_SHARED(float, values, [kThreads]);
  values[threadIdx.x] = x[threadIdx.x];
  x[threadIdx.x] = values[kThreads - 1 - threadIdx.x];
}

TEST(KernelRunner, BarriersOrderSharedMemory) {
  for_each_order([] {
    std::array<float, kThreads> x;
    std::iota(x.begin(), x.end(), 0.0f);
    launch_kernel(reverse, {1, kThreads}, x.data());
    for (int i = 0; i < kThreads; ++i) EXPECT_EQ(x[i], kThreads - 1 - i);
  });
}

TEST(KernelRunner, AMissingBarrierReadsNan) {
  for_each_order([] {
    std::array<float, kThreads> x{};
    launch_kernel(reverse_without_barrier, {1, kThreads}, x.data());
    EXPECT_TRUE(std::any_of(x.begin(), x.end(), [](float v) { return std::isnan(v); }));
  });
}

__global__ void sum_of_block(float* x) {
  SFTBENCH_BLOCK_SHARED(float, scratch, [kThreads / kWarpThreads]);
  const float total = block_reduce<kThreads>(static_cast<float>(threadIdx.x), scratch, Add());
  const float lower = __shfl_down_sync(0xffffffffu, total + threadIdx.x, 1);
  const float first = __shfl_sync(0xffffffffu, total, 0);
  if (threadIdx.x == 0) {
    x[blockIdx.x] = total;
    x[8] = lower;
    x[9] = first;
  }
  atomicAdd(x + 10, 1.0f);
}

TEST(KernelRunner, ShufflesExchangeValuesOfAWarp) {
  for_each_order([] {
    std::array<float, 16> x{};
    launch_kernel(sum_of_block, {3, kThreads}, x.data());
    const float total = kThreads * (kThreads - 1) / 2;
    for (int block = 0; block < 3; ++block) EXPECT_EQ(x[block], total);
    EXPECT_EQ(x[8], total + 1);
    EXPECT_EQ(x[9], total);
    EXPECT_EQ(x[10], 3 * kThreads);
  });
}

__global__ void note_order(float* x) {
  x[static_cast<int>(x[0])] = static_cast<float>(threadIdx.x);
  x[0] += 1;
}

TEST(KernelRunner, SeedsGiveDifferentOrdersAndTheSameAgain) {
  const auto order = [](uint64_t seed) {
    host::settings().seed = seed;
    std::vector<float> x(kThreads + 1, 0.0f);
    x[0] = 1;
    launch_kernel(note_order, {1, kThreads}, x.data());
    host::settings() = {};
    return x;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(KernelRunner, AThreadThatEndsWhileOthersWaitIsAFault) {
  const auto message = fault_of([](float*) {
    if (threadIdx.x == 7) return;
    __syncthreads();
  });
  EXPECT_EQ(message,
            "block (0, 0, 0): 63 threads wait at a barrier, 0 at an operation of a warp, "
            "1 have ended");
}

TEST(KernelRunner, AShuffleThatALaneSkipsIsAFault) {
  const auto message = fault_of([](float* x) {
    if (threadIdx.x < 40) x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, 1);
  });
  EXPECT_NE(message.find("8 at an operation of a warp, 56 have ended"), std::string::npos)
      << message;
}

TEST(KernelRunner, LanesAtDifferentShufflesAreAFault) {
  const auto message = fault_of([](float* x) {
    x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, 1.0f, threadIdx.x < 16 ? 1 : 2);
  });
  EXPECT_NE(message.find("lanes of a warp are at different operations"), std::string::npos);
}

TEST(KernelRunner, PartialMasksAndPartialWarpsAreFaults) {
  const auto partial = [](float* x) { x[0] = __shfl_xor_sync(0xffu, 1.0f, 1); };
  EXPECT_NE(fault_of(partial).find("an operation of part of a warp"), std::string::npos);
  const auto whole = [](float* x) { x[0] = __shfl_xor_sync(0xffffffffu, 1.0f, 1); };
  EXPECT_NE(fault_of(whole, 1, 40).find("a warp that is not whole"), std::string::npos);
}

TEST(KernelRunner, MisalignedVectorsAreFaults) {
  const auto message = fault_of([](float* x) { load_pack<4>(x + 1); }, 1, 1);
  EXPECT_EQ(message, "block (0, 0, 0), thread (0, 0, 0): a misaligned access of 16 bytes");
}

TEST(KernelRunner, AWriteBehindASharedVariableIsAFault) {
  const auto message = fault_of([](float*) {
    SFTBENCH_BLOCK_SHARED(float, values, [4]);
    float* end = values + 4;
    asm("" : "+r"(end));  // what the compiler would see
    *end = 0.0f;
  });
  EXPECT_EQ(message, "block (0, 0, 0) wrote behind a shared variable");
}

TEST(KernelRunner, GridsThatNoGpuTakesAreFaults) {
  const auto nothing = [](float*) {};
  EXPECT_NE(fault_of(nothing, 0), "");
  EXPECT_NE(fault_of(nothing, dim3(1, 65536)), "");
  EXPECT_NE(fault_of(nothing, 1, 1025), "");
  EXPECT_EQ(fault_of(nothing, dim3(2, 65535), 1), "");
}

TEST(KernelRunner, DynamicSharedMemoryBeginsAsNan) {
  std::array<float, 2> x{};
  const auto kernel = +[](float* out) {
    auto* values = dynamic_shared<float>();
    out[0] = values[255];
    values[255] = 2.0f;
    out[1] = values[255];
  };
  launch_kernel(kernel, {1, 1, 256 * sizeof(float)}, x.data());
  EXPECT_TRUE(std::isnan(x[0]));
  EXPECT_EQ(x[1], 2.0f);
}

TEST(KernelRunner, AQueueTakesLaunches) {
  std::vector<std::function<void()>> queue;
  host::settings().submit = [&](std::function<void()> launch) { queue.push_back(launch); };
  std::array<float, kThreads> x{};
  x[0] = 5.0f;
  launch_kernel(reverse, {1, kThreads}, x.data());
  EXPECT_EQ(x[0], 5.0f);
  host::settings() = {};
  for (const auto& launch : queue) launch();
  EXPECT_EQ(x[kThreads - 1], 5.0f);
}

TEST(GuardedTensorDeathTest, AnAccessBehindATensorStopsTheProgram) {
  const Tensor x = guarded(torch::ones({4}));
  EXPECT_DEATH({ *(x.data_ptr<float>() + 4) = 0.0f; }, "");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
