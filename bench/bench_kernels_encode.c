/* How fast weights are encoded: every type, tier and effort, with an importance, one thread, in million weights a second of
 * processor time. A machine need not be quiet for it: the best of some runs of a few milliseconds counts.
 *
 *   build/bench_kernels_encode [TYPE] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/dispatch.h"

enum { COLS = 2048, ROWS = 32, RUNS = 7 };

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float bell(unsigned *state) {
    float sum = 0;
    for (int i = 0; i < 12; i++) {
        *state = *state * 1664525u + 1013904223u;
        sum += (float)(*state >> 8) * 0x1p-24f;
    }
    return sum - 6.0f;
}

static double measure(kt__type type, const kt__encoding *how, const float *x, void *blocks) {
    double best = 1e9;
    for (int run = 0; run < RUNS; run++) {
        double begin = seconds();
        for (int r = 0; r < ROWS; r++) kt__quantize_row_by(type, how, x + r * COLS, COLS, blocks);
        double took = seconds() - begin;
        if (took < best) best = took;
    }
    return ROWS * COLS / best * 1e-6;
}

int main(int argc, char **argv) {
    static float x[ROWS * COLS], importance[COLS];
    static char blocks[4 * COLS];
    unsigned state = 1;
    int n_tier;
    kt__cpu cpu;
    const kt__tier *tiers = kt__tiers(&n_tier);
    kt__cpu_detect(&cpu);
    for (int i = 0; i < ROWS * COLS; i++) x[i] = 0.02f * bell(&state);
    for (int i = 0; i < COLS; i++)
        importance[i] = 0.01f + bell(&state) * bell(&state) * 4.0f + 60.0f;
    for (kt__type type = 0; type < KT__TYPE_COUNT; type++) {
        const char *name = kt__type_get(type)->name;
        kt__levels levels;
        if (!kt__type_levels(type, &levels) || (argc > 1 && strcmp(argv[1], name) != 0)) continue;
        printf("%-8s", name);
        for (int i = 0; i < n_tier; i++) {
            if (!tiers[i].supported(&cpu)) continue;
            kt__encoding how = {tiers[i].kernels->fitter, KT__EFFORT_CAREFUL, importance};
            printf("  %s %.1f", tiers[i].name, measure(type, &how, x, blocks));
            how.effort = KT__EFFORT_FAST;
            printf(" (fast %.1f)", measure(type, &how, x, blocks));
        }
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
