#define PL_VNNI
#include "tile_avx2.h"
#include "vec_avx2.h"

using Fp32Product = Fp32Tile;
using Bf16Product = WideTile;
using Int8Product = CodeTile;
using RoundedAttention = Fp32Tile;

#include "encoder.h"

PL_KERNELS(avx_vnni)
