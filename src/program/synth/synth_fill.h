/* Blocks of codebooks and of few levels, drawn code by code.
 *
 * Owns: random blocks of the types whose codes are all equally likely (IQ1 to IQ3, TQ, Q1_0, Q2_0,
 * NVFP4). No state; any thread. */
#ifndef KT_SYNTH_SYNTH_FILL_H
#define KT_SYNTH_SYNTH_FILL_H

#include <stdbool.h>
#include <stdint.h>

#include "quant/quant.h"

bool kt__synth_has_codes(kt__type type);
/* A block of random codes with the scale d; random(state) gives 64 bits. */
void kt__synth_draw_codes(kt__type type, float d, uint64_t (*random)(void *), void *state,
                          void *block);
/* Root mean square of a weight where d = 1. */
float kt__synth_codes_rms(kt__type type);

#endif
