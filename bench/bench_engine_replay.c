/* Speculation on a given answer: what n-gram proposals bring on real text, without a model that
 * writes it. By hand:
 *
 *     bench_engine_replay MODEL PROMPT ANSWER [N_DRAFT]
 *
 * PROMPT and ANSWER are text files. The answer is computed twice, token by token and with proposals
 * that are verified in one step, each on a sequence of its own and by turns, so that a slow minute
 * strikes both. The model does the whole work of every step; only which token comes next is read
 * from ANSWER instead of drawn. bench/speculation makes the texts and the table. One JSON line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer/spec.h"
#include "base/clock.h"
#include "kentang.h"

enum { MOST_TOKENS = 8192, MOST_DRAFT = 16 };

static void check(kt_status status, const kt_error *err) {
    if (status == KT_OK) return;
    fprintf(stderr, "bench_engine_replay: %s\n", err->message);
    exit(1);
}

/* Appends the file's tokens to ids[*n]. */
static void read_tokens(const kt_model *model, const char *path, int32_t *ids, size_t *n) {
    static char text[1 << 18];
    kt_error err;
    FILE *in = fopen(path, "rb");
    if (!in) {
        fprintf(stderr, "bench_engine_replay: cannot read %s\n", path);
        exit(1);
    }
    size_t len = fread(text, 1, sizeof text, in), count = 0;
    fclose(in);
    check(kt_tokenize(model, text, len, 0, ids + *n, MOST_TOKENS - *n, &count, &err), &err);
    *n += count;
}

/* One side of the comparison. */
typedef struct side {
    kt_engine *engine;
    kt_seq *seq;
    float *logits; /* [1 + MOST_DRAFT][n_vocab] */
    int64_t us;
    int n_steps;
} side;

/* Computes ids[n] after what is there. Returns the time. */
static int64_t step(side *s, const int32_t *ids, size_t n) {
    kt_error err;
    kt_eval_item item = {.seq = s->seq, .ids = ids, .n = n, .all_logits = s->logits};
    int64_t begin_us = kt__now_us();
    check(kt_engine_eval(s->engine, &item, 1, &err), &err);
    int64_t took_us = kt__now_us() - begin_us;
    s->us += took_us;
    s->n_steps++;
    return took_us;
}

/* A step with proposals for what follows text[at], as the engine makes them. Returns how many of
 * the answer's tokens are known after it. */
static int32_t step_with_proposals(side *s, kt__spec_costs *costs, kt__spec_state *state,
                                   const int32_t *text, int32_t at, int32_t end, int most) {
    int32_t ids[1 + MOST_DRAFT];
    int match, right = 0;
    double tokens = 1;
    int64_t begin_us = kt__now_us();
    if (most > end - at - 1) most = end - at - 1;
    int n = kt__spec_lookup(text, at + 1, most, ids + 1, &match);
    if (n > 0) n = kt__spec_choose(costs, state, match, n, 1, &tokens);
    s->us += kt__now_us() - begin_us;
    ids[0] = text[at];
    kt__spec_measure(costs, 1 + n, step(s, ids, (size_t)n + 1));
    while (right < n && ids[1 + right] == text[at + 1 + right]) right++;
    kt__spec_learn(state, match, n, right);
    kt_error err;
    if (right < n) check(kt_seq_truncate(s->seq, (size_t)(at + 1 + right), &err), &err);
    return at + 1 + right;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: bench_engine_replay MODEL PROMPT ANSWER [N_DRAFT]\n");
        return 2;
    }
    static int32_t text[MOST_TOKENS];
    static kt__spec_costs costs;
    kt__spec_state state;
    kt_error err;
    kt_ctx *ctx;
    kt_model *model;
    kt_model_info info;
    side plain = {0}, with = {0};
    int most = argc > 4 ? atoi(argv[4]) : 8;
    if (most < 1 || most > MOST_DRAFT) return 2;
    check(kt_ctx_open(NULL, &ctx, &err), &err);
    check(kt_model_open(ctx, argv[1], NULL, &model, &err), &err);
    kt_model_get_info(model, &info);
    size_t n_prompt = 0;
    read_tokens(model, argv[2], text, &n_prompt);
    size_t n_all = n_prompt;
    read_tokens(model, argv[3], text, &n_all);
    kt_engine_params ep = {.n_ctx = (int32_t)(2 * n_all + 64)};
    kt_engine *engine;
    check(kt_engine_open(model, &ep, &engine, &err), &err);
    check(kt_seq_open(engine, &plain.seq, &err), &err);
    check(kt_seq_eval(plain.seq, text, n_prompt - 1, &err), &err);
    check(kt_seq_copy(plain.seq, &with.seq, &err), &err);
    plain.engine = with.engine = engine;
    plain.logits = malloc((size_t)info.n_vocab * sizeof *plain.logits);
    with.logits = malloc((1 + MOST_DRAFT) * (size_t)info.n_vocab * sizeof *with.logits);
    if (!plain.logits || !with.logits) return 1;
    kt__spec_init(&state);
    int32_t at = (int32_t)n_prompt - 1, at_plain = at, end = (int32_t)n_all - 1;
    while (at < end) {
        at = step_with_proposals(&with, &costs, &state, text, at, end, most);
        while (at_plain < at) (void)step(&plain, text + at_plain++, 1);
    }
    double n = (double)(end - (int32_t)n_prompt + 1);
    printf("{\"prompt\": %zu, \"tokens\": %.0f, \"drafted\": %lld, \"accepted\": %lld, "
           "\"tokens_a_step\": %.2f, "
           "\"tok_s_plain\": %.2f, \"tok_s\": %.2f, \"ratio\": %.3f}\n",
           n_prompt, n, (long long)state.n_drafted, (long long)state.n_accepted, n / with.n_steps,
           n * 1e6 / (double)plain.us, n * 1e6 / (double)with.us,
           (double)plain.us / (double)with.us);
    free(plain.logits);
    free(with.logits);
    kt_seq_close(with.seq);
    kt_seq_close(plain.seq);
    kt_engine_close(engine);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return 0;
}
