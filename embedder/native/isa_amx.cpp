#define PL_HAS_BF16
#include "tile_amx.h"
#include "vec_avx512.h"

using Fp32Product = Fp32Tile;
using Bf16Product = AmxBf16Tile;
using Int8Product = AmxInt8Tile<VnniTile>;
using RoundedAttention = AmxBf16Tile;

#include "encoder.h"

PL_KERNELS(amx)
