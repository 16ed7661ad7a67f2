#include "tile_neon.h"
#include "vec_neon.h"

using Fp32Product = Fp32Tile;
using Bf16Product = WideTile;
using Int8Product = Fp32Tile;  // never used: this processor has no int8 dot products
using RoundedAttention = Fp32Tile;

#include "encoder.h"

PL_KERNELS(neon)
