/* What the search of a full recall costs a token, and what adding a correction costs beside its states, in processor time.
 *   bench_engine_recall [D_MODEL [N_VOCAB]] */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "answer/recall.h"

enum { N = 8192, N_CORRECTION = 50, ROUNDS = 200 };

static const kt__recall_scope everywhere;
static double cpu_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static uint32_t x = 1;
static int next_key(int range) {
    x = x * 1664525u + 1013904223u;
    return (int)(x >> 8) % (2 * range + 1) - range;
}

static void check(kt_status status, const kt_error *err) {
    if (status == KT_OK) return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

int main(int argc, char **argv) {
    kt__net net = {0};
    kt_ctx ctx = {.mem_bytes = UINT64_MAX};
    kt_model model = {.ctx = &ctx, .net = &net};
    kt_recall *r, *next;
    kt_error err;
    int32_t ids[N_CORRECTION] = {0};
    net.hp.d_model = argc > 1 ? atoi(argv[1]) : 1536;
    net.hp.n_vocab = argc > 2 ? atoi(argv[2]) : 151936;
    size_t d = (size_t)net.hp.d_model, n_vocab = (size_t)net.hp.n_vocab;
    int8_t *keys = malloc(N_CORRECTION * d);
    float *logits = calloc(n_vocab, sizeof *logits), *hidden = malloc(d * sizeof *hidden);
    check(kt_recall_open(&model, NULL, &r, &err), &err);
    double add_us = 0;
    for (int n = 0; n + N_CORRECTION <= N; n += N_CORRECTION) {
        for (size_t i = 0; i < N_CORRECTION * d; i++) keys[i] = (int8_t)next_key(60);
        const kt_recall_pairs pairs = {keys, ids, N_CORRECTION, (uint64_t)n, false};
        double begin = cpu_us();
        check(kt_recall_add(r, &pairs, &next, &err), &err);
        kt_recall_close(r);
        add_us = cpu_us() - begin;
        r = next;
    }
    for (size_t i = 0; i < d; i++) hidden[i] = (float)next_key(60);
    int8_t *key = malloc(d);
    double begin = cpu_us();
    for (int i = 0; i < ROUNDS; i++) {
        kt__recall_key(hidden, (int32_t)d, key);
        (void)kt__recall_mix(r, &everywhere, key, logits);
    }
    double miss_us = (cpu_us() - begin) / ROUNDS;
    begin = cpu_us();
    for (int i = 0; i < ROUNDS; i++)
        kt__recall_undo(kt__recall_mix(r, &everywhere, keys, logits), logits);
    double hit_us = (cpu_us() - begin) / ROUNDS;
    printf("d_model %zu, vocabulary %zu, %d pairs: %.0f us a token where nothing is near, %.0f us "
           "where something is; adding %d pairs to a full one "
           "%.0f us\n",
           d, n_vocab, N / N_CORRECTION * N_CORRECTION, miss_us, hit_us, N_CORRECTION, add_us);
    kt_recall_close(r);
    free(keys);
    free(key);
    free(logits);
    free(hidden);
    return 0;
}
