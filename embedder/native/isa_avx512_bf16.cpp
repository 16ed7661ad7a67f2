#define PL_HAS_BF16
#include "tile_avx512.h"
#include "vec_avx512.h"

using Fp32Product = Fp32Tile;
using Bf16Product = Bf16Tile;
using Int8Product = VnniTile;
using RoundedAttention = Bf16Tile;

#include "encoder.h"

PL_KERNELS(avx512_bf16)
