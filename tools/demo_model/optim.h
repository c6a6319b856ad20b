/*
 * optim: one optimiser step over the flat parameter array of net.h.
 *
 * Owns: the moments. Matrices inside the layers move by Muon (momentum, orthogonalised by a
 * Newton-Schulz iteration; scaled so that its step has AdamW's usual size), the embedding and
 * the norms by AdamW. Does not own: parameters, gradients, the schedule.
 * Threads: call from one thread; works in an OpenMP team of its own. Deterministic.
 */
#ifndef DEMO_OPTIM_H
#define DEMO_OPTIM_H

#include "net.h"

typedef struct optim optim;

optim *optim_new(const net *n);
void optim_free(optim *o);
/* g[0] := g[0] + ... + g[n_g-1], clipped to norm 1; then w moves. Returns the norm before. */
float optim_step(optim *o, float *w, float *const *g, int n_g, float lr, float lr_embd,
                 float decay);

#endif
