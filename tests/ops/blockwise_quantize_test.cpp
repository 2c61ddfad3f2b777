// Block-wise quantizers against the maps and codes of bitsandbytes and torchao
// (tests/reference/quantized.py, optim/quantizer.json), and updates of quantized states against the
// same update of float32 states.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <map>

#include "op_test_support.h"
#include "ops/blockwise_quantize_impl.h"
#include "sftbench/base/json.h"
#include "sftbench/ops/blockwise_update.h"
#include "sftbench/ops/update.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

const std::map<std::string, QuantMap> kMaps = {{"signed8", QuantMap::kSigned8},
                                               {"unsigned8", QuantMap::kUnsigned8},
                                               {"signed4", QuantMap::kSigned4},
                                               {"unsigned4", QuantMap::kUnsigned4}};

uint32_t crc32(const void* data, size_t bytes) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < bytes; ++i) {
    crc ^= static_cast<const uint8_t*>(data)[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

const Json& golden() {
  static const Json kGolden =
      read_json_file(std::string(SFTBENCH_TEST_DATA) + "/optim/quantizer.json");
  return kGolden;
}

bool is_signed(QuantMap map) {
  return map == QuantMap::kSigned8 || map == QuantMap::kSigned4;
}

// 65536 points over [-1, 1] or [0, 1].
std::vector<float> sweep_points(QuantMap map) {
  std::vector<float> points;
  for (int k = 0; k < 65536; ++k) {
    points.push_back(static_cast<float>(is_signed(map) ? -1.0 + 2.0 * k / 65535 : k / 65535.0));
  }
  return points;
}

TEST(QuantMap, HasTheBitsOfTheLibraries) {
  for (const auto& [name, map] : kMaps) {
    const std::vector<float>& values = quant_map_values(map);
    const auto bits = golden()[name]["map"].get<std::vector<uint32_t>>();
    ASSERT_EQ(values.size(), bits.size()) << name;
    EXPECT_EQ(std::memcmp(values.data(), bits.data(), 4 * bits.size()), 0) << name;
    EXPECT_EQ(crc32(values.data(), 4 * values.size()), golden()[name]["map_crc32"]) << name;
  }
}

TEST(QuantizeOne, SweepsHaveTheCodesOfTheLibraries) {
  for (const auto& [name, map] : kMaps) {
    std::vector<uint8_t> codes;
    for (const float x : sweep_points(map)) codes.push_back(quantize_one(map, x));
    EXPECT_EQ(crc32(codes.data(), codes.size()), golden()[name]["sweep_crc32"]) << name;
  }
}

TEST(QuantizeOne, KeepsTheSignAndGivesNanAFixedCode) {
  const auto code = [](float x) { return static_cast<int>(quantize_one(QuantMap::kSigned8, x)); };
  EXPECT_EQ(code(-1.0f), 0);
  EXPECT_EQ(code(-0.5f), 35);
  EXPECT_EQ(code(-1e-6f), 126);
  EXPECT_EQ(code(-1e-9f), 126) << "the nearest value is 0, which has another sign";
  EXPECT_EQ(code(-0.0f), 126);
  EXPECT_EQ(code(0.0f), 127);
  EXPECT_EQ(code(1e-9f), 127);
  EXPECT_EQ(code(1e-6f), 128);
  EXPECT_EQ(code(0.003f), 146);
  EXPECT_EQ(code(0.5f), 219);
  EXPECT_EQ(code(0.99648f), 254);
  EXPECT_EQ(code(0.9965f), 255);
  EXPECT_EQ(code(NAN), 255);
  EXPECT_EQ(quantize_one(QuantMap::kUnsigned8, 1e-6f), 2);
  EXPECT_EQ(quantize_one(QuantMap::kUnsigned8, 0.003f), 38);
  EXPECT_EQ(quantize_one(QuantMap::kUnsigned8, 0.5f), 183);
  EXPECT_EQ(quantize_one(QuantMap::kUnsigned8, NAN), 0);
}

TEST(QuantizeOne, FourBitTiesGoUp) {
  EXPECT_EQ(quantize_one(QuantMap::kUnsigned4, 1.5f / 16), 1);
  EXPECT_EQ(quantize_one(QuantMap::kUnsigned4, std::nextafter(1.5f / 16, 0.0f)), 0);
  EXPECT_EQ(quantize_one(QuantMap::kUnsigned4, 0.0f), 0) << "there is no zero";
}

// Both sides of every boundary between codes, which a look-up by leading bits could miss, beside
// the sweep, zeros and the smallest numbers; every block holds 1, so that units are values.
Tensor hard_points(QuantMap map) {
  std::vector<float> points = sweep_points(map);
  for (const float boundary : quant_boundaries(map)) {
    for (const float x :
         {std::nextafter(boundary, -2.0f), boundary, std::nextafter(boundary, 2.0f)})
      if (std::abs(x) <= 1.0f) points.push_back(x);
  }
  for (const float x : {0.0f, -0.0f, 1e-9f, -1e-9f, 1e-40f, -1e-40f}) points.push_back(x);
  std::vector<float> blocks;
  for (size_t i = 0; i < points.size(); ++i) {
    if (blocks.size() % 256 == 0) blocks.push_back(1.0f);
    blocks.push_back(points[i]);
  }
  return torch::tensor(blocks);
}

TEST(QuantizeBlockwise, KernelsAndStockOperatorsGiveTheCodesOfTheDefinition) {
  for (const auto& [name, map] : kMaps) {
    const Tensor x = hard_points(map);
    std::vector<uint8_t> expected;
    for (int64_t i = 0; i < x.numel(); ++i)
      expected.push_back(quantize_one(map, x.data_ptr<float>()[i]));
    if (has_four_bits(map)) {
      std::vector<uint8_t> packed;
      expected.resize(expected.size() + expected.size() % 2);
      for (size_t i = 0; i < expected.size(); i += 2)
        packed.push_back(static_cast<uint8_t>(expected[i] << 4 | expected[i + 1]));
      expected = packed;
    }
    const Tensor codes = torch::tensor(expected);
    const QuantizedTensor stock = zero_quantized(map, x.numel(), torch::kCPU);
    quantize_blockwise_aten(x, stock);
    const QuantizedTensor kernel = quantize_blockwise(x, map);
    for (const QuantizedTensor& quantized : {kernel, stock}) {
      // The last of an odd number of 4-bit codes shares its byte with nothing.
      const int64_t whole = has_four_bits(map) ? x.numel() / 2 : x.numel();
      EXPECT_TRUE(quantized.codes.narrow(0, 0, whole).equal(codes.narrow(0, 0, whole))) << name;
      EXPECT_EQ(quantized.scales.min().item<float>(), 1.0f) << name;
    }
    EXPECT_TRUE(
        dequantize_blockwise(kernel, x.numel()).equal(dequantize_blockwise_aten(kernel, x.numel())))
        << name;
  }
}

TEST(QuantizeBlockwise, ComesBackWithinHalfAStepOfEachBlocksScale) {
  const Tensor x = random_tensor({256 * 3 + 5}, torch::kFloat32, 1) *
                   torch::logspace(-3, 3, 256 * 3 + 5).to(test_device());
  const auto worst = [&](QuantMap map, const Tensor& values) {
    const QuantizedTensor quantized = quantize_blockwise(values, map);
    EXPECT_EQ(quantized.scales.numel(), 4);
    const Tensor back = dequantize_blockwise(quantized, values.numel());
    const Tensor scales = quantized.scales.repeat_interleave(256).narrow(0, 0, values.numel());
    return ((back - values).abs() / scales).max().item<double>();
  };
  // Half the widest gap between neighbours: 0.9/64 and 0.9/128 at the top, and 0.0070 below -1,
  // which the signed map lacks; 0.225 and 1/16 with 4 bits, where 0 to 1/16 is a whole step.
  EXPECT_LE(worst(QuantMap::kSigned8, x), 0.45 / 64 + 1e-6);
  EXPECT_LE(worst(QuantMap::kUnsigned8, x.abs()), 0.45 / 128 + 1e-6);
  EXPECT_LE(worst(QuantMap::kSigned4, x), 0.1126);
  EXPECT_LE(worst(QuantMap::kUnsigned4, x.abs()), 1.0 / 16);
}

TEST(QuantizeBlockwise, ZerosComeBackAsZeros) {
  for (const auto& [name, map] : kMaps) {
    const QuantizedTensor quantized =
        quantize_blockwise(torch::zeros({300}).to(test_device()), map);
    // torchao's least scale is 1e-12, a sixteenth of which its unsigned map gives for 0
    EXPECT_LE(dequantize_blockwise(quantized, 300).abs().max().item<float>(), 1e-12f / 16) << name;
  }
}

TEST(QuantizeBlockwise, ArgumentsThatDoNotFitAreRefused) {
  const auto message = [](const std::function<void()>& action) -> std::string {
    try {
      action();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no exception";
  };
  EXPECT_EQ(
      message([] { quantize_blockwise(torch::zeros({3}, torch::kFloat64), QuantMap::kSigned8); }),
      "quantize_blockwise: x must be float32 and contiguous, got float64 [3] on cpu");
  EXPECT_EQ(
      message([] { dequantize_blockwise(zero_quantized(QuantMap::kSigned8, 3, torch::kCPU), 4); }),
      "dequantize_blockwise: codes must be 4 bytes, got Byte [3] on cpu");
  EXPECT_EQ(message([] { zero_states(UpdateRule::kSgd, StateBits::k8, torch::zeros({3})); }),
            "zero_states: the rule must have quantized states, got rule 0");
  const Tensor p = torch::zeros({3}, torch::kFloat64);
  EXPECT_EQ(
      message([&] {
        blockwise_update(UpdateRule::kLion,
                         {{p, p, zero_states(UpdateRule::kLion, StateBits::k8, p)}}, {});
      }),
      "blockwise_update: parameter must be float32, bfloat16 or float16, got float64 [3] on cpu");
  const Tensor q = torch::zeros({3});
  EXPECT_EQ(message([&] {
              blockwise_update(UpdateRule::kAdamW,
                               {{q, q, zero_states(UpdateRule::kLion, StateBits::k8, q)}}, {});
            }),
            "blockwise_update: there must be 2 states, got 1");
  EXPECT_EQ(
      message([&] {
        const Tensor longer = torch::zeros({300});
        blockwise_update(UpdateRule::kLion,
                         {{q, q, zero_states(UpdateRule::kLion, StateBits::k8, longer)}}, {});
      }),
      "blockwise_update: a state must be zero_states() of the parameter, with 3 bytes of codes "
      "and 1 scales, got Byte [300] on cpu and float32 [2] on cpu");
}

// --- updates -------------------------------------------------------------------------------------

struct Rule {
  UpdateRule rule;
  StateBits bits;
};
const Rule kRules[] = {{UpdateRule::kAdamW, StateBits::k8},
                       {UpdateRule::kAdemamix, StateBits::k8},
                       {UpdateRule::kLion, StateBits::k8},
                       {UpdateRule::kRmsprop, StateBits::k8},
                       {UpdateRule::kAdamW, StateBits::k4}};

RuleFactors<double> some_factors() {
  RuleFactors<double> factors;
  factors.gradient_scale = 0.5;
  factors.decay = 0.999;
  factors.step_size = 0.01;
  factors.beta1 = 0.9;
  factors.one_minus_beta1 = 0.1;
  factors.beta2 = 0.99;
  factors.one_minus_beta2 = 0.01;
  factors.beta3 = 0.9999;
  factors.one_minus_beta3 = 0.0001;
  factors.root_factor = 1.5;
  factors.mean_factor = 2;
  factors.alpha = 5;
  factors.epsilon = 1e-8;
  return factors;
}

// A tensor in the middle of a training, with states of its own.
BlockwiseTensor tensor_of(const Rule& rule, std::vector<int64_t> shape, torch::Dtype dtype) {
  BlockwiseTensor tensor{random_tensor(shape, dtype, 1), random_tensor(shape, dtype, 2), {}};
  for (int k = 0; k < state_count(rule.rule); ++k) {
    const QuantMap map = zero_states(rule.rule, rule.bits, tensor.parameter)[k].map;
    Tensor state = random_tensor(shape, torch::kFloat32, 3 + k) * 0.1;
    const bool squares = !is_signed(map) || rule.rule == UpdateRule::kRmsprop;
    if (squares) state = state.abs();
    tensor.states.push_back(quantize_blockwise(state.view({-1}), map));
  }
  return tensor;
}

BlockwiseTensor copy_of(const BlockwiseTensor& tensor) {
  BlockwiseTensor copy{tensor.parameter.clone(), tensor.gradient, {}};
  for (const QuantizedTensor& state : tensor.states)
    copy.states.push_back({state.map, state.codes.clone(), state.scales.clone()});
  return copy;
}

// Dequantize everything, update float32 states with the operator that has no blocks, quantize.
void update_in_float32(const Rule& rule, const BlockwiseTensor& tensor) {
  UpdatedTensor wide{tensor.parameter, tensor.gradient, {}};
  for (const QuantizedTensor& state : tensor.states) {
    wide.states.push_back(dequantize_blockwise(state, tensor.parameter.numel())
                              .view(tensor.parameter.sizes())
                              .contiguous());
  }
  update(rule.rule, {wide}, some_factors());
  for (size_t k = 0; k < tensor.states.size(); ++k) {
    const QuantizedTensor fresh =
        quantize_blockwise(wide.states[k].view({-1}), tensor.states[k].map);
    tensor.states[k].codes.copy_(fresh.codes);
    tensor.states[k].scales.copy_(fresh.scales);
  }
}

void expect_same(const BlockwiseTensor& actual, const BlockwiseTensor& expected) {
  expect_close("parameter", actual.parameter, expected.parameter);
  for (size_t k = 0; k < actual.states.size(); ++k) {
    EXPECT_TRUE(torch::allclose(actual.states[k].scales, expected.states[k].scales, 1e-6, 0));
    // A last bit more or less puts some values on the other side of a boundary.
    const Tensor differ = actual.states[k].codes.ne(expected.states[k].codes);
    EXPECT_LE(differ.sum().item<int64_t>(), 1 + actual.parameter.numel() / 1000) << "state " << k;
  }
}

TEST(BlockwiseUpdate, EqualsTheUpdateOfFloat32StatesBetweenTwoQuantizations) {
  for (const Rule& rule : kRules) {
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
      for (const std::vector<int64_t>& shape :
           std::vector<std::vector<int64_t>>{{1}, {255}, {256}, {17, 241}, {20000}}) {
        SCOPED_TRACE(std::to_string(static_cast<int>(rule.rule)) + " " + c10::toString(dtype));
        const BlockwiseTensor tensor = tensor_of(rule, shape, dtype);
        const BlockwiseTensor expected = copy_of(tensor), stock = copy_of(tensor);
        update_in_float32(rule, expected);
        blockwise_update(rule.rule, {tensor}, some_factors());
        expect_same(tensor, expected);
        blockwise_update_aten(rule.rule, stock, some_factors());
        expect_same(stock, expected);
      }
    }
  }
}

TEST(BlockwiseUpdate, DoesNotDependOnTheNumberOfThreads) {
  const Rule rule = kRules[0];
  const int threads = at::get_num_threads();
  const BlockwiseTensor alone = tensor_of(rule, {100001}, torch::kFloat32), shared = copy_of(alone);
  at::set_num_threads(1);
  blockwise_update(rule.rule, {alone}, some_factors());
  at::set_num_threads(3);
  blockwise_update(rule.rule, {shared}, some_factors());
  at::set_num_threads(threads);
  EXPECT_TRUE(alone.parameter.equal(shared.parameter));
  EXPECT_TRUE(alone.states[1].codes.equal(shared.states[1].codes));
}

TEST(BlockwiseUpdate, UpdatesTheElementsOfATransposedParameter) {
  const Rule rule = kRules[0];
  const BlockwiseTensor plain = tensor_of(rule, {64, 8}, torch::kFloat32);
  BlockwiseTensor transposed = copy_of(plain);
  transposed.parameter = plain.parameter.t().contiguous().t();
  ASSERT_FALSE(transposed.parameter.is_contiguous());
  blockwise_update(rule.rule, {transposed}, some_factors());
  blockwise_update(rule.rule, {plain}, some_factors());
  expect_same(transposed, plain);
}

TEST(BlockwiseUpdate, AnElementWithoutFiniteGradientKeepsItsParameterAndLosesItsStates) {
  for (const Rule& rule : {kRules[0], kRules[1]}) {
    for (const bool stock : {false, true}) {
      const BlockwiseTensor tensor = tensor_of(rule, {600}, torch::kFloat32);
      tensor.gradient[5] = NAN;
      tensor.gradient[300] = INFINITY;
      const Tensor before = tensor.parameter.clone();
      if (stock) {
        blockwise_update_aten(rule.rule, tensor, some_factors());
      } else {
        blockwise_update(rule.rule, {tensor}, some_factors());
      }
      const Tensor same = tensor.parameter.eq(before);
      EXPECT_EQ(same.sum().item<int64_t>(), 2);
      EXPECT_TRUE(same[5].item<bool>() && same[300].item<bool>());
      for (const QuantizedTensor& state : tensor.states) {
        const Tensor values = dequantize_blockwise(state, 600);
        EXPECT_EQ(values[5].item<float>(), 0.0f);
        EXPECT_EQ(values[300].item<float>(), 0.0f);
        EXPECT_TRUE(values.isfinite().all().item<bool>());
      }
    }
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
