// Products of bfloat16 pairs on the tiles of AMX (Intel SDM, TDPBF16PS): eight registers of 16 rows
// of 16 units. See simd.h for how this file is compiled.
#pragma once

#include "ops/cpu/simd.h"

namespace sftbench::ops::SFTBENCH_ISA {

constexpr int64_t kTileUnits = 16;  // rows of a tile, and units of a row

// Gives the tile registers their shapes for as long as it lives. Then it restores those that
// another library may have set for this thread.
class TileShapes {
 public:
  TileShapes() {
    asm volatile("" ::"r"(before_) : "memory");
    _tile_storeconfig(before_);
    Shapes own{};
    own.palette = 1;
    for (int i = 0; i < 8; ++i) {
      own.row_bytes[i] = 4 * kTileUnits;
      own.rows[i] = kTileUnits;
    }
    configure(&own);
  }
  ~TileShapes() { configure(before_); }
  TileShapes(const TileShapes&) = delete;
  TileShapes& operator=(const TileShapes&) = delete;

 private:
  struct alignas(64) Shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  };

  // GCC 12 tells its optimizer that the intrinsics write and read eight bytes. Where there were no
  // shapes all bytes are 0, which ends the use of tiles.
  static void configure(const void* shapes) {
    asm volatile("" ::"r"(shapes) : "memory");
    _tile_loadconfig(shapes);
  }

  alignas(64) uint8_t before_[64] = {};
};

// Tiles of an operand, in units: between rows of a tile, between two tiles side by side in the
// result, and between two along the contraction.
struct Tiles {
  const uint32_t* data;
  int64_t row, across, along;
};

// c [16 * kDown, 16 * kAcross] (+)= a b over so many tiles of the contraction. Registers 0 to 3
// hold sums, 4 and 5 left operands, 6 and 7 right ones.
template <int kDown, int kAcross>
SFTBENCH_INLINE void multiply_tiles(const Tiles& a, const Tiles& b, int64_t tiles, float* c,
                                    int64_t c_stride, bool accumulate) {
  constexpr int64_t kBytes = sizeof(uint32_t);
  float* const below = c + kTileUnits * c_stride;
  asm volatile("" ::: "memory");  // the intrinsics do not say that they read memory
  if (accumulate) {
    _tile_loadd(0, c, c_stride * kBytes);
    if constexpr (kAcross == 2) _tile_loadd(1, c + kTileUnits, c_stride * kBytes);
    if constexpr (kDown == 2) _tile_loadd(2, below, c_stride * kBytes);
    if constexpr (kDown * kAcross == 4) _tile_loadd(3, below + kTileUnits, c_stride * kBytes);
  } else {
    _tile_zero(0);
    if constexpr (kAcross == 2) _tile_zero(1);
    if constexpr (kDown == 2) _tile_zero(2);
    if constexpr (kDown * kAcross == 4) _tile_zero(3);
  }
  for (int64_t k = 0; k < tiles; ++k) {
    const uint32_t *left = a.data + k * a.along, *right = b.data + k * b.along;
    _tile_loadd(4, left, a.row * kBytes);
    _tile_loadd(6, right, b.row * kBytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kAcross == 2) {
      _tile_loadd(7, right + b.across, b.row * kBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kDown == 2) {
      _tile_loadd(5, left + a.across, a.row * kBytes);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kDown * kAcross == 4) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_stride * kBytes);
  if constexpr (kAcross == 2) _tile_stored(1, c + kTileUnits, c_stride * kBytes);
  if constexpr (kDown == 2) _tile_stored(2, below, c_stride * kBytes);
  if constexpr (kDown * kAcross == 4) _tile_stored(3, below + kTileUnits, c_stride * kBytes);
}

}  // namespace sftbench::ops::SFTBENCH_ISA
