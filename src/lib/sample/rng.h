/* Random numbers by counting, not by state.
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
/* A seed from the system's entropy, short enough (32 bits) to be read, typed and kept in JSON. */
kt_status KT_CHECKED kt__rng_seed(uint64_t *seed, kt_error *err);

#endif
