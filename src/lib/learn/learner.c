#include "learn/learner.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "learn/pass.h"

enum { TOKENS_A_BATCH = 1536 };
static const uint64_t bytes_by_default = (uint64_t)512 << 20;

struct kt__learner {
    kt__learn_on on;
    const kt__sample *samples;
    size_t n_samples;
    bool (*go_on)(void *user);
    void *go_on_user;
    kt__pass *pass;
    kt__losses *losses;
    int n_tok_max, len_max;
    size_t ld;    /* floats of a hidden state */
    float **base; /* [n_samples] hidden states of the base, or NULL */
    /* a batch */
    int32_t *ids, *out_rows;
    int *at;
    kt__loss_row *rows;
    float *base_rows, *d_hidden;
    int n_shared, n_tok, n_seq, n_out, n_kl;
};

int kt__sample_n_masked(const kt__sample *s) {
    int n = 0;
    for (int t = 1; t < s->n; t++) n += s->mask[t] != 0;
    return n;
}

/* As many tokens a batch as memory allows, and the longest sample. */
static kt__pass_params choose_size(const kt__learn_on *on, const kt__sample *samples, size_t n,
                                   const kt__learn_settings *s) {
    int longest = 2;
    for (size_t i = 0; i < n; i++)
        if (samples[i].n > longest) longest = samples[i].n;
    kt__pass_params p = {.n_tok_max = TOKENS_A_BATCH,
                         .len_max = longest + KT__WRITTEN_MAX,
                         .rank_max = s->rank,
                         .bytes_max = s->bytes_max ? s->bytes_max : bytes_by_default,
                         .bytes_keep = s->bytes_keep,
                         .go_on = s->go_on,
                         .go_on_user = s->go_on_user};
    while (p.n_tok_max / 2 > p.len_max && kt__pass_bytes(on->net, on->kernels, &p) > p.bytes_max)
        p.n_tok_max /= 2;
    if (p.n_tok_max < p.len_max) p.n_tok_max = p.len_max;
    return p;
}

static kt_status take_batch(kt__learner *l, kt_error *err) {
    size_t n = (size_t)l->n_tok_max, row_bytes = l->ld * sizeof(float);
    l->ids = kt__calloc(n, sizeof *l->ids);
    l->out_rows = kt__calloc(n, sizeof *l->out_rows);
    l->at = kt__calloc(n + 1, sizeof *l->at);
    l->rows = kt__calloc(n, sizeof *l->rows);
    l->base_rows = kt__aligned_alloc(64, n * row_bytes);
    l->d_hidden = kt__aligned_alloc(64, n * row_bytes);
    l->base = kt__calloc(l->n_samples + 1, sizeof *l->base);
    if (!l->ids || !l->out_rows || !l->at || !l->rows || !l->base_rows || !l->d_hidden || !l->base)
        return kt__fail_nomem(err, "a training's batch", 2 * n * row_bytes);
    memset(l->base_rows, 0, n * row_bytes);
    memset(l->d_hidden, 0, n * row_bytes);
    return KT_OK;
}

kt_status kt__learner_create(const kt__learn_on *on, const kt__sample *samples, size_t n,
                             const kt__learn_settings *settings, kt__learner **out, kt_error *err) {
    kt_status status;
    *out = NULL;
    kt__learner *l = kt__calloc(1, sizeof *l);
    if (!l) return kt__fail_nomem(err, "a training", sizeof *l);
    kt__pass_params params = choose_size(on, samples, n, settings);
    *l = (kt__learner){.on = *on,
                       .samples = samples,
                       .n_samples = n,
                       .go_on = settings->go_on,
                       .go_on_user = settings->go_on_user,
                       .n_tok_max = params.n_tok_max,
                       .len_max = params.len_max,
                       .ld = kt__pad(on->net->hp.d_model)};
    KT__TRY(take_batch(l, err));
    KT__TRY(kt__pass_create(on->net, on->pool, on->kernels, &params, &l->pass, err));
    KT__TRY(kt__losses_create(on->net, kt__pass_panels(l->pass), l->n_tok_max, &l->losses, err));
    *out = l;
    l = NULL;
out:
    kt__learner_destroy(l);
    return status;
}

void kt__learner_destroy(kt__learner *l) {
    if (!l) return;
    for (size_t i = 0; l->base && i < l->n_samples; i++) kt__free(l->base[i]);
    kt__free(l->base);
    kt__free(l->ids);
    kt__free(l->out_rows);
    kt__free(l->at);
    kt__free(l->rows);
    kt__free(l->base_rows);
    kt__free(l->d_hidden);
    kt__losses_destroy(l->losses);
    kt__pass_destroy(l->pass);
    kt__free(l);
}

/* ---- batches ---- */

static kt_status check_cancel(const kt__learner *l, kt_error *err) {
    if (!l->go_on || l->go_on(l->go_on_user)) return KT_OK;
    return kt__fail(err, KT_E_CANCELLED, "the training was cancelled");
}

/* The first n_shared tokens are those of every sample that will be added. */
static void begin_batch(kt__learner *l, const kt__sample *first, int n_shared) {
    l->n_seq = l->n_out = l->n_kl = 0;
    l->n_shared = l->n_tok = l->at[0] = n_shared;
    memcpy(l->ids, first->ids, (size_t)n_shared * sizeof *l->ids);
}

/* kl: its tokens are compared with the base's. */
static void add_sample(kt__learner *l, size_t index, float weight, bool kl) {
    const kt__sample *s = &l->samples[index];
    kt__loss_kind kind = kl                           ? KT__LOSS_KL
                         : s->kind == KT__SAMPLE_DOWN ? KT__LOSS_UNLIKE
                                                      : KT__LOSS_LIKE;
    int first = l->n_out, begin = l->n_tok - l->n_shared; /* where its first token would be */
    int n_own = s->n - l->n_shared;
    memcpy(l->ids + l->n_tok, s->ids + l->n_shared, (size_t)n_own * sizeof *l->ids);
    for (int t = 1; t < s->n; t++) {
        if (!s->mask[t]) continue;
        l->out_rows[l->n_out] = begin + t - 1;
        l->rows[l->n_out++] = (kt__loss_row){.target = s->ids[t], .kind = kind, .weight = weight};
    }
    l->n_tok += n_own;
    l->at[++l->n_seq] = l->n_tok;
    if (!kl) return;
    size_t n = (size_t)(l->n_out - first);
    if (l->base[index])
        memcpy(l->base_rows + (size_t)l->n_kl * l->ld, l->base[index], n * l->ld * sizeof(float));
    l->n_kl += (int)n;
}

static const float *run_forward(kt__learner *l, const kt__factors *factors, kt__pass_batch *batch) {
    *batch = (kt__pass_batch){l->n_tok, l->ids, l->n_seq, l->at, l->n_out, l->out_rows};
    return kt__pass_forward(l->pass, factors, batch);
}

/* How many of the first tokens, all but the last one ahead of what is predicted, are another sample's; at most
 * `most`. */
static int count_alike(const kt__sample *s, const kt__sample *other, int most) {
    int n = 0;
    while (n < most && n + 1 < s->n && !s->mask[n + 1] && s->ids[n] == other->ids[n]) n++;
    return n;
}

/* Begins a batch: how many of n samples fit into it, at least one. What they all begin with is computed once. They are
 * list[open[i]], or without open list[i]; rows_of: how many tokens are computed of one. */
static size_t begin_fitting(kt__learner *l, const size_t *list, const size_t *open, size_t n,
                            int (*rows_of)(const kt__sample *s)) {
    const kt__sample *first = &l->samples[list[open ? open[0] : 0]];
    int n_shared = count_alike(first, first, first->n), n_tok = rows_of(first);
    size_t end = 1;
    for (; end < n; end++) {
        const kt__sample *s = &l->samples[list[open ? open[end] : end]];
        int alike = count_alike(s, first, n_shared);
        n_tok += rows_of(s);
        if (n_tok - (int)end * alike > l->n_tok_max) break;
        n_shared = alike;
    }
    begin_batch(l, first, end > 1 ? n_shared : 0);
    return end;
}

static int sample_rows(const kt__sample *s) {
    return s->n;
}

static void keep_rows(kt__learner *l, const size_t *list, size_t n, const float *hidden,
                      kt_status *status, kt_error *err) {
    size_t row = 0;
    for (size_t i = 0; i < n; i++) {
        size_t count = (size_t)kt__sample_n_masked(&l->samples[list[i]]);
        size_t bytes = count * l->ld * sizeof(float);
        float *to = l->base[list[i]];
        if (!to) to = l->base[list[i]] = kt__malloc(bytes);
        if (!to) {
            *status = kt__fail_nomem(err, "the base's states", bytes);
            return;
        }
        memcpy(to, hidden + row * l->ld, bytes);
        row += count;
    }
}

kt_status kt__learner_keep_base(kt__learner *l, const size_t *list, size_t n, kt_error *err) {
    kt_status status = KT_OK;
    for (size_t i = 0, m; status == KT_OK && i < n; i += m) {
        kt__pass_batch batch;
        m = begin_fitting(l, list + i, NULL, n - i, sample_rows);
        for (size_t k = i; k < i + m; k++) add_sample(l, list[k], 0.0f, false);
        const float *hidden = run_forward(l, NULL, &batch);
        status = check_cancel(l, err);
        if (status == KT_OK) keep_rows(l, list + i, m, hidden, &status, err);
    }
    return status;
}

static void add_scores(const kt__learner *l, const size_t *list, size_t n,
                       kt__sample_score *scores) {
    const kt__loss_row *row = l->rows;
    for (size_t i = 0; i < n; i++) {
        kt__sample_score *s = &scores[i];
        *s = (kt__sample_score){.n_tok = kt__sample_n_masked(&l->samples[list[i]]),
                                .recalled = true};
        for (int t = 0; t < s->n_tok; t++, row++) {
            s->loss += (double)row->loss;
            s->recalled &= row->hit;
        }
    }
}

kt_status kt__learner_score(kt__learner *l, const kt__factors *factors, const size_t *list,
                            size_t n, kt__sample_score *scores, kt_error *err) {
    for (size_t i = 0, m; i < n; i += m) {
        kt__pass_batch batch;
        m = begin_fitting(l, list + i, NULL, n - i, sample_rows);
        for (size_t k = i; k < i + m; k++) add_sample(l, list[k], 0.0f, false);
        const float *hidden = run_forward(l, factors, &batch);
        kt__losses_run(l->losses, hidden, NULL, l->n_out, 0, l->rows, NULL);
        kt_status status = check_cancel(l, err);
        if (status != KT_OK) return status;
        add_scores(l, list + i, m, scores + i);
    }
    return KT_OK;
}

/* Of samples whose base states are kept, as many as fit. */
static kt_status add_divergence(kt__learner *l, const kt__factors *factors, const size_t *list,
                                size_t n, size_t *n_done, double *kl, kt_error *err) {
    kt__pass_batch batch;
    *n_done = begin_fitting(l, list, NULL, n, sample_rows);
    for (size_t k = 0; k < *n_done; k++) add_sample(l, list[k], 0.0f, true);
    const float *hidden = run_forward(l, factors, &batch);
    kt__losses_run(l->losses, hidden, l->base_rows, l->n_out, l->n_kl, l->rows, NULL);
    for (int r = 0; r < l->n_out; r++) *kl += (double)l->rows[r].loss;
    return check_cancel(l, err);
}

kt_status kt__learner_diverge(kt__learner *l, const kt__factors *factors, const size_t *list,
                              size_t n, double *kl, int *n_tok, kt_error *err) {
    *kl = 0.0;
    *n_tok = 0;
    for (size_t i = 0; i < n; i++) {
        if (!l->base[list[i]]) KT__STEP(kt__learner_keep_base(l, &list[i], 1, err));
        *n_tok += kt__sample_n_masked(&l->samples[list[i]]);
    }
    for (size_t i = 0, m; factors && i < n; i += m)
        KT__STEP(add_divergence(l, factors, list + i, n - i, &m, kl, err));
    return KT_OK;
}

int kt__learner_len_max(const kt__learner *l) {
    return l->len_max;
}

kt_status kt__learner_score_others(kt__learner *l, const kt__factors *factors,
                                   const kt__sample *others, size_t n, kt__sample_score *scores,
                                   kt_error *err) {
    const kt__sample *own = l->samples;
    kt_status status = KT_OK;
    l->samples = others;
    for (size_t i = 0; status == KT_OK && i < n; i++)
        status = kt__learner_score(l, factors, &i, 1, &scores[i], err);
    l->samples = own;
    return status;
}

kt_status kt__learner_step(kt__learner *l, const kt__factors *factors, const size_t *list,
                           const float *weights, size_t n, float *grads, double *loss,
                           kt_error *err) {
    *loss = 0.0;
    for (size_t i = 0, m; i < n; i += m) {
        kt__pass_batch batch;
        m = begin_fitting(l, list + i, NULL, n - i, sample_rows);
        for (size_t k = i; k < i + m; k++)
            add_sample(l, list[k], weights[k], kt__sample_is_kept(&l->samples[list[k]]));
        const float *hidden = run_forward(l, factors, &batch);
        kt__losses_run(l->losses, hidden, l->base_rows, l->n_out, l->n_kl, l->rows, l->d_hidden);
        kt__pass_backward(l->pass, factors, &batch, l->d_hidden, grads);
        kt_status status = check_cancel(l, err);
        if (status != KT_OK) return status;
        for (int r = 0; r < l->n_out; r++)
            *loss += (double)l->rows[r].weight * (double)l->rows[r].loss;
    }
    return KT_OK;
}

/* ---- writing ----
 *
 * Without a store of keys and values every pass computes whole sequences; so all of an answer is
 * guessed at once, each pass replaces every guess by the likeliest token after those before it, and
 * what no longer changes is what would have been written token by token (Santilli et al. 2023,
 * parallel Jacobi decoding): at least one more token is right after each pass. */

static int question_length(const kt__sample *s) {
    int n = 1;
    while (n < s->n && !s->mask[n]) n++;
    return n;
}

/* The first guess: what the sample answers. */
static void guess_answer(const kt__learner *l, const kt__sample *s, kt__written *out) {
    int at = question_length(s);
    for (int i = 0; i < KT__WRITTEN_MAX; i++)
        out->ids[i] = at + i < s->n ? s->ids[at + i] : l->on.eot >= 0 ? l->on.eot : s->ids[0];
}

static void add_guess(kt__learner *l, const kt__sample *s, const kt__written *guess) {
    int n = question_length(s) - l->n_shared, first = l->n_tok + n - 1;
    memcpy(l->ids + l->n_tok, s->ids + l->n_shared, (size_t)n * sizeof *l->ids);
    memcpy(l->ids + l->n_tok + n, guess->ids, (KT__WRITTEN_MAX - 1) * sizeof *l->ids);
    for (int i = 0; i < KT__WRITTEN_MAX; i++) {
        l->out_rows[l->n_out] = first + i;
        l->rows[l->n_out++] = (kt__loss_row){.target = guess->ids[i], .kind = KT__LOSS_LIKE};
    }
    l->n_tok += n + KT__WRITTEN_MAX - 1;
    l->at[++l->n_seq] = l->n_tok;
}

/* Takes the likeliest tokens; true where the answer is what they were guessed to be. */
static bool take_guess(const kt__learner *l, const kt__loss_row *rows, kt__written *guess) {
    bool same = true;
    guess->n = KT__WRITTEN_MAX;
    for (int i = 0; i < KT__WRITTEN_MAX; i++) {
        if (i < guess->n) same &= rows[i].hit;
        guess->ids[i] = rows[i].best;
        if (rows[i].best == l->on.eot && guess->n == KT__WRITTEN_MAX) guess->n = i;
        if (i == guess->n) same &= rows[i].hit;
    }
    return same;
}

static int guess_rows(const kt__sample *s) {
    return question_length(s) + KT__WRITTEN_MAX - 1;
}

/* One pass over as many of the samples open[0..n) as fit, whose guesses are out[open[i]]; *n_open of these *n_done
 * continue, and are the first of open. */
static kt_status guess_again(kt__learner *l, const kt__factors *factors, const size_t *list,
                             size_t *open, size_t n, kt__written *out, size_t *n_done,
                             size_t *n_open, kt_error *err) {
    kt__pass_batch batch;
    *n_done = begin_fitting(l, list, open, n, guess_rows);
    *n_open = 0;
    for (size_t i = 0; i < *n_done; i++) add_guess(l, &l->samples[list[open[i]]], &out[open[i]]);
    const float *hidden = run_forward(l, factors, &batch);
    kt__losses_run(l->losses, hidden, NULL, l->n_out, 0, l->rows, NULL);
    KT__STEP(check_cancel(l, err));
    for (size_t i = 0; i < *n_done; i++) {
        size_t k = open[i];
        if (!take_guess(l, l->rows + i * KT__WRITTEN_MAX, &out[k])) open[(*n_open)++] = k;
    }
    return KT_OK;
}

kt_status kt__learner_write(kt__learner *l, const kt__factors *factors, const size_t *list,
                            size_t n, kt__written *out, kt_error *err) {
    size_t *open = kt__calloc(n + 1, sizeof *open), n_open = n;
    kt_status status = KT_OK;
    if (!open) return kt__fail_nomem(err, "answers", n * sizeof *open);
    for (size_t i = 0; i < n; i++) {
        guess_answer(l, &l->samples[list[i]], &out[i]);
        open[i] = i;
    }
    for (int pass = 0; pass <= KT__WRITTEN_MAX && n_open > 0; pass++) {
        size_t left = 0;
        for (size_t i = 0, m; status == KT_OK && i < n_open; i += m) {
            /* those that continue move to the front, after which nothing is read again */
            size_t more = 0;
            status = guess_again(l, factors, list, open + i, n_open - i, out, &m, &more, err);
            memmove(open + left, open + i, more * sizeof *open);
            left += more;
        }
        if (status != KT_OK) break;
        n_open = left;
    }
    kt__free(open);
    return status;
}
