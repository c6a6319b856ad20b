/* The same with blocks of tokens, slices of columns and groups of panels that small products already have several of. */
#define TILE_TOKENS 48
#define TILE_ACTS 6
#define TILE_PANELS 2
#define TABLE amx_on_avx2_small
#define NAME "amx on avx2, small blocks"
#include "amx_on_avx2.c"
