// The maps as constants: computing them again with other roundings (a fused multiply-add more or
// less) moves up to 42 entries by an ulp.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "ops/blockwise_quantize_impl.h"

namespace sftbench::ops {
namespace {

// Bits of float32. The other half of the signed map mirrors this one, without -1.
constexpr uint32_t kPositiveSigned8[128] = {
    0x3513a3b7, 0x365a1a94, 0x370205ff, 0x37b24206, 0x38378034, 0x388aefb3, 0x38ba1f4b, 0x3923d70b,
    0x398ce705, 0x39c7e283, 0x3a016f01, 0x3a1eecc1, 0x3a3c6a80, 0x3a59e83e, 0x3a7765ff, 0x3aa7ef9d,
    0x3af1a9fc, 0x3b1db22d, 0x3b428f5c, 0x3b676c8a, 0x3b8624dd, 0x3b989374, 0x3bab020d, 0x3bbd70a4,
    0x3bcfdf3b, 0x3be24dd3, 0x3bf4bc6a, 0x3c039581, 0x3c0ccccd, 0x3c160418, 0x3c1f3b64, 0x3c3ae148,
    0x3c68f5c3, 0x3c8b851f, 0x3ca28f5d, 0x3cb9999a, 0x3cd0a3d7, 0x3ce7ae15, 0x3cfeb852, 0x3d0ae148,
    0x3d166667, 0x3d21eb85, 0x3d2d70a3, 0x3d38f5c3, 0x3d447ae1, 0x3d500000, 0x3d5b851f, 0x3d670a3d,
    0x3d728f5d, 0x3d7e147b, 0x3d84cccd, 0x3d8a8f5d, 0x3d9051eb, 0x3d96147b, 0x3d9bd70a, 0x3da1999a,
    0x3da75c2a, 0x3dad1eb8, 0x3db2e148, 0x3db8a3d7, 0x3dbe6667, 0x3dc428f7, 0x3dc9eb85, 0x3ddb3334,
    0x3df80000, 0x3e0a6666, 0x3e18cccd, 0x3e273333, 0x3e35999a, 0x3e440000, 0x3e526666, 0x3e60cccd,
    0x3e6f3333, 0x3e7d9999, 0x3e860000, 0x3e8d3334, 0x3e946666, 0x3e9b999a, 0x3ea2cccc, 0x3eaa0000,
    0x3eb13333, 0x3eb86666, 0x3ebf999a, 0x3ec6cccc, 0x3ece0000, 0x3ed53333, 0x3edc6666, 0x3ee3999a,
    0x3eeacccc, 0x3ef20000, 0x3ef93332, 0x3f003333, 0x3f03cccc, 0x3f076666, 0x3f0b0000, 0x3f0e999a,
    0x3f123334, 0x3f15cccd, 0x3f196666, 0x3f1d0000, 0x3f20999a, 0x3f243334, 0x3f27cccd, 0x3f2b6666,
    0x3f2f0000, 0x3f32999a, 0x3f363334, 0x3f39cccd, 0x3f3d6666, 0x3f410000, 0x3f44999a, 0x3f483333,
    0x3f4bcccd, 0x3f4f6666, 0x3f530000, 0x3f56999a, 0x3f5a3333, 0x3f5dcccd, 0x3f616666, 0x3f650000,
    0x3f68999a, 0x3f6c3333, 0x3f6fcccd, 0x3f736666, 0x3f770000, 0x3f7a999a, 0x3f7e3333, 0x3f800000,
};

constexpr uint32_t kUnsigned8[256] = {
    0x00000000, 0x34ae7baa, 0x35500998, 0x360e9b38, 0x3692ccf6, 0x36de4c51, 0x3714e5d5, 0x3783126e,
    0x37e171a0, 0x381fe868, 0x384f1800, 0x387e479a, 0x3896bb99, 0x38ae5364, 0x38c5eb31, 0x3906594b,
    0x394154ca, 0x397c5049, 0x399ba5e4, 0x39b923a2, 0x39d6a163, 0x39f41f22, 0x3a08ce71, 0x3a178d50,
    0x3a264c30, 0x3a350b10, 0x3a43c9ef, 0x3a5288d0, 0x3a6147af, 0x3a70068e, 0x3a7ec56e, 0x3a958106,
    0x3aba5e35, 0x3adf3b64, 0x3b020c4a, 0x3b147ae1, 0x3b26e978, 0x3b395810, 0x3b4bc6a7, 0x3b5e3540,
    0x3b70a3d7, 0x3b818937, 0x3b8ac082, 0x3b93f7cf, 0x3b9d2f1a, 0x3ba66666, 0x3baf9db2, 0x3bb8d4fd,
    0x3bc20c4a, 0x3bcb4395, 0x3bd47ae1, 0x3bddb22e, 0x3be6e978, 0x3bf020c5, 0x3bf9580f, 0x3c0147ae,
    0x3c05e354, 0x3c0a7ef9, 0x3c0f1aa0, 0x3c13b645, 0x3c1851eb, 0x3c1ced92, 0x3c218937, 0x3c2f5c2a,
    0x3c466667, 0x3c5d70a3, 0x3c747ae2, 0x3c85c28f, 0x3c9147af, 0x3c9ccccd, 0x3ca851eb, 0x3cb3d70b,
    0x3cbf5c29, 0x3ccae147, 0x3cd66667, 0x3ce1eb87, 0x3ced70a3, 0x3cf8f5c3, 0x3d023d70, 0x3d080000,
    0x3d0dc28f, 0x3d13851f, 0x3d1947af, 0x3d1f0a3d, 0x3d24cccd, 0x3d2a8f5c, 0x3d3051eb, 0x3d36147b,
    0x3d3bd70a, 0x3d41999a, 0x3d475c28, 0x3d4d1eb8, 0x3d52e147, 0x3d58a3d7, 0x3d5e6667, 0x3d6428f7,
    0x3d69eb87, 0x3d6fae15, 0x3d7570a3, 0x3d7b3333, 0x3d807ae2, 0x3d835c2a, 0x3d863d71, 0x3d891eb8,
    0x3d8c0000, 0x3d8ee148, 0x3d91c290, 0x3d94a3d7, 0x3d97851f, 0x3d9a6667, 0x3d9d47af, 0x3da028f6,
    0x3da30a3e, 0x3da5eb85, 0x3da8cccd, 0x3dabae15, 0x3dae8f5c, 0x3db170a4, 0x3db451eb, 0x3db73333,
    0x3dba147b, 0x3dbcf5c3, 0x3dbfd70b, 0x3dc2b852, 0x3dc5999a, 0x3dc87ae2, 0x3dcb5c29, 0x3dd40000,
    0x3de26666, 0x3df0cccd, 0x3dff3333, 0x3e06cccc, 0x3e0e0000, 0x3e153334, 0x3e1c6666, 0x3e23999a,
    0x3e2acccc, 0x3e320000, 0x3e393334, 0x3e406666, 0x3e47999a, 0x3e4ecccc, 0x3e560000, 0x3e5d3334,
    0x3e646666, 0x3e6b999a, 0x3e72cccc, 0x3e7a0000, 0x3e809999, 0x3e843333, 0x3e87cccd, 0x3e8b6666,
    0x3e8f0000, 0x3e92999a, 0x3e963333, 0x3e99cccc, 0x3e9d6666, 0x3ea10000, 0x3ea4999a, 0x3ea83333,
    0x3eabcccc, 0x3eaf6666, 0x3eb30000, 0x3eb6999a, 0x3eba3333, 0x3ebdcccc, 0x3ec16666, 0x3ec50000,
    0x3ec8999a, 0x3ecc3333, 0x3ecfcccc, 0x3ed36666, 0x3ed70000, 0x3eda999a, 0x3ede3333, 0x3ee1cccc,
    0x3ee56666, 0x3ee90000, 0x3eec999a, 0x3ef03333, 0x3ef3cccc, 0x3ef76666, 0x3efb0000, 0x3efe9999,
    0x3f01199a, 0x3f02e666, 0x3f04b333, 0x3f068000, 0x3f084ccc, 0x3f0a199a, 0x3f0be666, 0x3f0db334,
    0x3f0f8000, 0x3f114ccd, 0x3f13199a, 0x3f14e666, 0x3f16b334, 0x3f188000, 0x3f1a4ccd, 0x3f1c199a,
    0x3f1de666, 0x3f1fb334, 0x3f218000, 0x3f234ccd, 0x3f25199a, 0x3f26e666, 0x3f28b334, 0x3f2a8000,
    0x3f2c4ccd, 0x3f2e199a, 0x3f2fe666, 0x3f31b334, 0x3f338000, 0x3f354ccd, 0x3f37199a, 0x3f38e666,
    0x3f3ab334, 0x3f3c8000, 0x3f3e4ccd, 0x3f40199a, 0x3f41e666, 0x3f43b334, 0x3f458000, 0x3f474ccc,
    0x3f49199a, 0x3f4ae666, 0x3f4cb334, 0x3f4e8000, 0x3f504ccc, 0x3f52199a, 0x3f53e666, 0x3f55b334,
    0x3f578000, 0x3f594ccc, 0x3f5b199a, 0x3f5ce666, 0x3f5eb334, 0x3f608000, 0x3f624ccc, 0x3f64199a,
    0x3f65e666, 0x3f67b334, 0x3f698000, 0x3f6b4ccc, 0x3f6d199a, 0x3f6ee666, 0x3f70b334, 0x3f728000,
    0x3f744ccc, 0x3f76199a, 0x3f77e666, 0x3f79b334, 0x3f7b8000, 0x3f7d4ccc, 0x3f7f199a, 0x3f800000,
};

constexpr uint32_t kPositiveSigned4[8] = {
    0x3bb43958, 0x3d051eb9, 0x3d9eb852, 0x3e599999, 0x3ee00000, 0x3f29999a, 0x3f633333, 0x3f800000,
};

float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Negatives of all but the last, 0, positives.
std::vector<float> mirrored(const uint32_t* positive, int count) {
  std::vector<float> values;
  for (int i = count - 2; i >= 0; --i) values.push_back(-from_bits(positive[i]));
  values.push_back(0.0f);
  for (int i = 0; i < count; ++i) values.push_back(from_bits(positive[i]));
  return values;
}

std::vector<float> unsigned8() {
  std::vector<float> values;
  for (const uint32_t bits : kUnsigned8) values.push_back(from_bits(bits));
  return values;
}

// No zero: torchao's second moment is at least a sixteenth of its block's scale.
std::vector<float> unsigned4() {
  std::vector<float> values;
  for (int i = 1; i <= 16; ++i) values.push_back(static_cast<float>(i) / 16.0f);
  return values;
}

// Bisection from the middle with halving steps, keeping the last entries on both sides; what is
// left is a comparison with the midpoint of the pivot and its neighbor.
int nearest_of_256(const std::vector<float>& values, float x) {
  int pivot = 127, upper_pivot = 255, lower_pivot = 0;
  float lower = values[0], upper = values[255], value = values[pivot];
  for (int step = 64; step > 0; step >>= 1) {
    if (x > value) {
      lower_pivot = pivot;
      lower = value;
      pivot += step;
    } else {
      upper_pivot = pivot;
      upper = value;
      pivot -= step;
    }
    value = values[pivot];
  }
  if (x > value) return x > (upper + value) * 0.5f ? upper_pivot : pivot;
  return x < (lower + value) * 0.5f ? lower_pivot : pivot;
}

int nearest_of_16(const std::vector<float>& values, float x) {
  int code = 0;
  for (int step = 8; step > 0; step >>= 1) code += x >= values[code + step] ? step : 0;
  const int up = std::min(code + 1, 15);
  return x - values[code] >= (values[up] - values[code]) * 0.5f ? up : code;
}

uint8_t keep_sign(const std::vector<float>& values, int code, float x) {
  if (std::signbit(values[code]) != std::signbit(x)) code += x > 0 ? 1 : -1;
  return static_cast<uint8_t>(code);
}

// A bucket holds the magnitudes that share exponent and leading mantissa bits, few enough that at
// most one boundary between codes falls into it.
QuantTables make_tables(QuantMap map) {
  QuantTables tables;
  const std::vector<float>& values = quant_map_values(map);
  std::copy(values.begin(), values.end(), tables.values);
  const std::vector<float>& least = quant_boundaries(map);
  std::copy(least.begin(), least.end(), tables.boundaries + 1);
  tables.nan_code = quantize_one(map, NAN);
  tables.top_code = static_cast<uint32_t>(values.size() - 1);
  for (uint32_t sign = 0; sign < 2; ++sign) {
    const auto code_at = [&](uint32_t magnitude) -> uint32_t {
      const uint32_t code = quantize_one(map, from_bits(magnitude | sign << 31));
      return sign == 1 ? tables.top_code - code : code;  // rises with the magnitude
    };
    for (uint32_t bucket = 0; bucket < QuantTables::kBuckets; ++bucket) {
      const uint32_t first = (QuantTables::kFirstKey + bucket) << QuantTables::kLowBits;
      const uint32_t size = 1u << QuantTables::kLowBits;
      const uint32_t code = code_at(bucket == 0 ? 0 : first);
      uint32_t low = 0, high = bucket + 1 == QuantTables::kBuckets ? 1 : size;
      const uint32_t last_code = code_at(first + high - 1);
      if (last_code > code + 1) throw std::logic_error("quantizer: two boundaries in one bucket");
      if (last_code == code) {
        low = size;  // never reached
      } else {
        while (low + 1 < high) {  // code_at(first + low) == code, the boundary is below high
          const uint32_t middle = (low + high) / 2;
          (code_at(first + middle) == code ? low : high) = middle;
        }
        low = high;
        if (code_at(first + low - 1) != code || code_at(first + low) != last_code)
          throw std::logic_error("quantizer: a boundary was not found");
      }
      tables.entries[sign * QuantTables::kBuckets + bucket] = code << 24 | low;
    }
  }
  return tables;
}

// Floats in their order as integers, and back.
float float_at(int64_t order) {
  const auto magnitude = static_cast<uint32_t>(order < 0 ? -order - 1 : order);
  return from_bits(order < 0 ? magnitude | 0x80000000u : magnitude);
}

// The least x of each code but the first: codes rise with x.
std::vector<float> boundaries(QuantMap map) {
  const size_t count = quant_map_values(map).size();
  constexpr int64_t kTwo = 0x40000000;  // the order of 2.0f
  std::vector<float> least;
  for (size_t code = 1; code < count; ++code) {
    int64_t below = -kTwo, from = kTwo;
    while (below + 1 < from) {
      const int64_t middle = below + (from - below) / 2;
      (quantize_one(map, float_at(middle)) >= code ? from : below) = middle;
    }
    least.push_back(float_at(from));
  }
  return least;
}

}  // namespace

const std::vector<float>& quant_map_values(QuantMap map) {
  static const std::vector<float> kValues[] = {mirrored(kPositiveSigned8, 128), unsigned8(),
                                               mirrored(kPositiveSigned4, 8), unsigned4()};
  return kValues[static_cast<int>(map)];
}

uint8_t quantize_one(QuantMap map, float x) {
  const std::vector<float>& values = quant_map_values(map);
  if (values.size() == 16) return static_cast<uint8_t>(nearest_of_16(values, x));
  const int code = nearest_of_256(values, x);
  return map == QuantMap::kSigned8 ? keep_sign(values, code, x) : static_cast<uint8_t>(code);
}

const QuantTables& quant_tables(QuantMap map) {
  static const QuantTables kTables[] = {
      make_tables(QuantMap::kSigned8), make_tables(QuantMap::kUnsigned8),
      make_tables(QuantMap::kSigned4), make_tables(QuantMap::kUnsigned4)};
  return kTables[static_cast<int>(map)];
}

const std::vector<float>& quant_boundaries(QuantMap map) {
  static const std::vector<float> kBoundaries[] = {
      boundaries(QuantMap::kSigned8), boundaries(QuantMap::kUnsigned8),
      boundaries(QuantMap::kSigned4), boundaries(QuantMap::kUnsigned4)};
  return kBoundaries[static_cast<int>(map)];
}

bool has_four_bits(QuantMap map) {
  return map == QuantMap::kSigned4 || map == QuantMap::kUnsigned4;
}

}  // namespace sftbench::ops
