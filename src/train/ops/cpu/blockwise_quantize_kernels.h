// Block-wise quantized optimizer steps of one instruction set: the last include of each
// blockwise_quantize_{baseline,avx2,avx512}.cpp. A block of 256 elements is dequantized into a
// buffer in the first-level cache, updated there, and quantized from it.
#pragma once

#include "ops/blockwise_quantize_impl.h"
#include "ops/cpu/simd.h"

#define SFTBENCH_LAMBDA __attribute__((always_inline))

namespace sftbench::ops::SFTBENCH_ISA {

using Pairs = uint64_t __attribute__((vector_size(4 * SFTBENCH_LANES)));
using Bytes = uint8_t __attribute__((vector_size(SFTBENCH_LANES)));          // one a lane
using PairBytes = uint8_t __attribute__((vector_size(SFTBENCH_LANES / 2)));  // one a pair of lanes

constexpr int64_t kBlock = kQuantBlockNumel;

SFTBENCH_INLINE U gather(const void* table, U index) {
#if defined(SFTBENCH_HAS_AVX512)
  return (U)_mm512_mask_i32gather_epi32((__m512i)U{}, kAllLanes, (__m512i)index, table, 4);
#else
  const uint32_t* entries = static_cast<const uint32_t*>(table);
  U result;
  for (int64_t i = 0; i < kLanes; ++i) result[i] = entries[index[i]];
  return result;
#endif
}

SFTBENCH_INLINE F magnitude(F x) {
  return (F)((U)x & 0x7fffffffu);
}

// The code of each x in [-1, 1], in units of the block's scale.
SFTBENCH_INLINE U quantize(F x, const QuantTables& tables) {
  const U bits = (U)x & 0x7fffffffu;
  const U negative = (U)((I)x >> 31);
  I key = (I)(bits >> QuantTables::kLowBits) - (int32_t)QuantTables::kFirstKey;
  key = key < 0 ? I{} : key;
  const I last = I{} + (int32_t)(QuantTables::kBuckets - 1);
  key = key > last ? last : key;
  const U entry = gather(tables.entries, (U)key + (negative & QuantTables::kBuckets));
  const U low = bits & ((1u << QuantTables::kLowBits) - 1);
  const U above = (U)(low >= (entry & 0xffffffu));  // all ones is minus one
  const U rising = (entry >> 24) - above;
  const U code = negative ? tables.top_code - rising : rising;
  return x == x ? code : U{} + tables.nan_code;
}

#ifdef SFTBENCH_HAS_AVX512
// From registers, which is several times as fast as gathering from memory.
SFTBENCH_INLINE F lookup16(const float* table, U index) {
  return (F)_mm512_maskz_permutexvar_ps(kAllLanes, (__m512i)index, (__m512)load(table));
}

SFTBENCH_INLINE F lookup256(const float* table, U index) {
  const auto choose = [&](uint32_t bit, F low, F high)
                          SFTBENCH_LAMBDA { return (U)(index & bit) != 0 ? high : low; };
  F parts[8];
  for (int i = 0; i < 8; ++i) {
    parts[i] =
        (F)_mm512_maskz_permutex2var_ps(kAllLanes, (__m512)load(table + 32 * i), (__m512i)index,
                                        (__m512)load(table + 32 * i + kLanes));
  }
  for (int i = 0; i < 4; ++i) parts[i] = choose(32, parts[2 * i], parts[2 * i + 1]);
  for (int i = 0; i < 2; ++i) parts[i] = choose(64, parts[2 * i], parts[2 * i + 1]);
  return choose(128, parts[0], parts[1]);
}

// Bisection of the boundaries; NaN is above none.
SFTBENCH_INLINE U quantize4(F x, const QuantTables& tables) {
  U code{};
  for (uint32_t step = 8; step > 0; step >>= 1) {
    const U next = code + step;
    code = x >= lookup16(tables.boundaries, next) ? next : code;
  }
  return code;
}
#else
SFTBENCH_INLINE F lookup16(const float* table, U index) {
  return (F)gather(table, index);
}
SFTBENCH_INLINE F lookup256(const float* table, U index) {
  return (F)gather(table, index);
}
SFTBENCH_INLINE U quantize4(F x, const QuantTables& tables) {
  return quantize(x, tables);
}
#endif

// --- 8 bits: a byte per code; 4 bits: the even one of two in the high nibble ---------------------

struct Codes8 {
  static SFTBENCH_INLINE U from(F x, const QuantTables& tables) { return quantize(x, tables); }
  static SFTBENCH_INLINE F values(U codes, const QuantTables& tables) {
    return lookup256(tables.values, codes);
  }
  static SFTBENCH_INLINE const uint8_t* at(const uint8_t* codes, int64_t i) { return codes + i; }
  static SFTBENCH_INLINE uint8_t* at(uint8_t* codes, int64_t i) { return codes + i; }
  static SFTBENCH_INLINE int64_t bytes(int64_t lanes) { return lanes; }
  static SFTBENCH_INLINE U unpack(const uint8_t* codes) {
    Bytes bytes;
    __builtin_memcpy(&bytes, codes, sizeof bytes);
    return __builtin_convertvector(bytes, U);
  }
  static SFTBENCH_INLINE void pack(uint8_t* codes, U v) {
    const Bytes bytes = __builtin_convertvector(v, Bytes);
    __builtin_memcpy(codes, &bytes, sizeof bytes);
  }
};

struct Codes4 {
  static SFTBENCH_INLINE U from(F x, const QuantTables& tables) { return quantize4(x, tables); }
  static SFTBENCH_INLINE F values(U codes, const QuantTables& tables) {
    return lookup16(tables.values, codes);
  }
  static SFTBENCH_INLINE const uint8_t* at(const uint8_t* codes, int64_t i) {
    return codes + i / 2;
  }
  static SFTBENCH_INLINE uint8_t* at(uint8_t* codes, int64_t i) { return codes + i / 2; }
  static SFTBENCH_INLINE int64_t bytes(int64_t lanes) { return (lanes + 1) / 2; }
  static SFTBENCH_INLINE U unpack(const uint8_t* codes) {
    PairBytes bytes;
    __builtin_memcpy(&bytes, codes, sizeof bytes);
    const Pairs pairs = __builtin_convertvector(bytes, Pairs);
    return (U)((pairs >> 4) | ((pairs & 15u) << 32));
  }
  static SFTBENCH_INLINE void pack(uint8_t* codes, U v) {
    const Pairs pairs = (Pairs)v;
    const PairBytes bytes = __builtin_convertvector((pairs << 4) | (pairs >> 32), PairBytes);
    __builtin_memcpy(codes, &bytes, sizeof bytes);
  }
};

template <class Codes>
SFTBENCH_INLINE U load_codes(const uint8_t* codes, int64_t i, All) {
  return Codes::unpack(Codes::at(codes, i));
}
template <class Codes>
SFTBENCH_INLINE U load_codes(const uint8_t* codes, int64_t i, int64_t lanes) {
  uint8_t some[kLanes] = {};
  for (int64_t j = 0; j < Codes::bytes(lanes); ++j) some[j] = Codes::at(codes, i)[j];
  return Codes::unpack(some);
}
template <class Codes>
SFTBENCH_INLINE void store_codes(uint8_t* codes, int64_t i, U v, All) {
  Codes::pack(Codes::at(codes, i), v);
}
template <class Codes>
SFTBENCH_INLINE void store_codes(uint8_t* codes, int64_t i, U v, int64_t lanes) {
  uint8_t some[kLanes];
  Codes::pack(some, v);
  for (int64_t j = 0; j < Codes::bytes(lanes); ++j) Codes::at(codes, i)[j] = some[j];
}

template <class Codes>
SFTBENCH_INLINE void dequantize_block(const uint8_t* codes, float scale, float* x, int64_t numel,
                                      const QuantTables& tables) {
  sweep(numel, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
    store(x + i, Codes::values(load_codes<Codes>(codes, i, n), tables) * scale, n);
  });
}

// A product with the reciprocal in place of a division, as bitsandbytes has it on CPUs (its CUDA
// kernels divide approximately). Scales whose reciprocal would overflow are lifted first; a block
// of zeros gives NaN, which has its code.
template <class Codes>
SFTBENCH_INLINE void quantize_block(const float* x, float scale, uint8_t* codes, int64_t numel,
                                    const QuantTables& tables) {
  const float lift = scale < 0x1p-100f ? 0x1p60f : 1.0f;
  const float reciprocal = 1.0f / (scale * lift);
  sweep(numel, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
    const F units = load(x + i, n) * lift * reciprocal;
    store_codes<Codes>(codes, i, Codes::from(units, tables), n);
  });
}

template <class Codes>
SFTBENCH_INLINE float scale_of(F peak) {
  const float scale = maximum(peak);
  return __is_same(Codes, Codes4) && scale < 1e-12f ? 1e-12f : scale;
}

template <class Codes>
void quantize_all(const float* x, uint8_t* codes, float* scales, int64_t numel,
                  const QuantTables& tables) {
  for (int64_t begin = 0; begin < numel; begin += kBlock) {
    const int64_t count = numel - begin < kBlock ? numel - begin : kBlock;
    F peak = splat(0);
    sweep(count, [&](int64_t i, auto n)
                     SFTBENCH_LAMBDA { peak = maximum(magnitude(load(x + begin + i, n)), peak); });
    const float scale = scale_of<Codes>(peak);
    scales[begin / kBlock] = scale;
    quantize_block<Codes>(x + begin, scale, Codes::at(codes, begin), count, tables);
  }
}

template <class Codes>
void dequantize_all(const uint8_t* codes, const float* scales, float* x, int64_t numel,
                    const QuantTables& tables) {
  for (int64_t begin = 0; begin < numel; begin += kBlock) {
    const int64_t count = numel - begin < kBlock ? numel - begin : kBlock;
    dequantize_block<Codes>(Codes::at(codes, begin), scales[begin / kBlock], x + begin, count,
                            tables);
  }
}

// --- the update ----------------------------------------------------------------------------------

SFTBENCH_INLINE F sign_of(F v) {
  const F one = splat(1.0f), zero = splat(0.0f);
  return v > zero ? one : (v < zero ? -one : zero);
}

}  // namespace sftbench::ops::SFTBENCH_ISA

#include "ops/update_rules.h"

namespace sftbench::ops::SFTBENCH_ISA {

template <class Codes, int kStates>
SFTBENCH_INLINE const QuantTables& tables_of(int state) {
  constexpr bool kBytes = __is_same(Codes, Codes8);
  if (kStates == 1 || state + 1 < kStates) {
    return quant_tables(kBytes ? QuantMap::kSigned8 : QuantMap::kSigned4);
  }
  return quant_tables(kBytes ? QuantMap::kUnsigned8 : QuantMap::kUnsigned4);
}

// Updates a block from its dequantized states, which become the fresh ones; returns their largest
// magnitudes in `peaks`. kGuarded leaves an element without finite gradient alone.
template <class T, class Rule, int kStates, bool kGuarded>
SFTBENCH_INLINE void update_block(T* p, const T* g, float (*states)[kBlock], F* peaks,
                                  int64_t numel, const RuleFactors<float>& factors) {
  sweep(numel, [&](int64_t i, auto n) SFTBENCH_LAMBDA {
    const F gradient = load(g + i, n) * factors.gradient_scale, before = load(p + i, n);
    F value = before, fresh[kStates];
    for (int k = 0; k < kStates; ++k) fresh[k] = load(states[k] + i, n);
    Rule::apply(value, gradient, fresh, factors);
    if constexpr (kGuarded) {
      const I finite = magnitude(gradient) < splat(__builtin_inff());
      value = finite ? value : before;
      for (int k = 0; k < kStates; ++k) fresh[k] = finite ? fresh[k] : splat(0);
    }
    store(p + i, value, n);
    for (int k = 0; k < kStates; ++k) {
      store(states[k] + i, fresh[k], n);
      peaks[k] = maximum(magnitude(fresh[k]), peaks[k]);
    }
  });
}

template <class T, class Rule, class Codes, int kStates>
void update_quantized(const BlockwiseRange& range, const RuleFactors<float>& all_factors) {
  const RuleFactors<float> factors = all_factors;
  constexpr bool kGuarded = __is_same(Codes, Codes8) && kStates > 1;
  alignas(64) float states[kStates][kBlock];
  for (int64_t begin = 0; begin < range.numel; begin += kBlock) {
    const int64_t count = range.numel - begin < kBlock ? range.numel - begin : kBlock;
    for (int k = 0; k < kStates; ++k) {
      dequantize_block<Codes>(Codes::at(range.codes[k], begin), range.scales[k][begin / kBlock],
                              states[k], count, tables_of<Codes, kStates>(k));
    }
    F peaks[kStates] = {};
    update_block<T, Rule, kStates, kGuarded>(static_cast<T*>(range.parameter) + begin,
                                             static_cast<const T*>(range.gradient) + begin, states,
                                             peaks, count, factors);
    for (int k = 0; k < kStates; ++k) {
      const float scale = scale_of<Codes>(peaks[k]);
      range.scales[k][begin / kBlock] = scale;
      quantize_block<Codes>(states[k], scale, Codes::at(range.codes[k], begin), count,
                            tables_of<Codes, kStates>(k));
    }
  }
}

// In the order of UpdateRule.
#define SFTBENCH_LOOPS8(T)                                                                   \
  {                                                                                          \
    nullptr, update_quantized<T, RmspropRule, Codes8, 1>,                                    \
        update_quantized<T, LionRule, Codes8, 1>, update_quantized<T, AdamWRule, Codes8, 2>, \
        update_quantized<T, AdemamixRule, Codes8, 3>, nullptr, nullptr, nullptr              \
  }

extern const BlockwiseKernels kBlockwiseKernels;
const BlockwiseKernels kBlockwiseKernels = {
    {SFTBENCH_LOOPS8(float), SFTBENCH_LOOPS8(BFloat16), SFTBENCH_LOOPS8(Float16)},
    {update_quantized<float, AdamWRule, Codes4, 2>,
     update_quantized<BFloat16, AdamWRule, Codes4, 2>,
     update_quantized<Float16, AdamWRule, Codes4, 2>},
    quantize_all<Codes8>,
    quantize_all<Codes4>,
    dequantize_all<Codes8>,
    dequantize_all<Codes4>};

}  // namespace sftbench::ops::SFTBENCH_ISA
