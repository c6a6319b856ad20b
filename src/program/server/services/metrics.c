#include "services/metrics.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"
#include "base/thread.h"
#include "wire/wire.h"

static const double second_bounds[] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075,
                                       0.1,   0.15,  0.2,   0.25, 0.35, 0.5,   0.75, 1,
                                       1.5,   2.5,   5,     10,   20,   40,    80,   160};
static const double rate_bounds[] = {0.5, 1,  2,  3,  4,  6,   8,   10,  13,  16,  20,  25,
                                     30,  40, 50, 65, 80, 100, 130, 160, 200, 300, 500, 1000};
enum { N_BOUNDS = 24, MAX_ANSWERS = 256, USUAL_BYTES = 24 << 10 };
_Static_assert(sizeof second_bounds / sizeof second_bounds[0] == N_BOUNDS, "24 bounds");
_Static_assert(sizeof rate_bounds / sizeof rate_bounds[0] == N_BOUNDS, "24 bounds");

static const struct {
    const char *name, *help;
} histogram_info[] = {
#define X(name, metric, help) {metric, help},
    KT__HISTOGRAM_LIST(X)
#undef X
};

typedef struct histogram {
    uint64_t counts[N_BOUNDS + 1], n;
    double sum;
} histogram;

typedef struct answers {
    const char *route;
    int code;
    uint64_t n;
} answers;

/* What a model's lines say, read once. */
typedef struct view {
    const char *label; /* {model="NAME" */
    kt_engine_stats stats;
    kt__served_info info;
} view;

/* Tokens of all models, and the seconds that they took. */
typedef struct rates {
    double prompt, prompt_s, generated, decode_s;
} rates;

struct kt__metrics {
    pthread_mutex_t lock; /* for moments only */
    kt__models *models;
    bool learns;
    char **labels; /* [models, all that may come] {model="NAME"; NULL until it is written */
    char bounds[2][N_BOUNDS + 1][16]; /* as text: of seconds, of rates */
    answers answered[MAX_ANSWERS];
    size_t n_answered;
    uint64_t n_unlisted;
    _Atomic int connections[2];
    _Atomic unsigned long accepted[2], refused[2];
    histogram (*histograms)[KT__HISTOGRAMS]; /* [models] */
    int64_t longest;                         /* tokens of a prompt and its answer */
    rates reported;                          /* what the rates of the last writing counted up to */
};

/* A label's value is escaped: backslash, quote and newline. NULL: no memory. */
static char *make_label(const char *name) {
    kt__buf out;
    kt__buf_init(&out, 1 << 20);
    (void)kt__buf_puts(&out, "{model=\"");
    for (; *name; name++) {
        if (*name == '"' || *name == '\\') (void)kt__buf_putc(&out, '\\');
        if (*name == '\n') {
            (void)kt__buf_puts(&out, "\\n");
        } else {
            (void)kt__buf_putc(&out, *name);
        }
    }
    (void)kt__buf_putc(&out, '"');
    if (!out.failed) return kt__buf_take(&out, NULL);
    kt__buf_free(&out);
    return NULL;
}

/* Of the model of that place; where there is no memory for it, a name that is none. */
static const char *label_of(kt__metrics *m, size_t i) {
    pthread_mutex_lock(&m->lock);
    if (!m->labels[i]) m->labels[i] = make_label(kt__served_name(kt__models_at(m->models, i)));
    const char *label = m->labels[i];
    pthread_mutex_unlock(&m->lock);
    return label ? label : "{model=\"\"";
}

static void write_bounds(char (*to)[16], const double *bounds) {
    for (int i = 0; i < N_BOUNDS; i++) snprintf(to[i], sizeof to[i], "%g", bounds[i]);
    snprintf(to[N_BOUNDS], sizeof to[N_BOUNDS], "+Inf");
}

kt_status kt__metrics_create(kt__models *models, kt__metrics **out, kt_error *err) {
    size_t n = kt__models_cap(models);
    *out = NULL;
    kt__metrics *m = kt__calloc(1, sizeof *m);
    if (!m) return kt__fail_nomem(err, "metrics", sizeof *m);
    pthread_mutex_init(&m->lock, NULL);
    m->models = models;
    m->histograms = kt__calloc(n, sizeof *m->histograms);
    m->labels = kt__calloc(n, sizeof *m->labels);
    if (!m->histograms || !m->labels) {
        kt__metrics_free(m);
        return kt__fail_nomem(err, "metrics", n * sizeof *m->histograms);
    }
    write_bounds(m->bounds[0], second_bounds);
    write_bounds(m->bounds[1], rate_bounds);
    *out = m;
    return KT_OK;
}

void kt__metrics_free(kt__metrics *m) {
    if (!m) return;
    pthread_mutex_destroy(&m->lock);
    for (size_t i = 0; m->labels && i < kt__models_cap(m->models); i++) kt__free(m->labels[i]);
    kt__free(m->labels);
    kt__free(m->histograms);
    kt__free(m);
}

/* ---- counting ---- */

static size_t index_of(const kt__metrics *m, const kt__served *model) {
    size_t i = 0;
    while (i + 1 < kt__models_count(m->models) && kt__models_at(m->models, i) != model) i++;
    return i;
}

static const double *bounds_of(kt__histogram_id id) {
    return id == KT__HIST_RATE ? rate_bounds : second_bounds;
}

void kt__metrics_show_learning(kt__metrics *metrics) {
    metrics->learns = true;
}

void kt__metrics_observe(kt__metrics *m, const kt__served *model, kt__histogram_id id,
                         double value) {
    const double *bounds = bounds_of(id);
    size_t at = 0;
    while (at < N_BOUNDS && value > bounds[at]) at++;
    pthread_mutex_lock(&m->lock);
    histogram *h = &m->histograms[index_of(m, model)][id];
    h->counts[at]++;
    h->n++;
    h->sum += value;
    pthread_mutex_unlock(&m->lock);
}

void kt__metrics_finished(kt__metrics *m, const kt__served *model, const kt_request_report *r) {
    kt__metrics_observe(m, model, KT__HIST_ALL, (double)r->total_us * 1e-6);
    kt__metrics_observe(m, model, KT__HIST_QUEUE, (double)r->queue_us * 1e-6);
    kt__metrics_observe(m, model, KT__HIST_TOKENIZE, (double)r->tokenize_us * 1e-6);
    pthread_mutex_lock(&m->lock);
    if (r->n_prompt + r->n_generated > m->longest) m->longest = r->n_prompt + r->n_generated;
    pthread_mutex_unlock(&m->lock);
    if (r->first_token_us <= 0) return;
    kt__metrics_observe(m, model, KT__HIST_FIRST, (double)r->first_token_us * 1e-6);
    kt__metrics_observe(m, model, KT__HIST_PREFILL, (double)r->prefill_us * 1e-6);
    kt__metrics_observe(m, model, KT__HIST_DECODE, (double)r->decode_us * 1e-6);
    kt__metrics_observe(m, model, KT__HIST_SAMPLE, (double)r->sample_us * 1e-6);
    double rate = kt__tokens_per_second(r);
    if (rate > 0) kt__metrics_observe(m, model, KT__HIST_RATE, rate);
}

void kt__metrics_answer(kt__metrics *m, const char *route, int code) {
    pthread_mutex_lock(&m->lock);
    size_t i = 0;
    while (i < m->n_answered &&
           (m->answered[i].code != code || strcmp(m->answered[i].route, route) != 0))
        i++;
    if (i == m->n_answered && i < MAX_ANSWERS)
        m->answered[m->n_answered++] = (answers){route, code, 0};
    if (i < MAX_ANSWERS) {
        m->answered[i].n++;
    } else {
        m->n_unlisted++;
    }
    pthread_mutex_unlock(&m->lock);
}

void kt__metrics_connection(kt__metrics *m, bool socket, int by) {
    atomic_fetch_add(&m->connections[socket], by);
    if (by > 0) atomic_fetch_add(&m->accepted[socket], 1);
}

void kt__metrics_refused(kt__metrics *m, bool socket) {
    atomic_fetch_add(&m->refused[socket], 1);
}

/* ---- writing ---- */

static void put_count(kt__buf *out, uint64_t n) {
    char digits[24], *at = digits + sizeof digits;
    do *--at = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    (void)kt__buf_append(out, at, (size_t)(digits + sizeof digits - at));
}

/* "kentang_NAME" and what follows, without printf's work: there are hundreds of these lines. */
static void put_bucket(kt__buf *out, const char *name, const char *label, const char *bound,
                       uint64_t n) {
    (void)kt__buf_puts(out, "kentang_");
    (void)kt__buf_puts(out, name);
    (void)kt__buf_puts(out, "_bucket");
    (void)kt__buf_puts(out, label);
    (void)kt__buf_puts(out, ",le=\"");
    (void)kt__buf_puts(out, bound);
    (void)kt__buf_puts(out, "\"} ");
    put_count(out, n);
    (void)kt__buf_putc(out, '\n');
}

static void write_histogram(kt__metrics *m, int id, kt__buf *out) {
    const char *name = histogram_info[id].name;
    kt__metric_head(out, name, "histogram", histogram_info[id].help);
    for (size_t i = 0, n = kt__models_count(m->models); i < n; i++) {
        const char *label = label_of(m, i);
        pthread_mutex_lock(&m->lock);
        histogram h = m->histograms[i][id];
        pthread_mutex_unlock(&m->lock);
        uint64_t below = 0;
        for (int b = 0; b <= N_BOUNDS; b++) {
            below += h.counts[b];
            put_bucket(out, name, label, m->bounds[id == KT__HIST_RATE][b], below);
        }
        (void)kt__buf_printf(out, "kentang_%s_sum%s} %.9g\nkentang_%s_count%s} %llu\n", name, label,
                             h.sum, name, label, (unsigned long long)h.n);
    }
}

static void write_sample(kt__buf *out, const char *name, const char *label, const char *key,
                         const char *value, double x) {
    if (key) {
        (void)kt__buf_printf(out, "kentang_%s%s,%s=\"%s\"} %.15g\n", name, label, key, value, x);
    } else {
        (void)kt__buf_printf(out, "kentang_%s%s} %.15g\n", name, label, x);
    }
}

typedef struct row {
    const char *name, *type, *help, *key, *value; /* help NULL: another sample of the row before */
    double (*get)(const kt_engine_stats *s);
} row;

#define GET(name, expression)                      \
    static double name(const kt_engine_stats *s) { \
        return (double)(expression);               \
    }
GET(get_prompt, s->prompt_tokens)
GET(get_generated, s->generated_tokens)
GET(get_queries, s->queried_tokens)
GET(get_hits, s->cached_tokens)
GET(get_disk, s->disk_tokens)
GET(get_recomputed, s->recomputed_tokens)
GET(get_preempted, s->n_preempted)
GET(get_experts_used, s->n_experts_used)
GET(get_experts_missed, s->n_experts_missed)
GET(get_expert_bytes, s->expert_read_bytes)
GET(get_device_memory, s->device_bytes)
GET(get_device_time, (double)s->device_us * 1e-6)
GET(get_device_lost, s->device_lost)
GET(get_device_temperature, s->device_temperature_c)
GET(get_device_power, s->device_power_w)
GET(get_drafted, s->drafted_tokens)
GET(get_accepted, s->accepted_tokens)
GET(get_busy, s->n_refused_busy)
GET(get_deadline, s->n_refused_deadline)
GET(get_other, s->n_refused_other)
GET(get_stop, s->n_finished[KT_FINISH_EOG] + s->n_finished[KT_FINISH_STOP])
GET(get_length, s->n_finished[KT_FINISH_LENGTH] + s->n_finished[KT_FINISH_CONTEXT])
GET(get_cancelled, s->n_finished[KT_FINISH_CANCELLED])
GET(get_error, s->n_finished[KT_FINISH_ERROR])
GET(get_late, s->n_finished[KT_FINISH_DEADLINE])
GET(get_running, s->running)
GET(get_waiting, s->waiting)
GET(get_held, s->held)
GET(get_usage, s->kv_blocks ? (double)s->kv_blocks_used / (double)s->kv_blocks : 0)
GET(get_kept, s->kv_blocks ? (double)s->kv_blocks_cached / (double)s->kv_blocks : 0)
GET(get_evicted, s->n_evicted_blocks)
GET(get_pressed_8, s->n_pressed_blocks[KT_KV_Q8_0])
GET(get_pressed_4, s->n_pressed_blocks[KT_KV_Q4_0])
GET(get_now_8, 16.0 * (double)s->kv_blocks_pressed[KT_KV_Q8_0])
GET(get_now_4, 16.0 * (double)s->kv_blocks_pressed[KT_KV_Q4_0])
GET(get_weights, s->mem_weights_bytes)
GET(get_kv, s->mem_kv_bytes)
GET(get_scratch, s->mem_scratch_bytes)
GET(get_prefill_batches, s->n_prefill_batches)
GET(get_decode_batches, s->n_decode_batches)
GET(get_wait, (double)s->predicted_wait_ms * 1e-3)
GET(get_lanes, s->parallel_now)
GET(get_gap, (double)s->gap_ms_now * 1e-3)
#define X(name, text) GET(get_##name, s->n_actions[name])
KT_ACTION_LIST(X)
#undef X
#undef GET

static const row rows[] = {
    {"prompt_tokens_total", "counter", "prompt tokens of started answers", NULL, NULL, get_prompt},
    {"generation_tokens_total", "counter", "tokens sampled", NULL, NULL, get_generated},
    {"recomputed_tokens_total", "counter", "tokens computed again after a preemption", NULL, NULL,
     get_recomputed},
    {"requests_finished_total", "counter", "answers that ended, by the reason", "finish_reason",
     "stop", get_stop},
    {"requests_finished_total", NULL, NULL, "finish_reason", "length", get_length},
    {"requests_finished_total", NULL, NULL, "finish_reason", "cancelled", get_cancelled},
    {"requests_finished_total", NULL, NULL, "finish_reason", "deadline", get_late},
    {"requests_finished_total", NULL, NULL, "finish_reason", "error", get_error},
    {"requests_refused_total", "counter", "requests refused by the scheduler", "reason", "busy",
     get_busy},
    {"requests_refused_total", NULL, NULL, "reason", "deadline", get_deadline},
    {"requests_refused_total", NULL, NULL, "reason", "other", get_other},
    {"prefix_cache_queries_total", "counter", "prompt tokens looked for in the prefix cache", NULL,
     NULL, get_queries},
    {"prefix_cache_hits_total", "counter", "prompt tokens found in the prefix cache", NULL, NULL,
     get_hits},
    {"prefix_cache_disk_hits_total", "counter", "of these, read from disk", NULL, NULL, get_disk},
    {"prefix_cache_evicted_blocks_total", "counter", "blocks given up for others", NULL, NULL,
     get_evicted},
    {"kv_pressed_blocks_total", "counter", "blocks of K/V turned to fewer bits for lack of memory",
     "form", "q8", get_pressed_8},
    {"kv_pressed_blocks_total", NULL, NULL, "form", "q4", get_pressed_4},
    {"preemptions_total", "counter", "answers suspended for lack of K/V blocks", NULL, NULL,
     get_preempted},
    {"speculation_drafted_tokens_total", "counter", "tokens proposed by speculation", NULL, NULL,
     get_drafted},
    {"speculation_accepted_tokens_total", "counter", "of these, right", NULL, NULL, get_accepted},
    {"prefill_batches_total", "counter", "batches with tokens of prompts", NULL, NULL,
     get_prefill_batches},
    {"decode_batches_total", "counter", "batches with tokens of answers", NULL, NULL,
     get_decode_batches},
    {"num_requests_running", "gauge", "answers being computed", NULL, NULL, get_running},
    {"num_requests_waiting", "gauge", "answers queued or suspended", NULL, NULL, get_waiting},
    {"num_requests_held", "gauge", "answers that wait for their reader", NULL, NULL, get_held},
    {"predicted_wait_seconds", "gauge", "until the first token of a short request, now", NULL, NULL,
     get_wait},
    {"kv_cache_usage_ratio", "gauge", "share of K/V blocks in use by answers", NULL, NULL,
     get_usage},
    {"kv_cache_kept_ratio", "gauge", "share of K/V blocks kept for later prompts", NULL, NULL,
     get_kept},
    {"kv_pressed_tokens", "gauge", "positions whose K/V are in fewer bits for lack of memory",
     "form", "q8", get_now_8},
    {"kv_pressed_tokens", NULL, NULL, "form", "q4", get_now_4},
    {"memory_bytes", "gauge", "memory of a model, by kind", "kind", "weights", get_weights},
    {"memory_bytes", NULL, NULL, "kind", "kv", get_kv},
    {"memory_bytes", NULL, NULL, "kind", "scratch", get_scratch},
    {"memory_bytes", NULL, NULL, "kind", "device", get_device_memory},
    {"device_seconds_total", "counter", "time spent waiting for a graphics processor", NULL, NULL,
     get_device_time},
    {"device_lost", "gauge", "1: the graphics processor failed", NULL, NULL, get_device_lost},
    {"device_temperature_celsius", "gauge", "of the graphics processor; 0: unknown", NULL, NULL,
     get_device_temperature},
    {"device_power_watts", "gauge", "that it takes; 0: unknown", NULL, NULL, get_device_power},
    {"experts_used_total", "counter", "experts that layers used, where they are read as needed",
     NULL, NULL, get_experts_used},
    {"experts_missed_total", "counter", "of these, not in memory by then", NULL, NULL,
     get_experts_missed},
    {"expert_read_bytes_total", "counter", "bytes of experts that were read", NULL, NULL,
     get_expert_bytes},
    {"parallel_allowed", "gauge", "answers computed together at most, as the controller allows now",
     NULL, NULL, get_lanes},
    {"prompt_gap_allowed_seconds", "gauge",
     "that prompts may hold up answers between two tokens, as the controller allows now", NULL,
     NULL, get_gap},
#define X(name, text)                         \
    {"optimizer_actions_total",               \
     name ? NULL : "counter",                 \
     name ? NULL : "what the controller did", \
     "action",                                \
     text,                                    \
     get_##name},
    KT_ACTION_LIST(X)
#undef X
};

/* By kind, of loaded models; and what all of them may use. */
static void write_plans(const view *views, size_t n, kt__buf *out) {
    static const struct {
        const char *kind;
        size_t at;
    } parts[] = {{"weights", offsetof(kt_mem_plan, weights_bytes)},
                 {"kv", offsetof(kt_mem_plan, kv_bytes)},
                 {"kv_f16", offsetof(kt_mem_plan, kv_f16_bytes)},
                 {"states", offsetof(kt_mem_plan, state_bytes)},
                 {"scratch", offsetof(kt_mem_plan, scratch_bytes)},
                 {"tables", offsetof(kt_mem_plan, tables_bytes)},
                 {"draft", offsetof(kt_mem_plan, draft_bytes)}};
    uint64_t budget = 0;
    kt__metric_head(out, "memory_planned_bytes", "gauge",
                    "memory planned for a model when it was loaded");
    for (const view *v = views; v < views + n; v++) {
        if (!v->info.loaded) continue;
        if (v->info.plan.budget_bytes > budget) budget = v->info.plan.budget_bytes;
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
            uint64_t bytes;
            memcpy(&bytes, (const char *)&v->info.plan + parts[k].at, sizeof bytes);
            write_sample(out, "memory_planned_bytes", v->label, "kind", parts[k].kind,
                         (double)bytes);
        }
    }
    kt__metric_head(out, "memory_budget_bytes", "gauge",
                    "memory that all models together may use; 0: unknown");
    (void)kt__buf_printf(out, "kentang_memory_budget_bytes %llu\n", (unsigned long long)budget);
}

static void write_engines(kt__metrics *m, kt__buf *out) {
    size_t n = kt__models_count(m->models);
    view *views = kt__calloc(n, sizeof *views);
    if (!views) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        kt__served *served = kt__models_at(m->models, i);
        views[i].label = label_of(m, i);
        kt__served_get_stats(served, &views[i].stats);
        kt__served_get_info(served, &views[i].info);
    }
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        if (rows[r].help) kt__metric_head(out, rows[r].name, rows[r].type, rows[r].help);
        for (size_t i = 0; i < n; i++)
            write_sample(out, rows[r].name, views[i].label, rows[r].key, rows[r].value,
                         rows[r].get(&views[i].stats));
    }
    write_plans(views, n, out);
    kt__metric_head(out, "model_hashed_ratio", "gauge",
                    "share of a model's bytes in the hash that guards its disk cache");
    for (const view *v = views; v < views + n; v++) {
        const kt_hash_info *h = &v->info.hash;
        if (h->bytes_all == 0) continue;
        write_sample(out, "model_hashed_ratio", v->label, NULL, NULL,
                     (double)h->bytes_done / (double)h->bytes_all);
    }
    kt__metric_head(out, "model_loaded", "gauge", "whether a model is loaded");
    for (size_t i = 0; i < n; i++)
        write_sample(out, "model_loaded", views[i].label, NULL, NULL, views[i].info.loaded);
    kt__free(views);
}

/* Of servers that learn; with nothing from anybody in particular. */
static void write_learning(kt__metrics *m, kt__buf *out) {
    static const struct {
        const char *name, *type, *help;
    } of[] = {
        {"feedback_total", "counter", "feedbacks that were taken"},
        {"feedback_refused_total", "counter", "feedbacks that their namespace or the disk refused"},
        {"feedback_tokens_total", "counter", "tokens that are recalled because of feedback"},
        {"feedback_keys_seconds_total", "counter", "computing corrections' hidden states"},
        {"feedback_update_seconds_total", "counter", "journal and new versions"},
        {"feedback_pending", "gauge", "feedbacks that no training has seen"},
        {"noted_prompts_total", "counter", "prompts with notes from corrections"},
        {"notes_total", "counter", "notes in them"},
        {"trainings_published_total", "counter", "trainings whose adapter is served"},
        {"trainings_refused_total", "counter", "trainings whose adapter the gate refused"},
        {"trainings_failed_total", "counter", "trainings that ended with an error, or cancelled"},
        {"training_seconds_total", "counter", "wall time of trainings"},
        {"trainings_running", "gauge", "trainings that run now"}};
    if (!m->learns) return;
    for (size_t r = 0; r < sizeof of / sizeof of[0]; r++) {
        kt__metric_head(out, of[r].name, of[r].type, of[r].help);
        for (size_t i = 0, n = kt__models_count(m->models); i < n; i++) {
            kt__learner_counts c;
            kt__learner_table *table = kt__served_learners(kt__models_at(m->models, i));
            kt__learner_table_counts(table, &c);
            const double values[] = {
                (double)c.n_taken,          (double)c.n_refused,
                (double)c.n_pairs,          (double)c.keys_us * 1e-6,
                (double)c.update_us * 1e-6, (double)kt__learner_table_pending(table),
                (double)c.n_noted,          (double)c.n_notes,
                (double)c.n_published,      (double)c.n_not_published,
                (double)c.n_failed,         (double)c.train_us * 1e-6,
                (double)c.n_training};
            write_sample(out, of[r].name, label_of(m, i), NULL, NULL, values[r]);
        }
    }
}

static void write_answers(kt__metrics *m, kt__buf *out) {
    answers copy[MAX_ANSWERS];
    pthread_mutex_lock(&m->lock);
    size_t n = m->n_answered;
    memcpy(copy, m->answered, n * sizeof copy[0]);
    pthread_mutex_unlock(&m->lock);
    kt__metric_head(out, "answers_total", "counter", "answers to requests, by route and status");
    for (size_t i = 0; i < n; i++) {
        (void)kt__buf_printf(out, "kentang_answers_total{route=\"%s\",code=\"%d\"} %llu\n",
                             copy[i].route, copy[i].code, (unsigned long long)copy[i].n);
    }
}

static void write_connections(kt__metrics *m, kt__buf *out) {
    static const char *const names[] = {"http", "socket"};
    kt__metric_head(out, "connections", "gauge", "open connections");
    for (int i = 0; i < 2; i++)
        (void)kt__buf_printf(out, "kentang_connections{interface=\"%s\"} %d\n", names[i],
                             atomic_load(&m->connections[i]));
    kt__metric_head(out, "connections_accepted_total", "counter", "connections accepted");
    for (int i = 0; i < 2; i++)
        (void)kt__buf_printf(out, "kentang_connections_accepted_total{interface=\"%s\"} %lu\n",
                             names[i], atomic_load(&m->accepted[i]));
    kt__metric_head(out, "connections_refused_total", "counter",
                    "connections that found no room: answered with an error, or closed idle");
    for (int i = 0; i < 2; i++)
        (void)kt__buf_printf(out, "kentang_connections_refused_total{interface=\"%s\"} %lu\n",
                             names[i], atomic_load(&m->refused[i]));
}

/* Since the last writing, as llama-server: its rates are of the time between two looks. */
static rates take_rates(kt__metrics *m, rates now) {
    pthread_mutex_lock(&m->lock);
    const rates was = m->reported;
    m->reported = now;
    pthread_mutex_unlock(&m->lock);
    return (rates){now.prompt - was.prompt, now.prompt_s - was.prompt_s,
                   now.generated - was.generated, now.decode_s - was.decode_s};
}

static double rate_of(double n, double seconds) {
    return n > 0 && seconds > 0 ? n / seconds : 0;
}

/* llama-server's names, for dashboards that know them: sums over all models. */
static void write_llama_metrics(kt__metrics *m, kt__buf *out) {
    rates now = {0};
    double cached = 0, decodes = 0, steps = 0, drafts = 0, drafted = 0, accepted = 0, running = 0,
           waiting = 0;
    for (size_t i = 0; i < kt__models_count(m->models); i++) {
        kt_engine_stats st;
        kt__served_get_stats(kt__models_at(m->models, i), &st);
        now.prompt += (double)(st.prompt_tokens - st.cached_tokens);
        cached += (double)st.cached_tokens;
        now.prompt_s += (double)st.prefill_us / 1e6;
        now.generated += (double)st.generated_tokens;
        now.decode_s += (double)(st.decode_us + st.sample_us) / 1e6;
        decodes += (double)(st.n_prefill_batches + st.n_decode_batches);
        steps += (double)st.n_decode_batches;
        drafts += (double)st.n_drafts;
        drafted += (double)st.drafted_tokens;
        accepted += (double)st.accepted_tokens;
        running += st.running;
        waiting += st.waiting;
    }
    const rates since = take_rates(m, now);
    const struct {
        const char *name, *type, *help;
        double value;
    } figures[] = {
        {"prompt_tokens_total", "counter", "Prompt tokens that were computed.", now.prompt},
        {"prompt_tokens_cached_total", "counter", "Prompt tokens that were found.", cached},
        {"prompt_seconds_total", "counter", "Time of prompts.", now.prompt_s},
        {"tokens_predicted_total", "counter", "Tokens that were generated.", now.generated},
        {"tokens_predicted_seconds_total", "counter", "Time of generation.", now.decode_s},
        {"n_decode_total", "counter", "Batches that were computed.", decodes},
        {"n_tokens_max", "counter", "Tokens of the longest prompt with its answer.",
         (double)m->longest},
        {"spec_decode_num_drafts_total", "counter", "Steps with tokens that were proposed.",
         drafts},
        {"spec_decode_num_draft_tokens_total", "counter", "Tokens that were proposed.", drafted},
        {"spec_decode_num_accepted_tokens_total", "counter", "Of these, right.", accepted},
        {"prompt_tokens_seconds", "gauge", "Prompt tokens a second, since the last look.",
         rate_of(since.prompt, since.prompt_s)},
        {"predicted_tokens_seconds", "gauge", "Generated tokens a second, since the last look.",
         rate_of(since.generated, since.decode_s)},
        {"requests_processing", "gauge", "Answers that are computed.", running},
        {"requests_deferred", "gauge", "Answers that wait.", waiting},
        {"n_busy_slots_per_decode", "gauge", "Answers of a batch.",
         steps > 0 ? now.generated / steps : 0},
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        (void)kt__buf_printf(out,
                             "# HELP llamacpp:%s %s\n# TYPE llamacpp:%s %s\nllamacpp:%s %.9g\n",
                             figures[i].name, figures[i].help, figures[i].name, figures[i].type,
                             figures[i].name, figures[i].value);
}

void kt__metrics_write(kt__metrics *m, kt__buf *out) {
    (void)kt__buf_reserve(out, kt__models_count(m->models) * USUAL_BYTES);
    kt__metric_head(out, "build_info", "gauge", "the version that runs");
    (void)kt__buf_printf(out, "kentang_build_info{version=\"%s\",numerics=\"%d\"} 1\n",
                         kt_version(), KENTANG_NUMERICS);
    for (int id = 0; id < KT__HISTOGRAMS; id++) write_histogram(m, id, out);
    write_engines(m, out);
    write_learning(m, out);
    write_answers(m, out);
    write_connections(m, out);
    write_llama_metrics(m, out);
    kt__system_metrics_write(out);
}

/* ---- system metrics ---- */

void kt__metric_head(kt__buf *out, const char *name, const char *type, const char *help) {
    (void)kt__buf_printf(out, "# HELP kentang_%s %s\n# TYPE kentang_%s %s\n", name, help, name,
                         type);
}

static bool read_file(const char *path, char *out, size_t size) {
    int fd = kt__fd_open(path, KT__OPEN_READ);
    if (fd < 0) return false;
    ssize_t n = kt__fd_read(fd, out, size - 1); /* these files come whole */
    kt__fd_close(fd);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* The number after "KEY " at the start of a line. */
static bool number_after(const char *text, const char *key, double *out) {
    size_t len = strlen(key);
    for (const char *at = text; at; at = strchr(at, '\n')) {
        if (*at == '\n') at++;
        if (!strncmp(at, key, len) && (at[len] == ' ' || at[len] == ':')) {
            *out = strtod(at + len + 1, NULL);
            return true;
        }
    }
    return false;
}

/* A file of our cgroup under one of its two names (a container sees its own as the root). line: of
 * /proc/self/cgroup, "5:cpu,cpuacct:/path" or "0::/path", which is taken apart. */
static bool read_group_file(char *line, const char *controller, const char *file, char *text,
                            size_t size) {
    char path[4400], *name = strchr(line, ':'), *dir = name ? strchr(name + 1, ':') : NULL;
    if (!dir) return false;
    *dir++ = '\0';
    bool v2 = !strcmp(line, "0:"), v1 = false;
    for (char *rest = name + 1, *one; (one = strsep(&rest, ",")) != NULL;)
        v1 |= !strcmp(one, controller);
    if (!v2 && !v1) return false;
    const char *tries[] = {dir, ""};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s%s%s/%s", v2 ? "" : "/", v2 ? "" : controller,
                 tries[i], file);
        if (read_file(path, text, size)) return true;
    }
    return false;
}

static bool read_cgroup(const char *controller, const char *file, char *text, size_t size) {
    char groups[4096];
    if (!read_file("/proc/self/cgroup", groups, sizeof groups)) return false;
    for (char *rest = groups, *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (read_group_file(line, controller, file, text, size)) return true;
    }
    return false;
}

/* Seconds that the cgroup's quota has kept us waiting; both versions of cgroups. */
static bool throttled_seconds(double *out) {
    char text[2048];
    if (!read_cgroup("cpu", "cpu.stat", text, sizeof text)) return false;
    if (number_after(text, "throttled_usec", out)) return *out *= 1e-6, true;
    if (number_after(text, "throttled_time", out)) return *out *= 1e-9, true;
    return false;
}

/* Seconds in which nothing could run for want of memory: of our cgroup, else of the machine. */
static bool stalled_seconds(double *out) {
    char text[512];
    if (!read_cgroup("memory", "memory.pressure", text, sizeof text) &&
        !read_file("/proc/pressure/memory", text, sizeof text))
        return false;
    const char *full = strstr(text, "full "), *total = full ? strstr(full, "total=") : NULL;
    if (!total) return false;
    *out = strtod(total + 6, NULL) * 1e-6;
    return true;
}

/* ---- writing ---- */

/* Of builds with a sanitizer, whose resident memory is mostly shadow, quarantine and free lists:
 * only what is allocated and not freed says there whether memory is lost (tests/soak asks for it).
 */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static void write_heap(kt__buf *out) {
    if (!__sanitizer_get_current_allocated_bytes) return;
    kt__metric_head(out, "heap_bytes", "gauge",
                    "memory allocated and not freed; with sanitizers only");
    (void)kt__buf_printf(out, "kentang_heap_bytes %zu\n",
                         __sanitizer_get_current_allocated_bytes());
}

static void write_processor(const kt__process_use *use, kt__buf *out) {
    double seconds = 0;
    if (throttled_seconds(&seconds)) {
        kt__metric_head(out, "cpu_throttled_seconds_total", "counter",
                        "time lost to the cgroup's CPU quota");
        (void)kt__buf_printf(out, "kentang_cpu_throttled_seconds_total %.6f\n", seconds);
    }
    kt__metric_head(out, "cpu_seconds_total", "counter", "processor time used");
    (void)kt__buf_printf(out, "kentang_cpu_seconds_total %.6f\n", (double)use->cpu_us * 1e-6);
}

static void write_heat_gauge(kt__buf *out, const char *name, const char *help, double value) {
    if (value <= 0) return; /* this machine does not tell */
    kt__metric_head(out, name, "gauge", help);
    (void)kt__buf_printf(out, "kentang_%s %.15g\n", name, value);
}

static void write_heat(kt__buf *out) {
    kt_heat heat;
    kt_heat_read(&heat);
    write_heat_gauge(out, "cpu_frequency_hertz", "the processors' frequency now, in the mean",
                     heat.mhz * 1e6);
    write_heat_gauge(out, "cpu_frequency_max_hertz", "the highest that a processor is made for",
                     heat.mhz_max * 1e6);
    write_heat_gauge(out, "cpu_temperature_celsius", "of the hottest sensor at a processor",
                     heat.celsius);
    if (!heat.counts_throttling) return;
    kt__metric_head(out, "cpu_thermal_throttles_total", "counter",
                    "times that a processor was slowed down for heat, since boot");
    (void)kt__buf_printf(out, "kentang_cpu_thermal_throttles_total %llu\n",
                         (unsigned long long)heat.n_throttled);
}

/* Too little memory for mapped weights shows in the bytes that are read again: readahead makes few
 * faults of them, and large ones. */
static void write_paging(const kt__process_use *use, kt__buf *out) {
    char text[1024];
    double number = 0;
    kt__metric_head(out, "major_page_faults_total", "counter", "accesses that waited for the disk");
    (void)kt__buf_printf(out, "kentang_major_page_faults_total %llu\n",
                         (unsigned long long)use->major_faults);
    if (read_file("/proc/self/io", text, sizeof text) &&
        number_after(text, "read_bytes", &number)) {
        kt__metric_head(out, "disk_read_bytes_total", "counter",
                        "bytes fetched from disk for the process, mapped files included");
        (void)kt__buf_printf(out, "kentang_disk_read_bytes_total %.0f\n", number);
    }
    if (stalled_seconds(&number)) {
        kt__metric_head(out, "memory_stalled_seconds_total", "counter",
                        "time in which all of the cgroup, or the machine, waited for memory");
        (void)kt__buf_printf(out, "kentang_memory_stalled_seconds_total %.6f\n", number);
    }
}

static void write_resident(kt__buf *out) {
    char status[4096] = "";
    double anonymous_kb = 0, file_kb = 0;
    (void)read_file("/proc/self/status", status, sizeof status);
    (void)number_after(status, "RssAnon", &anonymous_kb);
    (void)number_after(status, "RssFile", &file_kb);
    kt__metric_head(out, "resident_memory_bytes", "gauge",
                    "resident memory of the process, by kind");
    (void)kt__buf_printf(out,
                         "kentang_resident_memory_bytes{kind=\"anonymous\"} %.0f\n"
                         "kentang_resident_memory_bytes{kind=\"file\"} %.0f\n",
                         anonymous_kb * 1024, file_kb * 1024);
}

void kt__system_metrics_write(kt__buf *out) {
    kt__process_use use;
    if (kt__process_used(&use)) {
        write_processor(&use, out);
        write_paging(&use, out);
    }
    write_heat(out);
    write_resident(out);
    write_heap(out);
}
