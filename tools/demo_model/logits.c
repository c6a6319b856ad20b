/*
 * logits MODEL.f32 < ids.jsonl: the trainer's own forward pass, to hold an engine against.
 *
 * Reads a JSON list of token ids a line and writes {"n":..,"argmax":..,"logits":[...]} after the
 * last one, as `kentang logits` and the reference engine of ../shared/peer do.
 */
#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void openblas_set_num_threads(int n);

enum { MAX_TOK = 1024 };

static float *load(net *n, const char *path) {
    char head[8];
    net_dims d;
    FILE *f = fopen(path, "rb");
    if (!f || fread(head, 8, 1, f) != 1 || memcmp(head, "KTF32", 5) ||
        fread(&d, sizeof d, 1, f) != 1 || net_init(n, d))
        return NULL;
    float *w = malloc(sizeof(float) * n->n_param);
    size_t ok = w ? fread(w, sizeof(float) * n->n_param, 1, f) : 0;
    fclose(f);
    return ok ? w : NULL;
}

/* The ids of one line; -1 for an id outside the vocabulary or a line too long. */
static int parse(const char *line, int n_vocab, uint16_t *ids) {
    int n = 0;
    for (const char *p = line; *p;) {
        char *end;
        long id = strtol(p, &end, 10);
        if (end == p) {
            p++;
            continue;
        }
        if (id < 0 || id >= n_vocab || n == MAX_TOK) return -1;
        ids[n++] = (uint16_t)id;
        p = end;
    }
    return n;
}

int main(int argc, char **argv) {
    openblas_set_num_threads(1);
    net n;
    float *w = argc > 1 ? load(&n, argv[1]) : NULL;
    net_work *k = w ? net_work_new(&n, MAX_TOK) : NULL;
    if (!k) {
        fprintf(stderr,
                "logits: cannot load the checkpoint; usage: logits MODEL.f32 < ids.jsonl\n");
        return 1;
    }
    static char line[1 << 16];
    static uint16_t ids[MAX_TOK];
    static int32_t pos[MAX_TOK], target[MAX_TOK], best[MAX_TOK];
    static float weight[MAX_TOK], ce[MAX_TOK];
    memset(target, 0xff, sizeof target);
    for (int i = 0; i < MAX_TOK; i++) pos[i] = i;
    while (fgets(line, sizeof line, stdin)) {
        int len = parse(line, n.dims.n_vocab, ids), start[2] = {0, len};
        if (len < 1) continue;
        net_batch b = {len, 1, start, ids, pos, target, weight, ce, best};
        net_forward(&n, w, &b, k);
        const float *z = net_logits(k) + (size_t)(len - 1) * (size_t)n.dims.n_vocab;
        printf("{\"n\":%d,\"argmax\":%d,\"logits\":[", len, (int)best[len - 1]);
        for (int i = 0; i < n.dims.n_vocab; i++) printf(i ? ",%.6g" : "%.6g", (double)z[i]);
        puts("]}");
    }
    net_work_free(k), net_free(&n), free(w);
    return 0;
}
