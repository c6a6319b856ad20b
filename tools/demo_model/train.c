/*
 * train DATA HELDOUT OUT.f32 [--steps N] [--lr X] [--lr-embd X] [--seed N] [--layers N] ...
 *
 * Trains net.h on documents that corpus.py wrote and bpe.py encoded. Micro-batches of whole
 * documents go to an OpenMP team, each with its own gradient; sums are taken in a fixed order, so
 * a run is reproducible for a given BLAS. Prints the loss as it goes; evaluates on the held-out
 * documents and writes OUT every --eval-every steps and at the end. With --init FILE.f32 it starts
 * from a checkpoint; with --steps 0 it only evaluates. --until N stops early, at N steps of a
 * schedule of --steps, and --from N begins there (the optimiser's sums are new); --linear 1 lets
 * the rate fall in a straight line to 0 in place of the cosine. --save-every N writes OUT besides.
 * --ctx N with --joined 1 stretches the context: each micro-batch is one text of many documents,
 * some of them a second time, whose positions leave gaps up to N, so that few tokens show the model
 * all distances (Zhu et al. 2023, PoSE); --rope-base X so that distances differ.
 */
#include "net.h"
#include "optim.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void openblas_set_num_threads(int n);

enum { MAX_CAT = 32, MAX_MICRO = 16, MAX_DOC = 256 };

typedef struct {
    int len, cat;
    const uint16_t *token; /* [len] */
    const uint8_t *answer; /* [len], the loss weight where the assistant wrote it, else 0 */
} document;

typedef struct {
    int n_vocab, n_cat, n_doc;
    char cat[MAX_CAT][24];
    document *doc;
    unsigned char *bytes;
} dataset;

typedef struct {
    const char *data, *heldout, *out, *init;
    int steps, from, until, linear, warmup, eval_every, save_every, n_micro, micro_tok, seed,
        joined;
    float lr, lr_embd, decay, prompt_weight;
    net_dims dims;
} options;

typedef struct {
    net_batch b;
    int cat[MAX_DOC];
} micro;

typedef struct {
    const dataset *set;
    int *order, at;
    uint64_t rng;
} stream;

typedef struct {
    double ce;
    long n_tok, n_right, n_span, n_exact;
} tally;

static _Noreturn void die(const char *what, const char *which) {
    fprintf(stderr, "train: %s: %s\n", what, which);
    exit(1);
}

static double seconds(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* "KTDATA1\0", i32 n_vocab, n_cat, n_doc, names, then documents: u16 len, cat, token[], u8[]. */
static dataset load(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) die("cannot open", path);
    fseek(f, 0, SEEK_END);
    size_t size = (size_t)ftell(f);
    rewind(f);
    dataset s = {.bytes = malloc(size + 1)};
    if (!s.bytes || size < 20 || fread(s.bytes, 1, size, f) != size) die("cannot read", path);
    fclose(f);
    int32_t head[3];
    memcpy(head, s.bytes + 8, 12);
    if (memcmp(s.bytes, "KTDATA1", 8) || head[1] > MAX_CAT) die("is not a data file", path);
    s.n_vocab = head[0], s.n_cat = head[1], s.n_doc = head[2];
    memcpy(s.cat, s.bytes + 20, 24 * (size_t)s.n_cat);
    s.doc = calloc((size_t)s.n_doc, sizeof *s.doc);
    if (!s.doc) die("out of memory for", path);
    size_t at = 20 + 24 * (size_t)s.n_cat;
    for (int i = 0; i < s.n_doc; i++) {
        const uint16_t *h = (const uint16_t *)(const void *)(s.bytes + at);
        size_t pad = (size_t)h[0] + (h[0] & 1); /* keeps u16 alignment */
        s.doc[i] = (document){h[0], h[1], h + 2, s.bytes + at + 4 + 2 * (size_t)h[0]};
        at += 4 + 2 * (size_t)h[0] + pad;
        if (at > size) die("is cut short", path);
    }
    return s;
}

static uint64_t next_u64(uint64_t *s) { /* splitmix64 */
    uint64_t z = (*s += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static stream stream_new(const dataset *set, uint64_t seed) {
    stream s = {set, malloc(sizeof(int) * (size_t)set->n_doc), set->n_doc, seed};
    if (!s.order) die("out of memory for", "the order");
    for (int i = 0; i < set->n_doc; i++) s.order[i] = i;
    return s;
}

static const document *stream_peek(stream *s) {
    if (s->at == s->set->n_doc) {
        for (int i = s->set->n_doc - 1; i > 0; i--) {
            int j = (int)(next_u64(&s->rng) % (uint64_t)(i + 1)), t = s->order[i];
            s->order[i] = s->order[j], s->order[j] = t;
        }
        s->at = 0;
    }
    return &s->set->doc[s->order[s->at]];
}

static void micro_alloc(micro *m, int n_tok) {
    size_t n = (size_t)n_tok;
    m->b = (net_batch){0,
                       0,
                       calloc(MAX_DOC + 1, sizeof(int)),
                       calloc(n, 2),
                       calloc(n, 4),
                       calloc(n, 4),
                       calloc(n, 4),
                       calloc(n, 4),
                       calloc(n, 4)};
    net_batch *b = &m->b;
    if (!b->doc_start || !b->token || !b->pos || !b->target || !b->weight || !b->ce || !b->best)
        die("out of memory for", "a batch");
}

/* At the end, its first token at position pos. */
static void micro_put(micro *m, const document *d, int pos, float prompt_weight) {
    net_batch *b = &m->b;
    for (int i = 0; i < d->len; i++) {
        int t = b->n_tok + i, last = i + 1 == d->len;
        b->token[t] = d->token[i];
        b->pos[t] = pos + i;
        b->target[t] = last ? -1 : d->token[i + 1];
        b->weight[t] = last ? 0.0f : d->answer[i + 1] ? (float)d->answer[i + 1] : prompt_weight;
    }
    b->n_tok += d->len;
}

static void micro_add(micro *m, const document *d, float prompt_weight) {
    net_batch *b = &m->b;
    micro_put(m, d, 0, prompt_weight);
    m->cat[b->n_doc] = d->cat;
    b->doc_start[++b->n_doc] = b->n_tok;
}

static double total_weight(const micro *m) {
    double sum = 0.0;
    for (int t = 0; t < m->b.n_tok; t++) sum += (double)m->b.weight[t];
    return sum;
}

/* Fills m with the next documents that fit and returns their total weight. */
static double micro_fill(micro *m, stream *s, int max_tok, float prompt_weight) {
    m->b.n_tok = m->b.n_doc = 0;
    while (m->b.n_doc < MAX_DOC) {
        const document *d = stream_peek(s);
        if (d->len > max_tok) die("a document is longer than", "a micro-batch");
        if (m->b.n_tok + d->len > max_tok) break;
        micro_add(m, d, prompt_weight);
        s->at++;
    }
    return total_weight(m);
}

static double next_unit(uint64_t *rng) {
    return (double)(next_u64(rng) >> 11) * 0x1p-53;
}

/* Fills m with one text of the next documents, every third of them one that was there before, and
 * positions that end somewhere between max_tok and the context's end. */
static double micro_join(micro *m, stream *s, const options *o) {
    net_batch *b = &m->b;
    const document *seen[MAX_DOC];
    int n_seen = 0, pos = 0, n_ctx = o->dims.n_ctx, n_place = 0;
    double span = o->micro_tok * pow((double)n_ctx / o->micro_tok, next_unit(&s->rng));
    int slack = (int)span - o->micro_tok;
    b->n_tok = b->n_doc = 0;
    for (; n_place < MAX_DOC; n_place++) {
        int again = n_seen > 0 && next_unit(&s->rng) < 1.0 / 3.0;
        const document *d = again ? seen[next_u64(&s->rng) % (uint64_t)n_seen] : stream_peek(s);
        if (b->n_tok + d->len > o->micro_tok) break;
        if (next_unit(&s->rng) < 0.2) { /* a gap */
            int gap = (int)(next_unit(&s->rng) * slack);
            slack -= gap, pos += gap;
        }
        micro_put(m, d, pos, o->prompt_weight);
        pos += d->len;
        if (!again) seen[n_seen++] = d, s->at++;
    }
    m->cat[0] = 0;
    b->doc_start[++b->n_doc] = b->n_tok;
    return total_weight(m);
}

static float schedule(const options *o, int step) {
    if (step < o->warmup) return (float)(step + 1) / (float)o->warmup;
    float p = (float)(step - o->warmup) / (float)(o->steps - o->warmup);
    return o->linear ? 1.0f - p : 0.02f + 0.98f * 0.5f * (1.0f + cosf(3.14159265f * p));
}

/* Adds one document's answers to a tally: tokens, and spans that argmax reproduces whole. */
static void count(const micro *m, int doc, tally *t) {
    const net_batch *b = &m->b;
    int in = 0, right = 1;
    for (int i = b->doc_start[doc]; i < b->doc_start[doc + 1]; i++) {
        int answer = b->weight[i] >= 1.0f;
        if (in && !answer) t->n_span++, t->n_exact += right;
        if (!in) right = 1;
        in = answer;
        if (!answer) continue;
        int hit = b->best[i] == b->target[i];
        t->ce += (double)b->ce[i];
        t->n_tok++, t->n_right += hit;
        right = right && hit;
    }
    if (in) t->n_span++, t->n_exact += right;
}

static void print_tally(const char *name, const tally *t) {
    if (!t->n_tok) return;
    printf("  %-14s ppl %8.4f  tokens right %6.2f%%  answers whole %5ld/%-5ld (%.1f%%)\n", name,
           exp(t->ce / (double)t->n_tok), 100.0 * (double)t->n_right / (double)t->n_tok, t->n_exact,
           t->n_span, 100.0 * (double)t->n_exact / (double)t->n_span);
}

static void evaluate(const options *o, const net *n, const float *w, const dataset *set, micro *m,
                     net_work **work, int n_work) {
    tally all = {0}, cat[MAX_CAT] = {{0}};
    stream s = stream_new(set, 1);
    s.at = 0;
    for (int more = 1; more;) {
        int n_m = 0;
        for (; n_m < n_work && s.at < set->n_doc; n_m++) {
            m[n_m].b.n_tok = m[n_m].b.n_doc = 0;
            while (s.at < set->n_doc && m[n_m].b.n_doc < MAX_DOC &&
                   m[n_m].b.n_tok + set->doc[s.at].len <= o->micro_tok)
                micro_add(&m[n_m], &set->doc[s.at++], 0.0f);
        }
#pragma omp parallel for schedule(dynamic, 1)
        for (int i = 0; i < n_m; i++) net_forward(n, w, &m[i].b, work[omp_get_thread_num()]);
        for (int i = 0; i < n_m; i++)
            for (int d = 0; d < m[i].b.n_doc; d++) count(&m[i], d, &cat[m[i].cat[d]]);
        more = s.at < set->n_doc;
    }
    free(s.order);
    for (int c = 0; c < set->n_cat; c++) {
        print_tally(set->cat[c], &cat[c]);
        all.ce += cat[c].ce, all.n_tok += cat[c].n_tok, all.n_right += cat[c].n_right;
        all.n_span += cat[c].n_span, all.n_exact += cat[c].n_exact;
    }
    print_tally("all", &all);
    fflush(stdout);
}

/* "KTF32\0\0\0", the dims, then the parameters in net.h's order. */
static void save(const net *n, const float *w, const char *path) {
    char tmp[512];
    snprintf(tmp, sizeof tmp, "%s.tmp", path);
    FILE *f = fopen(tmp, "wb");
    if (!f) die("cannot write", tmp);
    size_t ok = fwrite("KTF32\0\0", 8, 1, f);
    ok += fwrite(&n->dims, sizeof n->dims, 1, f);
    ok += fwrite(w, sizeof(float) * n->n_param, 1, f);
    if (fclose(f) || ok != 3 || rename(tmp, path)) die("cannot write", path);
}

/* Reads what save wrote, for the same dimensions but those of positions. */
static void restore(const net *n, float *w, const char *path) {
    char head[8];
    net_dims d;
    FILE *f = fopen(path, "rb");
    if (!f) die("cannot open", path);
    size_t ok = fread(head, 8, 1, f) + fread(&d, sizeof d, 1, f);
    d.n_ctx = n->dims.n_ctx, d.rope_base = n->dims.rope_base;
    if (ok != 2 || memcmp(head, "KTF32", 5) || memcmp(&d, &n->dims, sizeof d))
        die("has other dimensions", path);
    if (fread(w, sizeof(float) * n->n_param, 1, f) != 1) die("is cut short", path);
    fclose(f);
}

static void train(const options *o, const net *n, float *w, const dataset *set,
                  const dataset *held) {
    int team = omp_get_max_threads();
    if (team > MAX_MICRO) team = MAX_MICRO, omp_set_num_threads(team);
    net_work *work[MAX_MICRO] = {0};
    micro m[MAX_MICRO];
    float *g[MAX_MICRO];
    optim *opt = optim_new(n);
    if (!opt) die("out of memory for", "the optimiser");
    for (int i = 0; i < team; i++)
        if (!(work[i] = net_work_new(n, o->micro_tok))) die("out of memory for", "activations");
    for (int i = 0; i < o->n_micro || i < team; i++) micro_alloc(&m[i], o->micro_tok);
    for (int i = 0; i < o->n_micro; i++)
        if (!(g[i] = malloc(sizeof(float) * n->n_param))) die("out of memory for", "gradients");
    stream s = stream_new(set, (uint64_t)o->seed);
    double start = seconds(CLOCK_MONOTONIC), loss = 0.0;
    long n_tok = 0, n_loss = 0;
    for (int step = o->from; step < o->steps && step < o->until; step++) {
        double sum = 0.0;
        for (int i = 0; i < o->n_micro; i++)
            sum += o->joined ? micro_join(&m[i], &s, o)
                             : micro_fill(&m[i], &s, o->micro_tok, o->prompt_weight),
                n_tok += m[i].b.n_tok;
        float scale = (float)(1.0 / sum);
#pragma omp parallel for schedule(dynamic, 1)
        for (int i = 0; i < o->n_micro; i++) {
            net_work *k = work[omp_get_thread_num()];
            net_forward(n, w, &m[i].b, k);
            net_backward(n, w, &m[i].b, k, scale, g[i]);
        }
        double now = 0.0;
        for (int i = 0; i < o->n_micro; i++)
            for (int t = 0; t < m[i].b.n_tok; t++)
                now += (double)m[i].b.weight[t] * (double)m[i].b.ce[t];
        loss += now / sum, n_loss++;
        float lr = schedule(o, step);
        float norm = optim_step(opt, w, g, o->n_micro, lr * o->lr, lr * o->lr_embd, o->decay);
        if ((step + 1) % 50 == 0) {
            double t = seconds(CLOCK_MONOTONIC) - start;
            printf("step %5d  loss %.4f  norm %.3f  %.0f tok/s  wall %.0f s  cpu %.0f s\n",
                   step + 1, loss / (double)n_loss, (double)norm, (double)n_tok / t, t,
                   seconds(CLOCK_PROCESS_CPUTIME_ID));
            fflush(stdout);
            loss = 0.0, n_loss = 0;
        }
        if (o->save_every && (step + 1) % o->save_every == 0) save(n, w, o->out);
        if ((step + 1) % o->eval_every == 0 || step + 1 == o->steps || step + 1 == o->until) {
            save(n, w, o->out);
            evaluate(o, n, w, held, m, work, team);
        }
    }
    if (!o->steps) evaluate(o, n, w, held, m, work, team);
    printf("%ld tokens, wall %.0f s, cpu %.0f s\n", n_tok, seconds(CLOCK_MONOTONIC) - start,
           seconds(CLOCK_PROCESS_CPUTIME_ID));
}

static options parse(int argc, char **argv) {
    options o = {.steps = 4000,
                 .until = 1 << 30,
                 .warmup = 100,
                 .eval_every = 500,
                 .n_micro = 4,
                 .micro_tok = 1024,
                 .seed = 1,
                 .lr = 4e-3f,
                 .lr_embd = 4e-3f,
                 .decay = 0.05f,
                 .prompt_weight = 0.1f,
                 .dims = {0, 256, 7, 4, 2, 768, 1024, 10000.0f, 1e-5f}};
    if (argc < 4) die("usage", "train DATA HELDOUT OUT.f32 [--steps N] [--lr X] ...");
    o.data = argv[1], o.heldout = argv[2], o.out = argv[3];
    for (int i = 4; i + 1 < argc; i += 2) {
        const char *k = argv[i], *v = argv[i + 1];
        if (!strcmp(k, "--steps"))
            o.steps = atoi(v);
        else if (!strcmp(k, "--from"))
            o.from = atoi(v);
        else if (!strcmp(k, "--save-every"))
            o.save_every = atoi(v);
        else if (!strcmp(k, "--until"))
            o.until = atoi(v);
        else if (!strcmp(k, "--linear"))
            o.linear = atoi(v);
        else if (!strcmp(k, "--warmup"))
            o.warmup = atoi(v);
        else if (!strcmp(k, "--eval-every"))
            o.eval_every = atoi(v);
        else if (!strcmp(k, "--micro"))
            o.n_micro = atoi(v);
        else if (!strcmp(k, "--micro-tok"))
            o.micro_tok = atoi(v);
        else if (!strcmp(k, "--seed"))
            o.seed = atoi(v);
        else if (!strcmp(k, "--lr"))
            o.lr = (float)atof(v);
        else if (!strcmp(k, "--lr-embd"))
            o.lr_embd = (float)atof(v);
        else if (!strcmp(k, "--decay"))
            o.decay = (float)atof(v);
        else if (!strcmp(k, "--prompt-weight"))
            o.prompt_weight = (float)atof(v);
        else if (!strcmp(k, "--init"))
            o.init = v;
        else if (!strcmp(k, "--joined"))
            o.joined = atoi(v);
        else if (!strcmp(k, "--ctx"))
            o.dims.n_ctx = atoi(v);
        else if (!strcmp(k, "--rope-base"))
            o.dims.rope_base = (float)atof(v);
        else if (!strcmp(k, "--layers"))
            o.dims.n_layer = atoi(v);
        else
            die("unknown option", k);
    }
    if (o.joined && o.dims.n_ctx < o.micro_tok) die("--ctx must be at least", "--micro-tok");
    if (o.n_micro < 1 || o.n_micro > MAX_MICRO) die("--micro must be 1 to", "16");
    if (o.dims.n_layer < 1 || o.dims.n_layer > NET_MAX_LAYER) die("--layers must be 1 to", "16");
    return o;
}

int main(int argc, char **argv) {
    options o = parse(argc, argv);
    openblas_set_num_threads(1);
    dataset set = load(o.data), held = load(o.heldout);
    o.dims.n_vocab = set.n_vocab;
    net n;
    if (net_init(&n, o.dims)) die("out of memory for", "the network");
    float *w = malloc(sizeof(float) * n.n_param);
    if (!w) die("out of memory for", "the parameters");
    if (o.init)
        restore(&n, w, o.init);
    else
        net_seed(&n, w, (uint64_t)o.seed);
    printf("%zu parameters, %d documents, %d held out\n", n.n_param, set.n_doc, held.n_doc);
    train(&o, &n, w, &set, &held);
    return 0;
}
