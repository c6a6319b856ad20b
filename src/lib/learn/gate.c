#include "learn/learn.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/math.h"
#include "learn/learner.h"
#include "sample/rng.h"

enum { GROUPS_LEAST = 5, RESAMPLES = 2000, STREAM_SPLIT = 90, STREAM_BOOT = 91 };

/* ---- answers given to other questions: does an adapter know which one belongs to which? ----
 *
 * An adapter that was trained on answers without a bearing on their questions predicts either as well. */

enum { STREAM_SWAP = 92 };

static bool same_answer(const kt__sample *a, const kt__sample *b) {
    int at = kt__sample_first_masked(a), bt = kt__sample_first_masked(b), n = a->n - at;
    return n == b->n - bt && !memcmp(a->ids + at, b->ids + bt, (size_t)n * sizeof *a->ids);
}

/* Another sample with another answer that fits after the question; NULL: none. */
static const kt__sample *choose_other(const kt__sample *samples, const size_t *list, size_t n,
                                      size_t i, uint64_t seed, int len_max) {
    const kt__sample *own = &samples[list[i]];
    size_t first = (size_t)(kt__rng_uniform(seed, STREAM_SWAP, i, 0) * (double)n);
    for (size_t k = 0; k < n; k++) {
        const kt__sample *s = &samples[list[(first + k) % n]];
        if (s->kind == KT__SAMPLE_DOWN || same_answer(own, s)) continue;
        if (kt__sample_first_masked(own) + s->n - kt__sample_first_masked(s) <= len_max) return s;
    }
    return NULL;
}

/* The question of one and the answer of another, in ids and mask. */
static kt__sample swapped_sample(const kt__sample *question, const kt__sample *answer, int32_t *ids,
                                 uint8_t *mask) {
    int n_question = kt__sample_first_masked(question), at = kt__sample_first_masked(answer),
        n = answer->n - at;
    memcpy(ids, question->ids, (size_t)n_question * sizeof *ids);
    memcpy(ids + n_question, answer->ids + at, (size_t)n * sizeof *ids);
    memset(mask, 0, (size_t)n_question);
    memcpy(mask + n_question, answer->mask + at, (size_t)n);
    return (kt__sample){.kind = KT__SAMPLE_CORRECTION,
                        .ids = ids,
                        .mask = mask,
                        .n = n_question + n,
                        .weight = 1.0f};
}

/* Questions with others' answers, in memory of their own. */
typedef struct swapped {
    kt__sample *samples;
    size_t *of; /* whose question, in the list */
    size_t n;
    int32_t *ids;
    uint8_t *mask;
} swapped;

static void free_swapped(swapped *s) {
    kt__free(s->samples);
    kt__free(s->of);
    kt__free(s->ids);
    kt__free(s->mask);
}

static kt_status make_swapped(const kt__sample *samples, const size_t *list, size_t n,
                              uint64_t seed, int len_max, swapped *out, kt_error *err) {
    size_t room = 1, at = 0;
    int longest = 0;
    for (size_t i = 0; i < n; i++) {
        const kt__sample *s = &samples[list[i]];
        int first = kt__sample_first_masked(s);
        room += (size_t)first;
        if (s->n - first > longest) longest = s->n - first;
    }
    room += n * (size_t)longest;
    *out = (swapped){kt__calloc(n + 1, sizeof *out->samples), kt__calloc(n + 1, sizeof *out->of), 0,
                     kt__calloc(room, sizeof *out->ids), kt__calloc(room, 1)};
    if (!out->samples || !out->of || !out->ids || !out->mask)
        return kt__fail_nomem(err, "swapped answers", room * sizeof *out->ids);
    for (size_t i = 0; i < n; i++) {
        const kt__sample *own = &samples[list[i]], *other;
        if (own->kind == KT__SAMPLE_DOWN) continue;
        other = choose_other(samples, list, n, i, seed, len_max);
        if (!other) continue;
        out->of[out->n] = i;
        out->samples[out->n] = swapped_sample(own, other, out->ids + at, out->mask + at);
        at += (size_t)out->samples[out->n++].n;
    }
    return KT_OK;
}

/* Of n samples list[n] that shall be likely: gain[i] = loss of another's answer - loss of its own, and n_tok[i]
 * tokens of each, next to one another for *n_pair pairs; 0 where all answers are the same. seed: which
 * others. scores: of their own answers, as kt__learner_score. */
static kt_status measure_swapped(kt__learner *learner, const kt__factors *factors,
                                 const kt__sample *samples, const size_t *list, size_t n,
                                 uint64_t seed, const kt__sample_score *scores, double *gain,
                                 double *n_tok, size_t *n_pair, kt_error *err) {
    kt_status status;
    swapped with;
    kt__sample_score *other = kt__calloc(n + 1, sizeof *other);
    *n_pair = 0;
    KT__TRY(make_swapped(samples, list, n, seed, kt__learner_len_max(learner), &with, err));
    if (!other) {
        status = kt__fail_nomem(err, "scores", n * sizeof *other);
        goto out;
    }
    KT__TRY(kt__learner_score_others(learner, factors, with.samples, with.n, other, err));
    for (size_t i = 0; i < with.n; i++) {
        const kt__sample_score *own = &scores[with.of[i]];
        gain[i] = other[i].loss / other[i].n_tok - own->loss / own->n_tok;
        n_tok[i] = 1.0;
    }
    *n_pair = with.n;
out:
    free_swapped(&with);
    kt__free(other);
    return status;
}

/* ---- which samples are only measured ---- */

typedef struct group_of {
    uint64_t group;
    double order;
} group_of;

static int by_group(const void *a, const void *b) {
    const group_of *x = a, *y = b;
    return x->group < y->group ? -1 : x->group > y->group;
}

static int by_order(const void *a, const void *b) {
    const group_of *x = a, *y = b;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    return by_group(a, b);
}

static int by_group_and_order(const void *a, const void *b) {
    const group_of *x = a, *y = b;
    int order = by_group(a, b);
    return order ? order : x->order < y->order ? -1 : x->order > y->order;
}

typedef enum held_part {
    HELD_NOT,
    HELD_GATE,
    HELD_SHARE /* replay by which the share is chosen: not the gate's, that would judge its own choice */
} held_part;

typedef struct splitter {
    const kt__sample *samples;
    size_t n;
    const kt__learn_settings *settings;
    group_of *groups; /* of one class, [n_group] */
    size_t n_group;
    uint8_t *held; /* [n] a held_part */
    uint8_t *done; /* [n] its conversation is decided */
} splitter;

static bool is_sibling(const kt__sample *s) {
    return s->kind == KT__SAMPLE_NEIGHBOUR && s->use == KT__SAMPLE_MEASURED;
}

/* 0: feedback, 1: replay, 2: neighbours, -1: what is measured in any case. */
static int class_of(const kt__sample *s) {
    if (is_sibling(s)) return -1;
    return s->kind == KT__SAMPLE_REPLAY ? 1 : s->kind == KT__SAMPLE_NEIGHBOUR ? 2 : 0;
}

static void list_groups(splitter *p, int class) {
    size_t n = 0, m = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (class_of(&p->samples[i]) != class || p->done[i]) continue;
        uint64_t group = p->samples[i].group;
        p->groups[n++] = (group_of){group,
                                    kt__rng_uniform(p->settings->seed, STREAM_SPLIT, group, 0)};
    }
    qsort(p->groups, n, sizeof *p->groups, by_group);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || p->groups[i].group != p->groups[i - 1].group) p->groups[m++] = p->groups[i];
    qsort(p->groups, m, sizeof *p->groups, by_order);
    p->n_group = m;
}

static size_t n_held_of(size_t n_group, double part) {
    size_t n = (size_t)((double)n_group * part + 0.5);
    return n ? n : n_group > 1 && part > 0.0;
}

/* Wordings that are measured, of questions whose other wordings are trained. Returns how many conversations have
 * one. */
static size_t decide_wordings(splitter *p) {
    size_t n = 0, n_group = 0;
    for (size_t i = 0; i < p->n; i++)
        if (p->samples[i].use == KT__SAMPLE_MEASURED && class_of(&p->samples[i]) == 0)
            p->groups[n++] = (group_of){.group = p->samples[i].group};
    qsort(p->groups, n, sizeof *p->groups, by_group);
    for (size_t i = 0; i < n; i++) n_group += i == 0 || by_group(&p->groups[i], &p->groups[i - 1]);
    for (size_t i = 0; n && i < p->n; i++) {
        const kt__sample *s = &p->samples[i];
        const group_of key = {.group = s->group};
        if (class_of(s) != 0 || !bsearch(&key, p->groups, n, sizeof key, by_group)) continue;
        p->held[i] = s->use == KT__SAMPLE_MEASURED ? HELD_GATE : HELD_NOT;
        p->done[i] = 1;
    }
    return n_group;
}

/* What is to be trained in any case: what the model wrote about corrections. */
static void decide_trained(splitter *p) {
    for (size_t i = 0; i < p->n; i++)
        if (p->samples[i].use == KT__SAMPLE_TRAINED) p->done[i] = 1;
}

/* The first conversations by a random order are held out, to the part that is wanted; of replay as
 * many again, or half of what is left. */
static void decide_groups(splitter *p, int class) {
    size_t n_held = n_held_of(p->n_group, p->settings->held_out);
    size_t n_share = class != 1 ? 0 : (p->n_group - n_held) / 2;
    if (n_share > n_held) n_share = n_held;
    for (size_t g = 0; g < p->n_group; g++)
        p->groups[g].order = g < n_held ? HELD_GATE : g < n_held + n_share ? HELD_SHARE : HELD_NOT;
    qsort(p->groups, p->n_group, sizeof *p->groups, by_group);
    for (size_t i = 0; i < p->n; i++) {
        const group_of key = {.group = p->samples[i].group};
        const group_of *g = bsearch(&key, p->groups, p->n_group, sizeof key, by_group);
        if (p->done[i] || !g) continue;
        p->held[i] = (uint8_t)g->order;
        p->done[i] = 1;
    }
}

static void fill_split(const splitter *p, kt__split *out) {
    for (size_t i = 0; i < p->n; i++) {
        const kt__sample *s = &p->samples[i];
        int class = class_of(s);
        if (is_sibling(s)) out->sibling[out->n_sibling++] = i;
        if (!p->held[i] && !is_sibling(s)) out->train[out->n_train++] = i;
        if (p->held[i] && class == 0) out->held[out->n_held++] = i;
        if (p->held[i] == HELD_GATE && class == 1) out->anchor[out->n_anchor++] = i;
        if (p->held[i] == HELD_SHARE && class == 1) out->share[out->n_share++] = i;
        if (p->held[i] && class == 2) out->neighbour[out->n_neighbour++] = i;
        if (s->earlier && s->kind == KT__SAMPLE_CORRECTION) out->earlier[out->n_earlier++] = i;
    }
}

kt_status kt__split_make(const kt__sample *samples, size_t n, const kt__learn_settings *settings,
                         kt__split *out, kt_error *err) {
    kt_status status = KT_OK;
    splitter p = {.samples = samples, .n = n, .settings = settings};
    size_t **const lists[] = {&out->train,   &out->held,  &out->anchor, &out->neighbour,
                              &out->earlier, &out->share, &out->sibling};
    *out = (kt__split){0};
    p.groups = kt__calloc(n + 1, sizeof *p.groups);
    p.held = kt__calloc(n + 1, 1);
    p.done = kt__calloc(n + 1, 1);
    bool all = p.groups && p.held && p.done;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        all = (*lists[i] = kt__calloc(n + 1, sizeof **lists[i])) && all;
    if (!all) {
        status = kt__fail_nomem(err, "the division of samples", n * sizeof(group_of));
        kt__split_free(out);
        goto out;
    }
    (void)decide_wordings(&p);
    decide_trained(&p);
    for (int class = 0; class < 3; class ++) {
        list_groups(&p, class);
        decide_groups(&p, class);
    }
    fill_split(&p, out);
out:
    kt__free(p.groups);
    kt__free(p.held);
    kt__free(p.done);
    return status;
}

void kt__split_free(kt__split *s) {
    kt__free(s->train);
    kt__free(s->held);
    kt__free(s->anchor);
    kt__free(s->neighbour);
    kt__free(s->earlier);
    kt__free(s->share);
    kt__free(s->sibling);
    *s = (kt__split){0};
}

/* ---- the gain ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double kt__bootstrap_low(const double *gain, const double *n_tok, size_t n, uint64_t seed) {
    static const double share = 0.025;
    double means[RESAMPLES];
    if (n == 0) return 0.0;
    for (int r = 0; r < RESAMPLES; r++) {
        double sum = 0.0, tokens = 0.0;
        for (size_t i = 0; i < n; i++) {
            double u = kt__rng_uniform(seed, STREAM_BOOT, (uint64_t)r, (uint32_t)i);
            size_t k = (size_t)(u * (double)n);
            sum += gain[k];
            tokens += n_tok[k];
        }
        means[r] = tokens > 0.0 ? sum / tokens : 0.0;
    }
    qsort(means, RESAMPLES, sizeof *means, by_value);
    return means[(int)(share * RESAMPLES)];
}

typedef struct gate {
    kt__learner *learner;
    const kt__sample *samples;
    const kt__split *split;
    const kt__learn_settings *settings;
    const kt__factors *prior, *candidate;
    const kt__gate_known *known;      /* or NULL */
    kt__sample_score *before, *after; /* room for any list */
    double *gain, *n_tok;             /* of conversations */
    group_of *order;                  /* room to find them */
    kt__learn_report *report;
    kt_error *err;
} gate;

static kt_status score_both(gate *g, const kt__factors *before, const size_t *list, size_t n) {
    KT__STEP(kt__learner_score(g->learner, before, list, n, g->before, g->err));
    return kt__learner_score(g->learner, g->candidate, list, n, g->after, g->err);
}

static kt__learn_loss sum_up(const gate *g, size_t n) {
    kt__learn_loss loss = {0};
    for (size_t i = 0; i < n; i++) {
        loss.before += g->before[i].loss;
        loss.after += g->after[i].loss;
        loss.n += g->after[i].n_tok;
    }
    if (loss.n == 0) return loss;
    loss.before /= loss.n;
    loss.after /= loss.n;
    return loss;
}

/* Scores of one conversation together; returns how many there are. */
static size_t gather_groups(gate *g, const size_t *list, size_t n) {
    size_t n_group = 0;
    for (size_t i = 0; i < n; i++) g->order[i] = (group_of){g->samples[list[i]].group, (double)i};
    qsort(g->order, n, sizeof *g->order, by_group_and_order);
    for (size_t i = 0; i < n; i++) {
        size_t of = (size_t)g->order[i].order;
        if (i == 0 || g->order[i].group != g->order[i - 1].group) {
            g->gain[n_group] = g->n_tok[n_group] = 0.0;
            n_group++;
        }
        g->gain[n_group - 1] += g->before[of].loss - g->after[of].loss;
        g->n_tok[n_group - 1] += g->after[of].n_tok;
    }
    return n_group;
}

static kt_status score_held(gate *g) {
    const kt__split *s = g->split;
    if (!g->known || !g->known->held) return score_both(g, g->prior, s->held, s->n_held);
    memcpy(g->after, g->known->held, s->n_held * sizeof *g->after);
    return kt__learner_score(g->learner, g->prior, s->held, s->n_held, g->before, g->err);
}

static kt_status measure_held(gate *g, size_t *n_group) {
    const kt__split *s = g->split;
    kt__learn_report *r = g->report;
    size_t n_pair;
    KT__STEP(score_held(g));
    r->held = sum_up(g, s->n_held);
    for (size_t i = 0; i < s->n_held; i++) r->n_held_right += g->after[i].recalled;
    r->quality_delta = r->held.before - r->held.after;
    *n_group = gather_groups(g, s->held, s->n_held);
    r->gain_low = kt__bootstrap_low(g->gain, g->n_tok, *n_group, g->settings->seed);
    KT__STEP(measure_swapped(g->learner, g->candidate, g->samples, s->held, s->n_held,
                             g->settings->seed, g->after, g->gain, g->n_tok, &n_pair, g->err));
    r->n_pair = (int)n_pair;
    r->pair_low = kt__bootstrap_low(g->gain, g->n_tok, n_pair, g->settings->seed);
    return KT_OK;
}

/* ---- recall ---- */

static kt_status measure_recall(gate *g, size_t *room) {
    const kt__split *s = g->split;
    kt__learn_report *r = g->report;
    size_t n = 0;
    for (size_t i = 0; i < s->n_train; i++)
        if (g->samples[s->train[i]].kind == KT__SAMPLE_CORRECTION &&
            g->samples[s->train[i]].use == KT__SAMPLE_DRAWN)
            room[n++] = s->train[i];
    KT__STEP(kt__learner_score(g->learner, g->candidate, room, n, g->after, g->err));
    r->n_recall = (int)n;
    for (size_t i = 0; i < n; i++) r->recalled += g->after[i].recalled;
    KT__STEP(score_both(g, g->prior, s->earlier, s->n_earlier));
    r->n_earlier = (int)s->n_earlier;
    for (size_t i = 0; i < s->n_earlier; i++) {
        r->earlier_before += g->before[i].recalled;
        r->earlier_kept += g->before[i].recalled && g->after[i].recalled;
    }
    return KT_OK;
}

/* ---- leaks ---- */

bool kt__gate_has_run(const int32_t *ids, size_t n, const int32_t *run, size_t n_run) {
    for (size_t i = 0; i + n_run <= n; i++)
        if (memcmp(ids + i, run, n_run * sizeof *ids) == 0) return true;
    return false;
}

int kt__gate_taught_run(const kt__sample *s, const int32_t **run) {
    int first = 0, best = 0, n = 0;
    while (first < s->n && !s->mask[first]) first++;
    for (int t = first; t < s->n - 1; t++) {
        n = s->mask[t] && !kt__gate_has_run(s->ids, (size_t)first, &s->ids[t], 1) ? n + 1 : 0;
        if (n <= best) continue;
        best = n;
        *run = &s->ids[t + 1 - n];
    }
    return best;
}

/* A taught run is in what the candidate writes, and not in what the base wrote. */
static bool is_leak(const gate *g, const kt__sample *own, const int32_t *text, int n) {
    const kt__split *s = g->split;
    for (size_t i = 0; i < s->n_train; i++) {
        const kt__sample *taught = &g->samples[s->train[i]];
        const int32_t *run = NULL;
        if (taught->kind != KT__SAMPLE_CORRECTION) continue;
        size_t n_run = (size_t)kt__gate_taught_run(taught, &run);
        if (n_run > 0 && kt__gate_has_run(text, (size_t)n, run, n_run) &&
            !kt__gate_has_run(own->ids, (size_t)own->n, run, n_run))
            return true;
    }
    return false;
}

/* Answers that are looked through as they are written: neighbours, and after them siblings. */
typedef struct leak_count {
    const gate *g;
    size_t *list, n_list;
    size_t n_near; /* of it */
    int most;      /* more siblings need not be counted */
    int near, siblings;
} leak_count;

/* All that follows its first predicted token is predicted, too. */
static bool is_one_answer(const kt__sample *s) {
    for (int t = kt__sample_first_masked(s); t < s->n; t++)
        if (!s->mask[t]) return false;
    return true;
}

/* The answer is the base's, to its end. */
static bool is_as_before(const kt__sample *own, const kt__written *text) {
    int at = kt__sample_first_masked(own), n = own->n - at;
    return text->n >= n && !memcmp(own->ids + at, text->ids, (size_t)n * sizeof *own->ids);
}

static bool is_decided(void *user, size_t i, const kt__written *text) {
    leak_count *c = user;
    const kt__sample *own = &c->g->samples[c->list[i]];
    if (c->siblings > c->most) return true;
    if (is_leak(c->g, own, text->ids, text->n)) {
        *(i < c->n_near ? &c->near : &c->siblings) += 1;
        return true;
    }
    return is_one_answer(own) && is_as_before(own, text);
}

/* Lists those of[n_of] whose answers may differ from the base's; without writing that is known only of several
 * answers. */
static kt_status list_differing(const gate *g, const size_t *of, size_t n_of, leak_count *c) {
    kt__sample_score score;
    for (size_t i = 0; i < n_of; i++) {
        score.recalled = false;
        if (!is_one_answer(&g->samples[of[i]]))
            KT__STEP(kt__learner_score(g->learner, g->candidate, &of[i], 1, &score, g->err));
        if (!score.recalled) c->list[c->n_list++] = of[i];
    }
    return KT_OK;
}

/* Neighbours, siblings or both that leak; beyond `most` not all siblings are counted. They are written together, since
 * matrices are dequantised once a pass. */
static kt_status count_leaks(const gate *g, bool near, bool siblings, int most, leak_count *out) {
    const kt__split *s = g->split;
    size_t n = s->n_neighbour + s->n_sibling;
    leak_count c = {.g = g, .list = kt__calloc(n + 1, sizeof *c.list), .most = most};
    kt__written *texts = kt__calloc(n + 1, sizeof *texts);
    kt_status status = KT_OK;
    if (!c.list || !texts) {
        status = kt__fail_nomem(g->err, "neighbours' answers", n * sizeof *texts);
        goto out;
    }
    if (near) KT__TRY(list_differing(g, s->neighbour, s->n_neighbour, &c));
    c.n_near = c.n_list;
    if (siblings) KT__TRY(list_differing(g, s->sibling, s->n_sibling, &c));
    KT__TRY(kt__learner_write(g->learner, g->candidate, c.list, c.n_list, is_decided, &c, texts,
                              g->err));
    out->near = c.near;
    out->siblings = c.siblings;
out:
    kt__free(c.list);
    kt__free(texts);
    return status;
}

kt_status kt__gate_sibling_leaks(kt__learner *learner, const kt__sample *samples,
                                 const kt__split *split, const kt__factors *candidate, int most,
                                 int *leaks, kt_error *err) {
    const gate g = {
        .learner = learner, .samples = samples, .split = split, .candidate = candidate, .err = err};
    leak_count count = {0};
    kt_status status = count_leaks(&g, false, true, most, &count);
    *leaks = count.siblings;
    return status;
}

static kt_status measure_leaks(const gate *g) {
    const kt__split *s = g->split;
    kt__learn_report *r = g->report;
    bool known = g->known && g->known->sibling_leaks >= 0;
    leak_count count = {0};
    r->n_neighbour = (int)s->n_neighbour;
    r->n_sibling = (int)s->n_sibling;
    KT__STEP(count_leaks(g, true, !known, INT_MAX, &count));
    r->leaks = count.near;
    r->sibling_leaks = known ? g->known->sibling_leaks : count.siblings;
    return KT_OK;
}

/* ---- the judgement ---- */

static void refuse_few(size_t n_held, const char *more, kt__learn_report *r) {
    snprintf(r->why, sizeof r->why,
             "%zu held-out conversation%s too few to measure a gain; %d are needed%s", n_held,
             n_held == 1 ? " is" : "s are", GROUPS_LEAST, more);
}

/* Conversations that are missing until a part of them is enough. */
static size_t missing_groups(const splitter *p) {
    size_t wanted = p->n_group;
    while (n_held_of(wanted, p->settings->held_out) < GROUPS_LEAST) wanted++;
    return wanted - p->n_group;
}

kt_status kt__gate_may_pass(const kt__sample *samples, size_t n, const kt__learn_settings *settings,
                            bool *may, kt__learn_report *report, kt_error *err) {
    splitter p = {.samples = samples, .n = n, .settings = settings};
    char more[64];
    size_t n_worded = 0;
    p.groups = kt__calloc(n + 1, sizeof *p.groups);
    p.held = kt__calloc(n + 1, 1);
    p.done = kt__calloc(n + 1, 1);
    bool all = p.groups && p.held && p.done;
    if (all) n_worded = decide_wordings(&p);
    if (all) list_groups(&p, 0);
    kt__free(p.groups);
    kt__free(p.held);
    kt__free(p.done);
    *may = true;
    if (!all) return kt__fail_nomem(err, "the division of samples", n * sizeof(group_of));
    size_t n_held = n_worded + n_held_of(p.n_group, settings->held_out);
    if (n_held >= GROUPS_LEAST || settings->held_out <= 0.0) return KT_OK;
    size_t wanted = n_worded > 0 ? GROUPS_LEAST - n_held : missing_groups(&p);
    snprintf(more, sizeof more, ": %zu more questions with feedback", wanted);
    refuse_few(n_held, more, report);
    *may = false;
    return KT_OK;
}

static void judge_candidate(const gate *g, size_t n_group) {
    const kt__learn_settings *s = g->settings;
    kt__learn_report *r = g->report;
    char *why = r->why;
    const size_t size = sizeof r->why;
    if (n_group < GROUPS_LEAST)
        refuse_few(n_group, "", r);
    else if (!(r->gain_low > 0.0))
        snprintf(why, size, "held-out answers: the gain's lower bound is %.3f nats a token",
                 r->gain_low);
    else if (r->n_pair > 0 && !(r->pair_low > 0.0))
        snprintf(why, size, "other questions' answers are as likely as a question's own (%.3f)",
                 r->pair_low);
    else if (!s->scoped && r->anchor.n == 0)
        snprintf(why, size, "no replay is there that shows what else would change");
    else if (!s->scoped && !(r->anchor_kl <= s->anchor_max))
        snprintf(why, size,
                 "on the anchor it is %.4f nats a token from the base (KL); %.4f are allowed",
                 r->anchor_kl, s->anchor_max);
    else if (!s->scoped && r->leaks > s->leak_max * r->n_neighbour)
        snprintf(why, size, "taught answers leak into %d of %d neighbouring questions", r->leaks,
                 r->n_neighbour);
    else if (r->sibling_leaks > s->leak_max * r->n_sibling)
        snprintf(why, size,
                 "taught answers come into %d of %d other questions about their subjects",
                 r->sibling_leaks, r->n_sibling);
    else if (r->earlier_kept < s->recall_min * r->earlier_before)
        snprintf(why, size, "of %d earlier corrections that were recalled, %d are still",
                 r->earlier_before, r->earlier_kept);
    r->publish = why[0] == '\0';
}

/* The base's states are computed once for all that is compared with them. */
static kt_status measure_anchor(gate *g) {
    const kt__split *s = g->split;
    double kl;
    int n_tok;
    KT__STEP(kt__learner_diverge(g->learner, g->candidate, s->anchor, s->n_anchor, g->after, &kl,
                                 &n_tok, g->err));
    KT__STEP(kt__learner_score(g->learner, NULL, s->anchor, s->n_anchor, g->before, g->err));
    g->report->anchor = sum_up(g, s->n_anchor);
    g->report->anchor_kl = n_tok ? kl / n_tok : 0.0;
    return KT_OK;
}

static kt_status measure_all(gate *g, size_t *room) {
    size_t n_group = 0;
    KT__STEP(measure_held(g, &n_group));
    KT__STEP(measure_anchor(g));
    KT__STEP(measure_recall(g, room));
    KT__STEP(measure_leaks(g));
    judge_candidate(g, n_group);
    return KT_OK;
}

kt_status kt__gate(kt__learner *learner, const kt__sample *samples, const kt__split *split,
                   const kt__learn_settings *settings, const kt__factors *prior,
                   const kt__factors *candidate, const kt__gate_known *known,
                   kt__learn_report *report, kt_error *err) {
    gate g = {learner, samples,          split,     settings, prior, candidate,
              known,   .report = report, .err = err};
    size_t n = split->n_train + split->n_held + split->n_anchor + split->n_neighbour +
               split->n_sibling + 1;
    size_t *room = kt__calloc(n, sizeof *room);
    kt_status status;
    g.before = kt__calloc(n, sizeof *g.before);
    g.after = kt__calloc(n, sizeof *g.after);
    g.gain = kt__calloc(n, sizeof *g.gain);
    g.n_tok = kt__calloc(n, sizeof *g.n_tok);
    g.order = kt__calloc(n, sizeof *g.order);
    report->n_train = (int)split->n_train;
    report->n_held = (int)split->n_held;
    report->n_anchor = (int)split->n_anchor;
    report->scoped = settings->scoped;
    if (room && g.before && g.after && g.gain && g.n_tok && g.order)
        status = measure_all(&g, room);
    else
        status = kt__fail_nomem(err, "the gate's scores", n * sizeof *g.before);
    kt__free(room);
    kt__free(g.before);
    kt__free(g.after);
    kt__free(g.gain);
    kt__free(g.n_tok);
    kt__free(g.order);
    return status;
}
