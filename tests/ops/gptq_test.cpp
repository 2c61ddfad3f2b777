// Dequantization against golden files of GPTQModel's kernel (tests/reference/gptq.py), and the
// linear against float64.
#include <gmock/gmock.h>

#include <map>

#include "ops/cpu/kernels.h"
#include "ops/dequantize_impl.h"
#include "ops/op_test_support.h"

namespace sftbench::ops {

namespace SFTBENCH_FILE {

std::map<std::string, Tensor> read_golden() {
  std::map<std::string, Tensor> tensors = golden_tensors("gptq/dequantize.safetensors");
  for (auto& [name, tensor] : tensors) tensor = tensor.to(test_device());
  return tensors;
}

const std::map<std::string, Tensor>& golden() {
  static const std::map<std::string, Tensor> kTensors = read_golden();
  return kTensors;
}

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : golden()) {
    if (name.ends_with(".weight")) names.push_back(name.substr(0, name.size() - 7));
  }
  return names;
}

GptqWeight weight_of(const std::string& name, bool zeros_less_one = true) {
  const auto part = [&name](const char* key) { return golden().at(name + "." + key); };
  return {std::stoi(name), zeros_less_one,
          part("qweight"), part(zeros_less_one ? "qzeros_v1" : "qzeros"),
          part("scales"),  part("g_idx")};
}

TEST(Dequantize, Float16IsBitEqualToGptqModelInEveryLayout) {
  ASSERT_EQ(cases().size(), 32u);  // 4 numbers of bits, 4 group sizes, 2 orders
  for (const std::string& name : cases()) {
    const Tensor& expected = golden().at(name + ".weight");
    for (const bool zeros_less_one : {true, false}) {
      const Tensor found = dequantize(weight_of(name, zeros_less_one), torch::kFloat16);
      EXPECT_TRUE(torch::equal(found.view(torch::kInt16), expected.view(torch::kInt16)))
          << name << (zeros_less_one ? " gptq" : " gptq_v2");
    }
  }
}

TEST(Dequantize, OtherDtypesRoundTheSameExactValues) {
  for (const std::string& name : cases()) {
    const Tensor exact = dequantize(weight_of(name), torch::kFloat64);  // by stock operators
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
      EXPECT_TRUE(torch::equal(dequantize(weight_of(name), dtype), exact.to(dtype))) << name;
    }
    EXPECT_TRUE(torch::equal(exact.to(torch::kFloat32).to(torch::kFloat64), exact)) << name;
  }
}

TEST(Dequantize, PartsAreThoseOfTheWhole) {
  for (const std::string& name : cases()) {
    const GptqWeight weight = weight_of(name);
    for (const auto dtype : {torch::kFloat64, torch::kBFloat16}) {
      const Tensor whole = dequantize(weight, dtype);
      const Tensor part = torch::empty({96, 32}, whole.options());
      dequantize_into(part, weight, {32, 96}, {0, 32});
      EXPECT_TRUE(torch::equal(part, whole.narrow(0, 32, 96))) << name;
    }
  }
}

TEST(Dequantize, EveryInstructionSetGivesTheSameBits) {
  const CpuInstructions best = cpu_instructions();
  std::vector<const DequantizeKernels*> others;
  if (best >= CpuInstructions::kAvx2) others.push_back(&avx2::kDequantizeKernels);
  if (best >= CpuInstructions::kAvx512) others.push_back(&avx512::kDequantizeKernels);
  if (best >= CpuInstructions::kAvx512Bf16) others.push_back(&avx512_bf16::kDequantizeKernels);
  const auto options = torch::TensorOptions(torch::kInt32);
  const Tensor codes = torch::randint(INT32_MIN, INT32_MAX, {8, 64}, options);
  const Tensor scales = random_tensor({3, 64}, torch::kFloat16, 1).cpu().to(torch::kFloat32);
  const Tensor scaled_zeros = scales * torch::randint(0, 16, {3, 64});
  for (const Tensor& groups : {torch::full({32}, 2, options), torch::arange(32, options) % 3}) {
    for (const int type : {0, 1, 2}) {
      for (const int bits : {2, 3, 4, 8}) {
        const auto run = [&](const DequantizeKernels& kernels) {
          Tensor out = torch::empty({32, 64}, type == 0 ? torch::kInt32 : torch::kInt16);
          kernels.loops[type][bits](
              {.codes = reinterpret_cast<const uint32_t*>(codes.data_ptr<int32_t>()),
               .code_stride = 64,
               .groups = groups.data_ptr<int32_t>(),
               .scales = scales.data_ptr<float>(),
               .scaled_zeros = scaled_zeros.data_ptr<float>(),
               .table_stride = 64,
               .out = out.data_ptr(),
               .out_stride = 64,
               .columns = 64});
          return out;
        };
        const Tensor expected = run(baseline::kDequantizeKernels);
        for (const DequantizeKernels* kernels : others)
          EXPECT_TRUE(torch::equal(run(*kernels), expected)) << bits << " bits, type " << type;
      }
    }
  }
}

TEST(GptqLinear, MatchesFloat64ForwardAndBackward) {
  for (const std::string& name : cases()) {
    const GptqWeight weight = weight_of(name);
    for (const auto dtype : {torch::kFloat64, torch::kFloat32, torch::kBFloat16}) {
      const Tensor bias = random_tensor({32}, dtype, 2);
      const Tensor x = leaf(random_tensor({2, 5, 160}, dtype, 1));
      const Tensor y = gptq_linear(x, weight, bias);
      const Tensor gradient = random_tensor({2, 5, 32}, dtype, 3);
      y.backward(gradient);
      // In half precision weights are rounded, too: the reference sees the same ones.
      const Tensor w = dequantize(weight, dtype).to(torch::kFloat64);
      const Tensor expected = torch::matmul(x.detach().to(torch::kFloat64), w) + bias;
      expect_close(name + " y", y.detach(), expected);
      expect_close(name + " dx", x.grad(), torch::matmul(gradient.to(torch::kFloat64), w.t()));
      EXPECT_FALSE(y.is_view());
    }
  }
}

// As large as no workspace: several tiles, the last one smaller, must make up the same product.
TEST(GptqLinear, TilesMakeUpTheWholeProduct) {
  const int64_t in = 2080, out = 4128;
  ASSERT_GT(in * out, 2 * dequantize_workspace_numel(torch::kCPU));
  const auto codes = torch::TensorOptions(torch::kInt32);
  const GptqWeight weight = {4,
                             false,
                             torch::randint(INT32_MIN, INT32_MAX, {in / 8, out}, codes),
                             torch::randint(INT32_MIN, INT32_MAX, {17, out / 8}, codes),
                             random_tensor({17, out}, torch::kFloat16, 1).cpu() * 0.01,
                             torch::arange(in, codes) / 128};
  const GptqWeight typed = {weight.bits,   weight.zeros_less_one, weight.qweight,
                            weight.qzeros, weight.scales,         weight.g_idx.to(torch::kInt32)};
  const Tensor x = leaf(random_tensor({3, in}, torch::kFloat32, 2).cpu());
  const Tensor gradient = random_tensor({3, out}, torch::kFloat32, 3).cpu();
  const Tensor y = gptq_linear(x, typed);
  y.backward(gradient);
  const Tensor w = dequantize(typed, torch::kFloat32);
  expect_close("y", y.detach(), torch::matmul(x.detach(), w).to(torch::kFloat64), 4.0);
  expect_close("dx", x.grad(), torch::matmul(gradient, w.t()).to(torch::kFloat64), 4.0);
}

TEST(GptqLinear, SaysWhatDoesNotFit) {
  const GptqWeight weight = weight_of("4_64_plain");
  EXPECT_THAT(refusal_of([&] {
                gptq_linear(random_tensor({2, 64}, torch::kFloat32, 1), weight);
              }),
              ::testing::HasSubstr("gptq_linear: x must be [..., 160], got float32 [2, 64]"));
  GptqWeight wrong = weight;
  wrong.bits = 8;
  EXPECT_THAT(refusal_of([&] { dequantize(wrong, torch::kFloat32); }),
              ::testing::HasSubstr("dequantize: qweight must be"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
