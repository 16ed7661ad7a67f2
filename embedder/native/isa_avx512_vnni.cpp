#include "tile_avx512.h"
#include "vec_avx512.h"

using Fp32Product = Fp32Tile;
using Bf16Product = WideTile;
using Int8Product = VnniTile;
using RoundedAttention = Fp32Tile;

#include "encoder.h"

PL_KERNELS(avx512_vnni)
