/* Time of one sampled token at a large vocabulary, chain by chain: bench_sample [N_VOCAB]. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "sample/sample.h"

static double uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bench(const char *name, const kt_sampling *p, const float *logits, int n) {
    enum { RUNS = 201 };
    double us[RUNS];
    kt__sampler_setup setup = {.n_vocab = n, .n_ctx = 4096};
    kt__sampler *s;
    if (kt__sampler_create(p, &setup, &s, NULL) != KT_OK) return;
    for (int i = 0; i < RUNS; i++) {
        int32_t id;
        int64_t begin = kt__now_ns();
        if (kt__sampler_sample(s, logits, (uint64_t)i, &id, NULL) != KT_OK) break;
        kt__sampler_accept(s, id);
        us[i] = (double)(kt__now_ns() - begin) / 1e3;
    }
    qsort(us, RUNS, sizeof *us, compare);
    printf("%-34s %9.1f us (fastest %.1f)\n", name, us[RUNS / 2], us[0]);
    kt__sampler_free(s);
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 151936;
    float *logits = malloc((size_t)(n > 0 ? n : 1) * sizeof *logits);
    uint64_t state = 1;
    if (!logits || n < 1) return 1;
    for (int i = 0; i < n; i++) {
        double u = 1.0 - uniform(&state), v = uniform(&state);
        logits[i] = (float)(2.5 * sqrt(-2 * log(u)) * cos(6.283185307 * v));
    }
    kt_sampling base = kt_sampling_default(), p = base;
    base.seed = p.seed = 1;
    bench("default chain", &p, logits, n);
    p.temperature = 0;
    bench("greedy", &p, logits, n);
    p = base, p.repeat_penalty = 1.1f;
    bench("default and penalties", &p, logits, n);
    p.dry_multiplier = 0.8f;
    bench("default, penalties and DRY", &p, logits, n);
    p = base, p.top_k = 0;
    bench("top_p over the vocabulary, min_p", &p, logits, n);
    p.min_p = 0, p.chain = "top_p";
    bench("top_p over the vocabulary", &p, logits, n);
    p.chain = "min_p", p.min_p = 0.05f;
    bench("min_p alone", &p, logits, n);
    p.chain = "typ_p", p.typical_p = 0.9f;
    bench("typical alone", &p, logits, n);
    p.chain = "top_n_sigma", p.top_n_sigma = 1;
    bench("top_n_sigma alone", &p, logits, n);
    p.chain = "temperature";
    bench("temperature alone", &p, logits, n);
    p = base, p.mirostat = 2;
    bench("mirostat 2", &p, logits, n);
    p.mirostat = 1;
    bench("mirostat 1", &p, logits, n);
    free(logits);
    return 0;
}
