/* Random numbers by counting, not by state, and those of another generator for who wants its texts.
 *
 * Owns: a uniform number for every (seed, choice, position, draw), so that a token's draw does not
 * depend on earlier draws, nor on the order of calls. Philox4x32-10 (Salmon et al. 2011, "Parallel
 * random numbers: as easy as 1, 2, 3"): key = seed, counter = (position low, position high, choice,
 * draw). Any thread. */
#ifndef KT_SAMPLE_RNG_H
#define KT_SAMPLE_RNG_H

#include <kentang.h>

void kt__philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* A multiple of 2^-53 in [0, 1). choice: index of one of several answers to a prompt. */
double kt__rng_uniform(uint64_t seed, uint32_t choice, uint64_t position, uint32_t draw);
/* The Mersenne Twister of 19937 bits (Matsumoto & Nishimura 1998, "Mersenne Twister"), which llama.cpp draws from: 624
 * words at a time, so that any draw can be had again; going back begins anew. */
typedef struct kt__mt19937 {
    uint32_t seed, word[624];
    uint64_t block; /* the words are 624 * block and those after it; UINT64_MAX: none yet */
} kt__mt19937;

void kt__mt19937_init(kt__mt19937 *mt, uint32_t seed);
uint32_t kt__mt19937_word(kt__mt19937 *mt, uint64_t index);
/* The index-th number that C++'s std::uniform_real_distribution<double> makes of them in GCC's library: of two words each. */
double kt__mt19937_uniform(kt__mt19937 *mt, uint64_t index);
/* A seed from the system's entropy, short enough (32 bits) to be read, typed and kept in JSON. */
kt_status KT_CHECKED kt__rng_seed(uint64_t *seed, kt_error *err);

#endif
