/* Schemas with texts (MaskBench's form, and the JSON Schema Test Suite's) over a real vocabulary: verdicts,
 * and what compiling, masks and memory cost, as a table for docs/BENCHMARKS.md. All times are processor
 * time of this thread: bench_engine_schemas VOCAB.gguf CASES.jsonl [SLOWEST.tsv] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kentang.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "calls/tools_impl.h"
#include "grammar/grammar.h"
#include "grammar/mask.h"

enum { MAX_TEXT = 4 << 20, MAX_FORCED = 256 };

typedef struct series {
    double *us;
    size_t n, cap;
} series;

typedef struct bench {
    const kt_model *model;
    kt__gvocab *vocab;
    uint64_t *bits;
    char token[8192];
    series compile, first, masks, used;
    uint64_t n_schemas, n_pass, n_refused, n_over, n_under, n_failed, n_disagree;
    uint64_t n_texts_over, n_texts_under, n_texts;
    uint64_t n_written, n_forced; /* tokens of compact valid texts */
    double slowest;               /* mask of a schema */
    FILE *slow;
} bench;

static double cpu_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void add_us(series *s, double us) {
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 4096;
        s->us = realloc(s->us, s->cap * sizeof *s->us);
        if (!s->us) abort();
    }
    s->us[s->n++] = us;
}

/* ---- one text ---- */

static const char *token_bytes(void *ctx, int32_t id, size_t *len) {
    bench *b = ctx;
    const int32_t twice[2] = {id, id}; /* the first token of a text may lose a prefix space */
    size_t all = 0;
    *len = 0;
    if (kt_token_is_eog(b->model, id)) return b->token;
    if (kt_detokenize(b->model, twice, 2, 0, b->token, sizeof b->token, &all, NULL) != KT_OK)
        return b->token;
    *len = all - all / 2;
    return b->token + all / 2;
}

static int32_t *tokens_of(bench *b, const char *text, size_t len, size_t *n) {
    int32_t *ids = malloc((len + 8) * sizeof *ids);
    if (!ids || kt_tokenize(b->model, text, len, 0, ids, len + 8, n, NULL) != KT_OK) abort();
    return ids;
}

/* The verdict is of the text's own bytes: a tokenizer may normalise it. */
static bool takes_bytes(kt__grammar *g, const char *text, size_t len) {
    kt__gstate s;
    kt__grammar_start(g, &s);
    return kt__grammar_feed(g, &s, text, &len) && kt__grammar_accepts(g, &s);
}

/* Token by token, each behind its mask. */
static void time_tokens(bench *b, kt__grammar *g, const char *text, size_t len) {
    kt__gstate s;
    size_t n = 0;
    bool fits = true;
    int32_t *ids = tokens_of(b, text, len, &n);
    kt__grammar_start(g, &s);
    for (size_t i = 0; i < n && fits; i++) {
        size_t bytes;
        double begin = cpu_us();
        if (kt__gmask_fill(g, &s, b->bits, NULL) != KT_OK) break;
        double us = cpu_us() - begin;
        add_us(&b->masks, us);
        if (us > b->slowest) b->slowest = us;
        bool allowed = b->bits[ids[i] / 64] >> ids[i] % 64 & 1;
        const char *spelled = kt__gvocab_token(b->vocab, ids[i], &bytes);
        fits = kt__grammar_feed(g, &s, spelled, &bytes);
        b->n_disagree += fits != allowed;
    }
    free(ids);
}

/* Of a compact text: how many of its tokens the constraint leaves no choice about. false: it is not
 * one of this constraint's. */
static bool count_forced(bench *b, kt__grammar *g, const char *text, size_t len) {
    char forced[MAX_FORCED];
    kt__gstate s;
    size_t n = 0, n_forced = 0, i = 0;
    bool fits = true;
    int32_t *ids = tokens_of(b, text, len, &n);
    kt__grammar_start(g, &s);
    for (; i < n && fits; i++) {
        size_t bytes, m = kt__grammar_expected(g, &s, forced, sizeof forced);
        const char *spelled = kt__gvocab_token(b->vocab, ids[i], &bytes);
        n_forced += bytes > 0 && bytes <= m && !memcmp(spelled, forced, bytes);
        fits = kt__grammar_feed(g, &s, spelled, &bytes);
    }
    fits = fits && kt__grammar_accepts(g, &s);
    if (fits) b->n_written += n;
    if (fits) b->n_forced += n_forced;
    free(ids);
    return fits;
}

static void write_compact(kt__buf *out, const kt__json_node *v) {
    if (v->type != KT__JSON_ARRAY && v->type != KT__JSON_OBJECT) {
        kt__jnode_write(out, v);
        return;
    }
    (void)kt__buf_putc(out, v->type == KT__JSON_ARRAY ? '[' : '{');
    for (const kt__json_node *kid = v->first; kid; kid = kid->next) {
        if (kid != v->first) (void)kt__buf_putc(out, ',');
        if (v->type == KT__JSON_OBJECT) {
            (void)kt__json_string(out, kid->key, kid->key_len, KT__JSON_PLAIN);
            (void)kt__buf_putc(out, ':');
        }
        write_compact(out, kid);
    }
    (void)kt__buf_putc(out, v->type == KT__JSON_ARRAY ? ']' : '}');
}

static void see_forced(bench *b, const kt__buf *schema, const kt__json_node *text,
                       kt__arena *arena) {
    kt__json_node *v;
    kt__buf compact;
    bool done = false;
    if (kt__jdoc_parse(arena, text->s, text->n, &v, NULL) != KT_OK) return;
    kt__buf_init(&compact, MAX_TEXT);
    write_compact(&compact, v);
    for (int ordered = 1; ordered >= 0 && !done && !compact.failed; ordered--) {
        const kt__grammar_source source = {.kind = KT__GRAMMAR_SCHEMA,
                                           .text = schema->data,
                                           .len = schema->len,
                                           .layout = KT__LAYOUT_NONE,
                                           .ordered = ordered};
        kt__grammar *g;
        if (kt__grammar_create(&source, &g, NULL, NULL) != KT_OK) continue;
        done = count_forced(b, g, compact.data, compact.len);
        kt__grammar_free(g);
    }
    kt__buf_free(&compact);
}

/* ---- one schema ---- */

static const kt__json_node *member(const kt__json_node *v, const char *name) {
    return kt__jdoc_member(v, name, strlen(name));
}

/* The first mask is of a new constraint, its compilation with it. */
static kt_status time_first(bench *b, const kt__grammar_source *source, kt__grammar **out) {
    kt__gstate s;
    double begin = cpu_us();
    kt_status status = kt__grammar_create(source, out, NULL, NULL);
    double compiled = cpu_us();
    if (status == KT_OK) status = kt__gmask_attach(*out, b->vocab, NULL);
    if (status != KT_OK) return status;
    kt__grammar_start(*out, &s);
    status = kt__gmask_fill(*out, &s, b->bits, NULL);
    add_us(&b->compile, compiled - begin);
    add_us(&b->first, cpu_us() - begin);
    return status;
}

static void check_texts(bench *b, const kt__json_node *tests, kt__grammar *g, const kt__buf *schema,
                        kt__arena *arena) {
    uint64_t over = 0, under = 0;
    for (const kt__json_node *t = tests->first; t; t = t->next) {
        const kt__json_node *text = member(t, "text");
        bool valid = member(t, "valid")->type == KT__JSON_TRUE;
        time_tokens(b, g, text->s, text->n);
        bool taken = takes_bytes(g, text->s, text->n);
        b->n_texts++;
        over += valid && !taken;
        under += !valid && taken;
        if (valid && taken) see_forced(b, schema, text, arena);
    }
    b->n_texts_over += over;
    b->n_texts_under += under;
    if (kt__grammar_status(g) != KT_OK)
        b->n_failed++;
    else if (under)
        b->n_under++;
    else if (over)
        b->n_over++;
    else
        b->n_pass++;
}

static void check_case(bench *b, const kt__json_node *c, kt__arena *arena) {
    kt__buf schema;
    kt__grammar *g = NULL;
    const kt__json_node *id = member(c, "id") ? member(c, "id") : member(c, "group");
    kt__buf_init(&schema, MAX_TEXT);
    kt__jnode_write(&schema, member(c, "schema"));
    const kt__grammar_source source = {.kind = KT__GRAMMAR_SCHEMA,
                                       .text = schema.data,
                                       .len = schema.len,
                                       .layout = KT__LAYOUT_ANY};
    b->n_schemas++;
    b->slowest = 0;
    size_t from = b->masks.n;
    if (time_first(b, &source, &g) == KT_OK) {
        check_texts(b, member(c, "tests"), g, &schema, arena);
        add_us(&b->used, (double)kt__grammar_bytes_used(g));
        if (b->slow)
            fprintf(b->slow, "%.0f\t%.0f\t%zu\t%.2f\t%.*s\n", b->slowest,
                    b->first.us[b->first.n - 1], b->masks.n - from,
                    (double)kt__grammar_bytes_used(g) / 1e6, (int)id->n, id->s);
    } else {
        b->n_refused++;
    }
    kt__grammar_free(g);
    kt__buf_free(&schema);
}

/* ---- the table ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at_share(series *s, double share) {
    if (!s->n) return 0;
    size_t i = (size_t)((double)s->n * share);
    return s->us[i < s->n ? i : s->n - 1];
}

static void print_series(const char *name, series *s, double unit) {
    qsort(s->us, s->n, sizeof *s->us, by_value);
    printf("| %s | %.1f | %.1f | %.1f | %.1f | %.1f |\n", name, at_share(s, 0.5) / unit,
           at_share(s, 0.9) / unit, at_share(s, 0.99) / unit, at_share(s, 0.999) / unit,
           at_share(s, 1) / unit);
}

static void print_table(bench *b) {
    double all = (double)b->n_schemas / 100;
    printf("%llu schemas with %llu texts: %llu pass (%.1f%%), %llu refused (%.1f%%), %llu refuse a "
           "valid "
           "text, %llu accept an invalid one, %llu ran out of memory or steps; %llu and %llu such "
           "texts; masks and bytes disagree %llu times\n\n",
           (unsigned long long)b->n_schemas, (unsigned long long)b->n_texts,
           (unsigned long long)b->n_pass, (double)b->n_pass / all, (unsigned long long)b->n_refused,
           (double)b->n_refused / all, (unsigned long long)b->n_over,
           (unsigned long long)b->n_under, (unsigned long long)b->n_failed,
           (unsigned long long)b->n_texts_over, (unsigned long long)b->n_texts_under,
           (unsigned long long)b->n_disagree);
    printf("| processor time | p50 | p90 | p99 | p99.9 | worst |\n|---|--:|--:|--:|--:|--:|\n");
    print_series("a mask, us", &b->masks, 1);
    print_series("compiling, us", &b->compile, 1);
    print_series("compiling and the first mask, us", &b->first, 1);
    print_series("memory written by a schema and its texts, kB", &b->used, 1e3);
    printf("\n%zu masks; %llu of %llu tokens (%.1f%%) of compact valid texts are forced\n",
           b->masks.n, (unsigned long long)b->n_forced, (unsigned long long)b->n_written,
           100 * (double)b->n_forced / (double)(b->n_written ? b->n_written : 1));
}

static void run_cases(bench *b, FILE *in) {
    char *line = NULL;
    size_t cap = 0;
    ssize_t len;
    while ((len = getline(&line, &cap, in)) > 0) {
        kt__arena arena;
        kt__json_node *c;
        kt_error err;
        kt__arena_init(&arena, 64 << 10, 256 << 20);
        if (kt__jdoc_parse(&arena, line, (size_t)len, &c, &err) == KT_OK)
            check_case(b, c, &arena);
        else
            fprintf(stderr, "a line is left out: %s\n", err.message);
        kt__arena_free(&arena);
    }
    free(line);
}

int main(int argc, char **argv) {
    static bench b;
    kt_ctx_params params = kt_ctx_params_default();
    kt_model_params m = kt_model_params_default();
    kt_model_info info;
    kt_ctx *ctx;
    kt_model *model;
    kt_error err;
    FILE *in = argc > 2 ? fopen(argv[2], "r") : NULL;
    if (!in) {
        fprintf(stderr, "usage: bench_engine_schemas VOCAB.gguf CASES.jsonl [SLOWEST.tsv]\n");
        return 2;
    }
    params.n_threads = 1;
    m.vocab_only = true;
    if (kt_ctx_open(&params, &ctx, &err) != KT_OK ||
        kt_model_open(ctx, argv[1], &m, &model, &err) != KT_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    kt_model_get_info(model, &info);
    b.model = model;
    b.slow = argc > 3 ? fopen(argv[3], "w") : NULL;
    const kt__gvocab_source source = {token_bytes, &b, info.n_vocab};
    if (kt__gvocab_create(&source, &b.vocab, &err) != KT_OK) return 1;
    b.bits = calloc(b.vocab->n_words, sizeof *b.bits);
    printf("%d tokens. ", (int)info.n_vocab);
    run_cases(&b, in);
    print_table(&b);
    if (b.slow) fclose(b.slow);
    fclose(in);
    return b.n_texts_under || b.n_disagree ? 1 : 0;
}
