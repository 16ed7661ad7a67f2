#define PL_HAS_BF16
#include "tile_neon.h"
#include "vec_neon.h"

using Fp32Product = Fp32Tile;
using Bf16Product = BfmmlaTile;
using Int8Product = UsmmlaTile;
using RoundedAttention = BfmmlaTile;

#include "encoder.h"

PL_KERNELS(neon_mmla)
