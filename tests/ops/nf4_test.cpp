// NF4 against golden files of bitsandbytes (tests/reference/nf4.py), and the linear against
// float64.
#include <gmock/gmock.h>

#include <map>

#include "ops/cpu/kernels.h"
#include "ops/dequantize_impl.h"
#include "ops/op_test_support.h"
#include "sftbench/ops/nf4.h"

namespace sftbench::ops {

namespace SFTBENCH_FILE {

const Tensor& golden(const std::string& name) {
  static const std::map<std::string, Tensor> kTensors = golden_tensors("nf4/quantize.safetensors");
  return kTensors.at(name);
}

// As the script makes them.
Tensor formula(int64_t out, int64_t in, torch::Dtype dtype = torch::kFloat32) {
  const Tensor i = torch::arange(out * in, torch::kInt64);
  const Tensor whole =
      ((i * i * 31 + i * 7919).remainder(255) - 127) * (1 + i.div(64, "floor").remainder(13));
  return (whole.to(torch::kFloat32) / 8192).to(dtype).view({out, in});
}

Tensor with_outlier(const Tensor& weight) {
  weight[2][17] = 4.0;
  weight[3] = 0;
  return weight;
}

Tensor dense(const std::string& name) {
  if (name == "odd") return formula(17, 81);
  if (name == "rows") return with_outlier(formula(24, 96));
  if (name == "blocks") return formula(258, 64);
  return with_outlier(formula(16, 128, torch::kBFloat16));
}

Nf4Weight quantized(const Tensor& weight, bool twice = true) {
  Nf4Weight result = empty_nf4(weight.size(0), weight.size(1), twice, test_device());
  nf4_quantize(weight, result);
  return result;
}

Nf4Weight random_nf4(int64_t out, int64_t in, uint64_t seed) {
  return quantized(random_tensor({out, in}, torch::kFloat32, seed).cpu() * 0.02);
}

const std::vector<std::string> kNf4Cases = {"odd", "rows", "blocks", "bfloat16"};

TEST(Nf4, QuantizesAsBitsandbytes) {
  for (const std::string& name : kNf4Cases) {
    const Nf4Weight found = quantized(dense(name));
    if (name != "blocks") {
      EXPECT_TRUE(torch::equal(found.codes.cpu(), golden(name + ".codes"))) << name;
    }
    EXPECT_TRUE(torch::equal(found.absmax.cpu(), golden(name + ".absmax"))) << name;
    EXPECT_TRUE(torch::equal(found.nested_absmax.cpu(), golden(name + ".nested_absmax"))) << name;
    EXPECT_TRUE(torch::equal(found.nested_offset.cpu(), golden(name + ".nested_offset"))) << name;
  }
}

TEST(Nf4, DequantizesAsBitsandbytes) {
  for (const std::string name : {"odd", "bfloat16"}) {
    const Tensor& expected = golden(name + ".dequantized");
    const Tensor found = dequantize(quantized(dense(name)), expected.scalar_type()).cpu();
    EXPECT_TRUE(torch::equal(found, expected)) << name;
  }
}

// bitsandbytes' magnitudes, before it quantizes them.
TEST(Nf4, SingleQuantizationKeepsTheMagnitudes) {
  for (const std::string& name : kNf4Cases) {
    const Nf4Weight once = quantized(dense(name), false), twice = quantized(dense(name));
    EXPECT_TRUE(torch::equal(once.codes, twice.codes)) << name;
    const Tensor flat = dense(name).to(torch::kFloat32).abs().flatten();
    for (int64_t block = 0; block < once.absmax.numel(); ++block) {
      const int64_t begin = block * kNf4Block, end = std::min(begin + kNf4Block, flat.numel());
      EXPECT_EQ(once.absmax[block].item<float>(), flat.slice(0, begin, end).max().item<float>());
    }
    const Tensor values = dequantize(once, torch::kFloat32);
    EXPECT_TRUE(torch::equal(values, dequantize(once, torch::kFloat64).to(torch::kFloat32)));
    EXPECT_FALSE(torch::equal(values, dequantize(twice, torch::kFloat32))) << name;
  }
}

TEST(Nf4, OtherDtypesRoundTheSameValues) {
  for (const std::string& name : kNf4Cases) {
    const Nf4Weight weight = quantized(dense(name));
    const Tensor wide = dequantize(weight, torch::kFloat64);  // by stock operators
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16})
      EXPECT_TRUE(torch::equal(dequantize(weight, dtype), wide.to(dtype))) << name;
  }
}

TEST(Nf4, PartsAreThoseOfTheWhole) {
  for (const std::string name : {"odd", "rows", "bfloat16"}) {
    const Nf4Weight weight = quantized(dense(name));
    for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16}) {
      const Tensor whole = dequantize(weight, dtype);
      for (const auto& [out, in] :
           std::vector<std::pair<FeatureRange, FeatureRange>>{{{0, 5}, {0, weight.in}},
                                                              {{3, 7}, {1, 70}},
                                                              {{15, 1}, {64, 17}},
                                                              {{2, 4}, {9, 0}}}) {
        const Tensor part = torch::empty({out.count, in.count}, whole.options());
        dequantize_into(part, weight, out, in);
        EXPECT_TRUE(
            torch::equal(part, whole.narrow(0, out.begin, out.count).narrow(1, in.begin, in.count)))
            << name << " " << out.begin << " " << in.begin;
      }
    }
  }
}

TEST(Nf4, EveryInstructionSetGivesTheSameBits) {
  const CpuInstructions best = cpu_instructions();
  std::vector<const DequantizeKernels*> others;
  if (best >= CpuInstructions::kAvx2) others.push_back(&avx2::kDequantizeKernels);
  if (best >= CpuInstructions::kAvx512) others.push_back(&avx512::kDequantizeKernels);
  if (best >= CpuInstructions::kAvx512Bf16) others.push_back(&avx512_bf16::kDequantizeKernels);
  constexpr int64_t kBlocks = 8;
  const Tensor codes = torch::arange(kBlocks * kNf4Block / 2, torch::kInt64).to(torch::kUInt8);
  const Tensor absmax = random_tensor({kBlocks}, torch::kFloat32, 1).cpu().abs();
  for (const int type : {0, 1, 2}) {
    const auto run = [&](const DequantizeKernels& kernels) {
      Tensor out = torch::empty({kBlocks * kNf4Block}, type == 0 ? torch::kInt32 : torch::kInt16);
      kernels.nf4[type]({.codes = codes.data_ptr<uint8_t>(),
                         .absmax = absmax.data_ptr<float>(),
                         .values = kNf4Values.data(),
                         .count = kBlocks,
                         .out = out.data_ptr()});
      return out;
    };
    const Tensor expected = run(baseline::kDequantizeKernels);
    for (const DequantizeKernels* kernels : others)
      EXPECT_TRUE(torch::equal(run(*kernels), expected)) << "type " << type;
  }
}

TEST(Nf4Linear, MatchesFloat64ForwardAndBackward) {
  for (const auto& [out, in] : std::vector<std::pair<int64_t, int64_t>>{{48, 128}, {33, 81}}) {
    const Nf4Weight weight = random_nf4(out, in, 4);
    for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16}) {
      const Tensor bias = random_tensor({out}, dtype, 2);
      const Tensor x = leaf(random_tensor({2, 7, in}, dtype, 1));
      const Tensor y = nf4_linear(x, weight, bias);
      const Tensor gradient = random_tensor({2, 7, out}, dtype, 3);
      y.backward(gradient);
      // In half precision weights are rounded, too: the reference sees the same ones.
      const Tensor w = dequantize(weight, dtype).to(torch::kFloat64);
      expect_close("y", y.detach(), torch::matmul(x.detach().to(torch::kFloat64), w.t()) + bias);
      expect_close("dx", x.grad(), torch::matmul(gradient.to(torch::kFloat64), w));
      EXPECT_FALSE(y.is_view());
    }
  }
}

// As large as no workspace: several tiles, the last one smaller, must make up the same product.
TEST(Nf4Linear, TilesMakeUpTheWholeProduct) {
  const int64_t in = 2112, out = 4129;
  ASSERT_GT(in * out, 2 * dequantize_workspace_numel(torch::kCPU));
  const Nf4Weight weight = random_nf4(out, in, 4);
  const Tensor x = leaf(random_tensor({3, in}, torch::kFloat32, 2));
  const Tensor gradient = random_tensor({3, out}, torch::kFloat32, 3);
  const Tensor y = nf4_linear(x, weight);
  y.backward(gradient);
  const Tensor w = dequantize(weight, torch::kFloat32);
  expect_close("y", y.detach(), torch::matmul(x.detach(), w.t()).to(torch::kFloat64), 4.0);
  expect_close("dx", x.grad(), torch::matmul(gradient, w).to(torch::kFloat64), 4.0);
}

TEST(Nf4Linear, SaysWhatDoesNotFit) {
  const Nf4Weight weight = random_nf4(4, 64, 1);
  EXPECT_THAT(refusal_of([&] {
                nf4_linear(random_tensor({2, 63}, torch::kFloat32, 1), weight);
              }),
              ::testing::HasSubstr("nf4_linear: x must be [..., 64], got float32 [2, 63]"));
  Nf4Weight other = weight;
  other.absmax = other.absmax.narrow(0, 0, 3);
  EXPECT_THAT(refusal_of([&] { dequantize(other, torch::kFloat32); }),
              ::testing::HasSubstr("absmax"));
}

}  // namespace SFTBENCH_FILE

}  // namespace sftbench::ops
