#include "serve/metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

static const double second_bounds[] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075,
                                       0.1,   0.15,  0.2,   0.25, 0.35, 0.5,   0.75, 1,
                                       1.5,   2.5,   5,     10,   20,   40,    80,   160};
static const double rate_bounds[] = {0.5, 1,  2,  3,  4,  6,   8,   10,  13,  16,  20,  25,
                                     30,  40, 50, 65, 80, 100, 130, 160, 200, 300, 500, 1000};
enum { N_BOUNDS = 24, MAX_ANSWERS = 256 };
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

struct kt__metrics {
    pthread_mutex_t lock; /* for moments only */
    kt__models *models;
    int64_t start_s;
    answers answered[MAX_ANSWERS];
    size_t n_answered;
    uint64_t n_unlisted;
    _Atomic int connections[2];
    _Atomic unsigned long accepted[2];
    histogram (*histograms)[KT__HISTOGRAMS]; /* [models] */
};

kt_status kt__metrics_create(kt__models *models, kt__metrics **out, kt_error *err) {
    *out = kt__calloc(1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "metrics", sizeof **out);
    (*out)->histograms = kt__calloc(kt__models_count(models), sizeof *(*out)->histograms);
    if (!(*out)->histograms) {
        kt__free(*out);
        return kt__fail_nomem(err, "metrics", 0);
    }
    (*out)->models = models;
    pthread_mutex_init(&(*out)->lock, NULL);
    return KT_OK;
}

void kt__metrics_free(kt__metrics *m) {
    if (!m) return;
    pthread_mutex_destroy(&m->lock);
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

void kt__metrics_finished(kt__metrics *m, const kt__served *model, const kt_req_report *r) {
    kt__metrics_observe(m, model, KT__HIST_ALL, (double)r->total_us * 1e-6);
    kt__metrics_observe(m, model, KT__HIST_QUEUE, (double)r->queue_us * 1e-6);
    if (r->first_token_us <= 0) return;
    kt__metrics_observe(m, model, KT__HIST_FIRST, (double)r->first_token_us * 1e-6);
    kt__metrics_observe(m, model, KT__HIST_PREFILL, (double)r->prefill_us * 1e-6);
    kt__metrics_observe(m, model, KT__HIST_DECODE, (double)r->decode_us * 1e-6);
    int64_t after_us = r->total_us - r->first_token_us;
    if (r->n_generated > 1 && after_us > 0)
        kt__metrics_observe(m, model, KT__HIST_RATE,
                            (double)(r->n_generated - 1) * 1e6 / (double)after_us);
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

/* ---- the system ---- */

static bool read_file(const char *path, char *out, size_t size) {
    FILE *in = fopen(path, "re");
    if (!in) return false;
    size_t n = fread(out, 1, size - 1, in);
    fclose(in);
    out[n] = '\0';
    return n > 0;
}

/* The number behind "KEY " at the start of a line. */
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

/* Seconds that the cgroup's quota has kept us waiting; both versions of cgroups. */
static bool throttled_seconds(double *out) {
    char groups[4096], path[4400], text[2048];
    if (!read_file("/proc/self/cgroup", groups, sizeof groups)) return false;
    for (char *line = groups, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        char *name = strchr(line, ':'), *dir = name ? strchr(name + 1, ':') : NULL;
        if (!dir) continue;
        *dir++ = '\0';
        bool v2 = !strcmp(line, "0:"), cpu = strstr(name + 1, "cpu") && !strstr(name + 1, "cpuset");
        if (!v2 && !cpu) continue;
        const char *tries[] = {dir, ""};
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "/sys/fs/cgroup%s%s/cpu.stat", v2 ? "" : "/cpu", tries[i]);
            if (!read_file(path, text, sizeof text)) continue;
            if (number_after(text, "throttled_usec", out)) return *out *= 1e-6, true;
            if (number_after(text, "throttled_time", out)) return *out *= 1e-9, true;
        }
    }
    return false;
}

static double resident_bytes(const char *key) {
    char text[4096];
    double kb = 0;
    if (read_file("/proc/self/status", text, sizeof text)) (void)number_after(text, key, &kb);
    return kb * 1024;
}

/* ---- writing ---- */

static void head(kt__buf *out, const char *name, const char *type, const char *help) {
    (void)kt__buf_printf(out, "# HELP kentang_%s %s\n# TYPE kentang_%s %s\n", name, help, name,
                         type);
}

/* A label's value; backslash, quote and newline are escaped. */
static void label(kt__buf *out, const char *text) {
    (void)kt__buf_putc(out, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') (void)kt__buf_putc(out, '\\');
        if (*text == '\n') {
            (void)kt__buf_puts(out, "\\n");
        } else {
            (void)kt__buf_putc(out, *text);
        }
    }
    (void)kt__buf_putc(out, '"');
}

static void write_histogram(kt__metrics *m, int id, kt__buf *out) {
    const char *name = histogram_info[id].name;
    const double *bounds = bounds_of((kt__histogram_id)id);
    head(out, name, "histogram", histogram_info[id].help);
    for (size_t i = 0; i < kt__models_count(m->models); i++) {
        const char *model = kt__served_name(kt__models_at(m->models, i));
        pthread_mutex_lock(&m->lock);
        histogram h = m->histograms[i][id];
        pthread_mutex_unlock(&m->lock);
        uint64_t below = 0;
        for (int b = 0; b <= N_BOUNDS; b++) {
            below += h.counts[b];
            (void)kt__buf_printf(out, "kentang_%s_bucket{model=", name);
            label(out, model);
            if (b < N_BOUNDS) {
                (void)kt__buf_printf(out, ",le=\"%g\"} %llu\n", bounds[b],
                                     (unsigned long long)below);
            } else {
                (void)kt__buf_printf(out, ",le=\"+Inf\"} %llu\n", (unsigned long long)below);
            }
        }
        (void)kt__buf_printf(out, "kentang_%s_sum{model=", name);
        label(out, model);
        (void)kt__buf_printf(out, "} %.9g\nkentang_%s_count{model=", h.sum, name);
        label(out, model);
        (void)kt__buf_printf(out, "} %llu\n", (unsigned long long)h.n);
    }
}

static void sample(kt__buf *out, const char *name, const char *model, const char *key,
                   const char *value, double x) {
    (void)kt__buf_printf(out, "kentang_%s{model=", name);
    label(out, model);
    if (key) {
        (void)kt__buf_printf(out, ",%s=", key);
        label(out, value);
    }
    (void)kt__buf_printf(out, "} %.15g\n", x);
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
GET(get_weights, s->mem_weights_bytes)
GET(get_kv, s->mem_kv_bytes)
GET(get_scratch, s->mem_scratch_bytes)
GET(get_prefill_batches, s->n_prefill_batches)
GET(get_decode_batches, s->n_decode_batches)
GET(get_wait, (double)s->predicted_wait_ms * 1e-3)
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
    {"memory_bytes", "gauge", "memory of a model, by kind", "kind", "weights", get_weights},
    {"memory_bytes", NULL, NULL, "kind", "kv", get_kv},
    {"memory_bytes", NULL, NULL, "kind", "scratch", get_scratch},
};

/* By kind, of loaded models; and what all of them may use. */
static void write_plans(kt__metrics *m, kt__buf *out) {
    static const struct {
        const char *kind;
        size_t at;
    } parts[] = {{"weights", offsetof(kt_mem_plan, weights_bytes)},
                 {"kv", offsetof(kt_mem_plan, kv_bytes)},
                 {"scratch", offsetof(kt_mem_plan, scratch_bytes)},
                 {"tables", offsetof(kt_mem_plan, tables_bytes)},
                 {"draft", offsetof(kt_mem_plan, draft_bytes)}};
    uint64_t budget = 0;
    head(out, "memory_planned_bytes", "gauge", "memory planned for a model when it was loaded");
    for (size_t i = 0; i < kt__models_count(m->models); i++) {
        kt__served_info info;
        kt__served_get_info(kt__models_at(m->models, i), &info);
        if (!info.loaded) continue;
        if (info.plan.budget_bytes > budget) budget = info.plan.budget_bytes;
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
            uint64_t bytes;
            memcpy(&bytes, (const char *)&info.plan + parts[k].at, sizeof bytes);
            sample(out, "memory_planned_bytes", info.name, "kind", parts[k].kind, (double)bytes);
        }
    }
    head(out, "memory_budget_bytes", "gauge",
         "memory that all models together may use; 0: unknown");
    (void)kt__buf_printf(out, "kentang_memory_budget_bytes %llu\n", (unsigned long long)budget);
}

static void write_engines(kt__metrics *m, kt__buf *out) {
    size_t n = kt__models_count(m->models);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        if (rows[r].help) head(out, rows[r].name, rows[r].type, rows[r].help);
        for (size_t i = 0; i < n; i++) {
            kt__served *served = kt__models_at(m->models, i);
            kt_engine_stats stats;
            kt__served_get_stats(served, &stats);
            sample(out, rows[r].name, kt__served_name(served), rows[r].key, rows[r].value,
                   rows[r].get(&stats));
        }
    }
    write_plans(m, out);
    head(out, "model_loaded", "gauge", "whether a model is loaded");
    for (size_t i = 0; i < n; i++) {
        kt__served_info info;
        kt__served_get_info(kt__models_at(m->models, i), &info);
        sample(out, "model_loaded", info.name, NULL, NULL, info.loaded);
    }
}

static void write_answers(kt__metrics *m, kt__buf *out) {
    answers copy[MAX_ANSWERS];
    pthread_mutex_lock(&m->lock);
    size_t n = m->n_answered;
    memcpy(copy, m->answered, n * sizeof copy[0]);
    pthread_mutex_unlock(&m->lock);
    head(out, "answers_total", "counter", "answers to requests, by route and status");
    for (size_t i = 0; i < n; i++) {
        (void)kt__buf_printf(out, "kentang_answers_total{route=\"%s\",code=\"%d\"} %llu\n",
                             copy[i].route, copy[i].code, (unsigned long long)copy[i].n);
    }
    static const char *const names[] = {"http", "socket"};
    head(out, "connections", "gauge", "open connections");
    for (int i = 0; i < 2; i++)
        (void)kt__buf_printf(out, "kentang_connections{interface=\"%s\"} %d\n", names[i],
                             atomic_load(&m->connections[i]));
    head(out, "connections_accepted_total", "counter", "connections accepted");
    for (int i = 0; i < 2; i++)
        (void)kt__buf_printf(out, "kentang_connections_accepted_total{interface=\"%s\"} %lu\n",
                             names[i], atomic_load(&m->accepted[i]));
}

static void write_system(kt__buf *out) {
    struct rusage usage;
    double seconds = 0;
    if (throttled_seconds(&seconds)) {
        head(out, "cpu_throttled_seconds_total", "counter", "time lost to the cgroup's CPU quota");
        (void)kt__buf_printf(out, "kentang_cpu_throttled_seconds_total %.6f\n", seconds);
    }
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        head(out, "cpu_seconds_total", "counter", "processor time used");
        (void)kt__buf_printf(out, "kentang_cpu_seconds_total %.6f\n",
                             (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6);
        head(out, "major_page_faults_total", "counter", "pages read from disk on access");
        (void)kt__buf_printf(out, "kentang_major_page_faults_total %ld\n", usage.ru_majflt);
    }
    head(out, "resident_memory_bytes", "gauge", "resident memory of the process, by kind");
    (void)kt__buf_printf(out, "kentang_resident_memory_bytes{kind=\"anonymous\"} %.0f\n",
                         resident_bytes("RssAnon"));
    (void)kt__buf_printf(out, "kentang_resident_memory_bytes{kind=\"file\"} %.0f\n",
                         resident_bytes("RssFile"));
}

void kt__metrics_write(kt__metrics *m, kt__buf *out) {
    head(out, "build_info", "gauge", "the version that runs");
    (void)kt__buf_printf(out, "kentang_build_info{version=\"%s\",numerics=\"%d\"} 1\n",
                         kt_version(), KENTANG_NUMERICS);
    for (int id = 0; id < KT__HISTOGRAMS; id++) write_histogram(m, id, out);
    write_engines(m, out);
    write_answers(m, out);
    write_system(out);
}
