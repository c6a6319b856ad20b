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
    bool others;  /* samples are not the ones it was made with */
    /* a batch */
    int32_t *ids, *out_rows;
    int *at;
    kt__loss_row *rows;
    float *base_rows, *d_hidden;
    int n_shared, n_tok, n_seq, n_out, n_kl;
};

int kt__sample_first_masked(const kt__sample *s) {
    int t = 1;
    while (t < s->n && !s->mask[t]) t++;
    return t;
}

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
    *batch = (kt__pass_batch){.n_tok = l->n_tok,
                              .ids = l->ids,
                              .n_seq = l->n_seq,
                              .at = l->at,
                              .n_out = l->n_out,
                              .out_rows = l->out_rows};
    return kt__pass_forward(l->pass, factors, batch);
}

/* How many of the first tokens, all but the last one ahead of what is predicted, are another sample's; at most
 * `most`. */
static int count_alike(const kt__sample *s, const kt__sample *other, int most) {
    int n = 0;
    while (n < most && n + 1 < s->n && !s->mask[n + 1] && s->ids[n] == other->ids[n]) n++;
    return n;
}

/* How many of the samples list[n] fit into `most` rows, at least one; *n_shared: what they all begin with is computed
 * once. rows_of: how many tokens are computed of one. */
static size_t count_fitting(const kt__learner *l, const size_t *list, size_t n, int most,
                            int (*rows_of)(const kt__sample *s), int *n_shared) {
    const kt__sample *first = &l->samples[list[0]];
    int n_tok = rows_of(first);
    size_t end = 1;
    *n_shared = count_alike(first, first, first->n);
    for (; end < n; end++) {
        const kt__sample *s = &l->samples[list[end]];
        int alike = count_alike(s, first, *n_shared);
        n_tok += rows_of(s);
        if (n_tok - (int)end * alike > most) break;
        *n_shared = alike;
    }
    if (end == 1) *n_shared = 0;
    return end;
}

static int sample_rows(const kt__sample *s) {
    return s->n;
}

/* Begins a batch: how many of n samples fit into it. */
static size_t begin_fitting(kt__learner *l, const size_t *list, size_t n) {
    int n_shared;
    size_t end = count_fitting(l, list, n, l->n_tok_max, sample_rows, &n_shared);
    begin_batch(l, &l->samples[list[0]], n_shared);
    return end;
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
        m = begin_fitting(l, list + i, n - i);
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

/* The base's states of the batch's samples, where they are kept. */
static bool copy_base(kt__learner *l, const size_t *list, size_t n) {
    int row = 0;
    for (size_t i = 0; i < n; i++) {
        int count = kt__sample_n_masked(&l->samples[list[i]]);
        if (l->others || !l->base[list[i]]) return false;
        memcpy(l->base_rows + (size_t)row * l->ld, l->base[list[i]],
               (size_t)count * l->ld * sizeof(float));
        row += count;
    }
    return true;
}

kt_status kt__learner_score(kt__learner *l, const kt__factors *factors, const size_t *list,
                            size_t n, kt__sample_score *scores, kt_error *err) {
    for (size_t i = 0, m; i < n; i += m) {
        kt__pass_batch batch;
        m = begin_fitting(l, list + i, n - i);
        for (size_t k = i; k < i + m; k++) add_sample(l, list[k], 0.0f, false);
        const float *hidden = !factors && copy_base(l, list + i, m)
                                  ? l->base_rows
                                  : run_forward(l, factors, &batch);
        kt__losses_run(l->losses, hidden, NULL, l->n_out, 0, l->rows, NULL);
        kt_status status = check_cancel(l, err);
        if (status != KT_OK) return status;
        add_scores(l, list + i, m, scores + i);
    }
    return KT_OK;
}

/* Of samples whose base states are kept, as many as fit; scores: theirs, or NULL. */
static kt_status add_divergence(kt__learner *l, const kt__factors *factors, const size_t *list,
                                size_t n, kt__sample_score *scores, size_t *n_done, double *kl,
                                kt_error *err) {
    kt__pass_batch batch;
    *n_done = begin_fitting(l, list, n);
    for (size_t k = 0; k < *n_done; k++) add_sample(l, list[k], 0.0f, true);
    const float *hidden = run_forward(l, factors, &batch);
    kt__losses_run(l->losses, hidden, l->base_rows, l->n_out, l->n_kl, l->rows, NULL);
    for (int r = 0; r < l->n_out; r++) {
        *kl += (double)l->rows[r].loss;
        l->rows[r].kind = KT__LOSS_LIKE;
    }
    if (scores) {
        kt__losses_run(l->losses, hidden, NULL, l->n_out, 0, l->rows, NULL);
        add_scores(l, list, *n_done, scores);
    }
    return check_cancel(l, err);
}

kt_status kt__learner_diverge(kt__learner *l, const kt__factors *factors, const size_t *list,
                              size_t n, kt__sample_score *scores, double *kl, int *n_tok,
                              kt_error *err) {
    *kl = 0.0;
    *n_tok = 0;
    for (size_t i = 0, m; i < n; i += m) {
        for (m = 0; i + m < n && !l->base[list[i + m]]; m++) continue;
        if (m)
            KT__STEP(kt__learner_keep_base(l, list + i, m, err));
        else
            m = 1;
    }
    for (size_t i = 0; i < n; i++) *n_tok += kt__sample_n_masked(&l->samples[list[i]]);
    for (size_t i = 0, m; factors && i < n; i += m)
        KT__STEP(
            add_divergence(l, factors, list + i, n - i, scores ? scores + i : NULL, &m, kl, err));
    return KT_OK;
}

int kt__learner_len_max(const kt__learner *l) {
    return l->len_max;
}

kt_status kt__learner_score_others(kt__learner *l, const kt__factors *factors,
                                   const kt__sample *others, size_t n, kt__sample_score *scores,
                                   kt_error *err) {
    const kt__sample *own = l->samples;
    size_t *list = kt__calloc(n + 1, sizeof *list);
    if (!list) return kt__fail_nomem(err, "a list of samples", n * sizeof *list);
    for (size_t i = 0; i < n; i++) list[i] = i;
    l->samples = others;
    l->others = true;
    kt_status status = kt__learner_score(l, factors, list, n, scores, err);
    l->samples = own;
    l->others = false;
    kt__free(list);
    return status;
}

kt_status kt__learner_step(kt__learner *l, const kt__factors *factors, const size_t *list,
                           const float *weights, size_t n, float *grads, double *loss,
                           kt_error *err) {
    *loss = 0.0;
    for (size_t i = 0, m; i < n; i += m) {
        kt__pass_batch batch;
        m = begin_fitting(l, list + i, n - i);
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
 * An answer is guessed; a pass looks at some of the guesses, and replaces each by the likeliest token after those
 * before it. Up to the first wrong one, and with what replaces it, that is what would be written token by token
 * (Leviathan et al. 2023). Keys and values of what is said are kept, so that a pass computes the rest alone. */

enum {
    LOOK_FIRST = 8, /* guesses that are looked at; after all were right twice as many */
    PASS_ROWS = 32  /* that cost as much as one: a product's lanes */
};

/* An answer that is written; text->n: tokens of it that are said. */
typedef struct writing {
    size_t index; /* among the list's samples */
    int row0;     /* of its own rows among those kept */
    int n_look;
    bool done;
} writing;

typedef struct writer {
    kt__learner *l;
    const kt__factors *factors;
    const size_t *list;
    kt__written *out;
    kt__writing_over *over;
    void *over_user;
    writing *open;
    size_t n_open;
    kt__grown *grown;
    int n_shared;
    bool shared_kept;
} writer;

static int written_rows(const kt__sample *s) {
    return kt__sample_first_masked(s) + KT__WRITTEN_MAX - 1;
}

/* The first guess: what the sample answers. */
static void guess_answer(const kt__learner *l, const kt__sample *s, kt__written *out) {
    int at = kt__sample_first_masked(s);
    out->n = 0;
    for (int i = 0; i < KT__WRITTEN_MAX; i++)
        out->ids[i] = at + i < s->n ? s->ids[at + i] : l->on.eot >= 0 ? l->on.eot : s->ids[0];
}

/* Those of list[n] whose keys and values can be kept together; returns how many. */
static size_t begin_writing(writer *w, const size_t *list, kt__written *out, size_t n) {
    const kt__learner *l = w->l;
    int row0;
    w->list = list;
    w->out = out;
    w->n_open = count_fitting(l, list, n, kt__pass_grown_max(l->pass), written_rows, &w->n_shared);
    w->shared_kept = w->n_shared == 0;
    row0 = w->n_shared;
    for (size_t i = 0; i < w->n_open; i++) {
        const kt__sample *s = &l->samples[list[i]];
        guess_answer(l, s, &out[i]);
        w->open[i] = (writing){.index = i, .row0 = row0, .n_look = LOOK_FIRST};
        row0 += written_rows(s) - w->n_shared;
    }
    return w->n_open;
}

static void add_grown(writer *w, kt__grown g) {
    kt__learner *l = w->l;
    g.q_row = l->n_tok;
    l->n_tok += g.n_new;
    w->grown[l->n_seq++] = g;
}

/* What all begin with. */
static void add_shared(writer *w) {
    kt__learner *l = w->l;
    l->n_tok = l->n_seq = l->n_out = l->n_kl = 0;
    if (w->shared_kept) return;
    memcpy(l->ids, l->samples[w->list[0]].ids, (size_t)w->n_shared * sizeof *l->ids);
    add_grown(w, (kt__grown){.n_new = w->n_shared});
    w->shared_kept = true;
}

/* The rows from the first one that is not kept to the one ahead of the last guess that is looked at; false: they do
 * not fit. */
static bool add_guesses(writer *w, writing *one, int least) {
    kt__learner *l = w->l;
    const kt__sample *s = &l->samples[w->list[one->index]];
    const kt__written *text = &w->out[one->index];
    int n_question = kt__sample_first_masked(s) - w->n_shared, said = text->n;
    int n_old = said ? n_question - 1 + said : 0;
    if (one->n_look < least) one->n_look = least;
    if (one->n_look > KT__WRITTEN_MAX - said) one->n_look = KT__WRITTEN_MAX - said;
    int n_new = n_question - 1 + said + one->n_look - n_old;
    if (l->n_tok + n_new > l->n_tok_max) return false;
    for (int i = 0; i < n_new; i++) {
        int at = n_old + i - n_question; /* in the answer */
        l->ids[l->n_tok + i] = at < 0 ? s->ids[w->n_shared + n_old + i] : text->ids[at];
    }
    for (int i = 0; i < one->n_look; i++) {
        l->out_rows[l->n_out] = l->n_tok + n_new - one->n_look + i;
        l->rows[l->n_out++] = (kt__loss_row){.target = text->ids[said + i], .kind = KT__LOSS_LIKE};
    }
    add_grown(w, (kt__grown){.row0 = one->row0, .n_old = n_old, .n_new = n_new});
    return true;
}

/* Takes the likeliest tokens for the guesses. */
static void take_guesses(const writer *w, writing *one, const kt__loss_row *rows) {
    kt__written *text = &w->out[one->index];
    int said = text->n;
    bool right = true;
    for (int i = 0; i < one->n_look; i++) {
        text->ids[said + i] = rows[i].best;
        if (!right) continue;
        one->done = rows[i].best == w->l->on.eot;
        if (one->done) return;
        text->n++;
        right = rows[i].hit;
    }
    one->done = text->n == KT__WRITTEN_MAX;
    one->n_look = right ? 2 * one->n_look : 1;
}

/* One pass over as many of those that are open, from open[i] on, as fit; *i: the next. */
static kt_status look_at_guesses(writer *w, size_t *i, kt_error *err) {
    kt__learner *l = w->l;
    size_t first = *i;
    int least = PASS_ROWS / (int)w->n_open;
    add_shared(w);
    while (*i < w->n_open && add_guesses(w, &w->open[*i], least)) ++*i;
    const kt__pass_batch batch = {.n_tok = l->n_tok,
                                  .ids = l->ids,
                                  .n_seq = l->n_seq,
                                  .grown = w->grown,
                                  .n_shared = w->n_shared,
                                  .n_out = l->n_out,
                                  .out_rows = l->out_rows};
    const float *hidden = kt__pass_forward(l->pass, w->factors, &batch);
    kt__losses_run(l->losses, hidden, NULL, l->n_out, 0, l->rows, NULL);
    KT__STEP(check_cancel(l, err));
    const kt__loss_row *rows = l->rows;
    for (size_t k = first; k < *i; k++) {
        int n = w->open[k].n_look;
        take_guesses(w, &w->open[k], rows);
        rows += n;
    }
    return KT_OK;
}

/* Those that are to be continued. */
static void keep_open(writer *w, size_t first) {
    size_t n = 0;
    for (size_t i = 0; i < w->n_open; i++) {
        const writing *one = &w->open[i];
        bool over = w->over && w->over(w->over_user, first + one->index, &w->out[one->index]);
        if (!over && !one->done) w->open[n++] = *one;
    }
    w->n_open = n;
}

static kt_status write_fitting(writer *w, size_t first, kt_error *err) {
    for (keep_open(w, first); w->n_open; keep_open(w, first))
        for (size_t i = 0; i < w->n_open;) KT__STEP(look_at_guesses(w, &i, err));
    return KT_OK;
}

kt_status kt__learner_write(kt__learner *l, const kt__factors *factors, const size_t *list,
                            size_t n, kt__writing_over *over, void *over_user, kt__written *out,
                            kt_error *err) {
    writer w = {.l = l, .factors = factors, .over = over, .over_user = over_user};
    kt_status status = KT_OK;
    w.open = kt__calloc(n + 1, sizeof *w.open);
    w.grown = kt__calloc(n + 1, sizeof *w.grown);
    if (!w.open || !w.grown) status = kt__fail_nomem(err, "answers", n * sizeof *w.open);
    for (size_t i = 0, m; status == KT_OK && i < n; i += m) {
        m = begin_writing(&w, list + i, out + i, n - i);
        status = write_fitting(&w, i, err);
    }
    kt__free(w.open);
    kt__free(w.grown);
    return status;
}
