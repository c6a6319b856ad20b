#include "quant/grids.h"

/* the tables' entries from their codes (grids.def) */
#define E4(a, b, c, d) E(a), E(b), E(c), E(d)
#define E16(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p) \
    E4(a, b, c, d), E4(e, f, g, h), E4(i, j, k, l), E4(m, n, o, p),

#define THIRD(code, power) ((code) / (power) % 3)
#define OF_THIRDS(level, code)                                                                     \
    (level(THIRD(code, 1)) | level(THIRD(code, 3)) << 8 | level(THIRD(code, 9)) << 16 |            \
     level(THIRD(code, 27)) << 24 | level(THIRD(code, 81)) << 32 | level(THIRD(code, 243)) << 40 | \
     level(THIRD(code, 729)) << 48 | level(THIRD(code, 2187)) << 56)
#define OF_EIGHTHS(level, code)                                                     \
    (level((code)&7) | level((code) >> 3 & 7) << 8 | level((code) >> 6 & 7) << 16 | \
     level((code) >> 9 & 7) << 24)

#define IQ1_LEVEL(digit) ((uint64_t)(KT__GRID_BIAS - 8 + 8 * (digit)))
#define IQ2_LEVEL(digit) ((uint64_t)(KT__GRID_BIAS + 8 + 17 * (digit) + (digit) / 2))
#define IQ3_XXS_LEVEL(digit) ((uint32_t)(KT__GRID_BIAS + 4 + 8 * (digit) + (digit) / 7 * 2))
#define IQ3_S_LEVEL(digit) ((uint32_t)(KT__GRID_BIAS + 1 + 2 * (digit)))

#define E(code) OF_THIRDS(IQ2_LEVEL, code)
const uint64_t kt__grid_iq2_xxs[256] = {
#define GRID_IQ2_XXS
#include "quant/grids.def"
#undef GRID_IQ2_XXS
};
const uint64_t kt__grid_iq2_xs[512] = {
#define GRID_IQ2_XS
#include "quant/grids.def"
#undef GRID_IQ2_XS
};
const uint64_t kt__grid_iq2_s[1024] = {
#define GRID_IQ2_S
#include "quant/grids.def"
#undef GRID_IQ2_S
};
#undef E

#define E(code) OF_EIGHTHS(IQ3_XXS_LEVEL, code)
const uint32_t kt__grid_iq3_xxs[256] = {
#define GRID_IQ3_XXS
#include "quant/grids.def"
#undef GRID_IQ3_XXS
};
#undef E

#define E(code) OF_EIGHTHS(IQ3_S_LEVEL, code)
const uint32_t kt__grid_iq3_s[512] = {
#define GRID_IQ3_S
#include "quant/grids.def"
#undef GRID_IQ3_S
};
#undef E

#define E(code) OF_THIRDS(IQ1_LEVEL, code)
const uint64_t kt__grid_iq1[2048] = {
#define GRID_IQ1
#include "quant/grids.def"
#undef GRID_IQ1
};
#undef E

#define E(code) code
const uint16_t kt__codes_iq2_xxs[256] = {
#define GRID_IQ2_XXS
#include "quant/grids.def"
#undef GRID_IQ2_XXS
};
const uint16_t kt__codes_iq2_xs[512] = {
#define GRID_IQ2_XS
#include "quant/grids.def"
#undef GRID_IQ2_XS
};
const uint16_t kt__codes_iq2_s[1024] = {
#define GRID_IQ2_S
#include "quant/grids.def"
#undef GRID_IQ2_S
};
const uint16_t kt__codes_iq3_xxs[256] = {
#define GRID_IQ3_XXS
#include "quant/grids.def"
#undef GRID_IQ3_XXS
};
const uint16_t kt__codes_iq3_s[512] = {
#define GRID_IQ3_S
#include "quant/grids.def"
#undef GRID_IQ3_S
};
const uint16_t kt__codes_iq1[2048] = {
#define GRID_IQ1
#include "quant/grids.def"
#undef GRID_IQ1
};
