#include "services/routes.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/thread.h"

enum {
    MAX_ROUTES = 64,
    MAX_EXAMPLES = 256, /* of a route */
    MAX_EXAMPLE = 4096, /* bytes */
    MAX_FILE = 4 << 20
};

/* What ratings move a route by at most, in cosines, and how many make half of it. Of forty questions of two kinds with
 * all-MiniLM-L6-v2 the four that took the wrong route differed by 0.04 and less, and most of the others by more
 * (tests/trained/routes.py): ratings decide where examples hardly do. */
static const double rated_most = 0.05, rated_half = 4;

struct kt__routes {
    pthread_mutex_t lock; /* of all below; held while the encoder works */
    kt__models *models;
    kt__slog *log;
    char *path;
    int64_t file_s; /* of the file that was read */
    uint64_t file_bytes;
    json_t *table;
    float **
        vectors; /* [n_vectors] of all examples, one route after the other; NULL: not computed yet */
    size_t n_vectors;
    size_t dim;
};

/* ---- the table ---- */

static kt_status fail_member(const char *where, const char *expected, kt_error *err) {
    return kt__fail_at(err, KT_E_ARG, where, UINT64_MAX, "%s: expected %s", where, expected);
}

static json_t *list_of(const json_t *table) {
    return json_object_get(table, "routes");
}

static json_t *route_at(const json_t *table, size_t i) {
    return json_array_get(list_of(table), i);
}

static const char *text_of(const json_t *o, const char *key) {
    return json_string_value(json_object_get(o, key));
}

static json_t *find_route(const json_t *table, const char *name) {
    for (size_t i = 0; name && i < json_array_size(list_of(table)); i++) {
        const char *own = text_of(route_at(table, i), "name");
        if (own && !strcmp(own, name)) return route_at(table, i);
    }
    return NULL;
}

static kt_status check_model(kt__models *models, const char *where, const char *name,
                             kt_error *err) {
    kt__served *served;
    kt_error why;
    if (!name || !*name) return fail_member(where, "the name of a served model", err);
    if (kt__models_find(models, name, &served, &why) == KT_OK) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, where, UINT64_MAX, "%s: %s", where, why.message);
}

/* json: NULL, or a whole number from 0 on */
static bool is_count(const json_t *json) {
    return !json || (json_is_integer(json) && json_integer_value(json) >= 0);
}

static kt_status check_examples(const json_t *list, const char *where, kt_error *err) {
    if (!json_array_size(list) || json_array_size(list) > MAX_EXAMPLES)
        return fail_member(where, "1 to 256 texts that the route is for", err);
    for (size_t k = 0; k < json_array_size(list); k++) {
        const char *text = json_string_value(json_array_get(list, k));
        if (!text || !*text || strlen(text) > MAX_EXAMPLE)
            return fail_member(where, "texts of 1 to 4096 bytes", err);
    }
    return KT_OK;
}

static kt_status check_route(kt__models *models, const json_t *table, size_t i, kt_error *err) {
    kt__routes_choice fits;
    const json_t *route = route_at(table, i);
    const char *name = text_of(route, "name"), *model = text_of(route, "model");
    const json_t *adapter = json_object_get(route, "adapter");
    char where[64];
    snprintf(where, sizeof where, "routes[%zu].name", i);
    if (!name || !*name || strlen(name) >= sizeof fits.route)
        return fail_member(where, "a name of 1 to 63 bytes", err);
    if (find_route(table, name) != route) return fail_member(where, "another name", err);
    snprintf(where, sizeof where, "routes[%zu].model", i);
    KT__STEP(check_model(models, where, model, err));
    if (strlen(model) >= sizeof fits.model) return fail_member(where, "a shorter name", err);
    snprintf(where, sizeof where, "routes[%zu].adapter", i);
    if (adapter && !json_is_null(adapter) &&
        (!json_is_string(adapter) || json_string_length(adapter) >= sizeof fits.adapter))
        return fail_member(where, "the name of an adapter", err);
    snprintf(where, sizeof where, "routes[%zu].good", i);
    if (!is_count(json_object_get(route, "good"))) return fail_member(where, "a count", err);
    snprintf(where, sizeof where, "routes[%zu].bad", i);
    if (!is_count(json_object_get(route, "bad"))) return fail_member(where, "a count", err);
    snprintf(where, sizeof where, "routes[%zu].examples", i);
    return check_examples(json_object_get(route, "examples"), where, err);
}

static kt_status check_table(kt__models *models, const json_t *table, kt_error *err) {
    const json_t *least = json_object_get(table, "least"),
                 *otherwise = json_object_get(table, "otherwise");
    size_t n = json_array_size(list_of(table));
    if (!n || n > MAX_ROUTES) return fail_member("routes", "an array of 1 to 64 routes", err);
    KT__STEP(check_model(models, "encoder", text_of(table, "encoder"), err));
    if (least && !json_is_number(least)) return fail_member("least", "a cosine, -1 to 1", err);
    for (size_t i = 0; i < n; i++) KT__STEP(check_route(models, table, i, err));
    if (otherwise && !find_route(table, json_string_value(otherwise)))
        return fail_member("otherwise", "the name of a route", err);
    return KT_OK;
}

static kt_status parse_table(kt__models *models, const char *json, size_t len, json_t **out,
                             kt_error *err) {
    json_error_t at;
    *out = json_loadb(json, len, JSON_REJECT_DUPLICATES, &at);
    if (!*out)
        return kt__fail_at(err, KT_E_ARG, "routes", (uint64_t)at.position,
                           "routes: line %d: %.160s", at.line, at.text);
    kt_status status = check_table(models, *out, err);
    if (status == KT_OK) return KT_OK;
    json_decref(*out);
    *out = NULL;
    return status;
}

/* ---- the file; the lock is held ---- */

static void forget_vectors(kt__routes *r) {
    for (size_t i = 0; i < r->n_vectors; i++) kt__free(r->vectors[i]);
    kt__free(r->vectors);
    r->vectors = NULL;
    r->n_vectors = r->dim = 0;
}

static void take_table(kt__routes *r, json_t *table) {
    json_decref(r->table);
    r->table = table;
    forget_vectors(r);
}

static void note_file(kt__routes *r) {
    kt__file_info st;
    if (!kt__file_look(r->path, &st)) return;
    r->file_s = st.changed_s;
    r->file_bytes = st.bytes;
}

static kt_status read_file(kt__routes *r, kt_error *err) {
    kt__buf text;
    json_t *table;
    kt__buf_init(&text, MAX_FILE);
    note_file(r);
    kt_status status = kt__files_read(r->path, &text, err);
    if (status == KT_OK)
        status = parse_table(r->models, text.data ? text.data : "", text.len, &table, err);
    if (status == KT_OK) take_table(r, table);
    kt__buf_free(&text);
    return status;
}

static kt_status write_file(kt__routes *r, const json_t *table, kt_error *err) {
    char dir[KT__FILES_PATH_MAX];
    const char *name = kt__files_name(r->path);
    char *text = json_dumps(table, JSON_INDENT(2));
    if (!text) return kt__fail_nomem(err, "the routes", 0);
    snprintf(dir, sizeof dir, "%.*s", (int)(name - r->path), r->path);
    kt_status status = kt__files_replace(*dir ? dir : ".", name, text, strlen(text), err);
    free(text);
    if (status == KT_OK) note_file(r);
    return status;
}

static void look_at_file(kt__routes *r) {
    kt__file_info st;
    kt_error err;
    if (!kt__file_look(r->path, &st) || (st.changed_s == r->file_s && st.bytes == r->file_bytes))
        return;
    if (read_file(r, &err) == KT_OK) return;
    kt__slog_line(r->log, KT_LOG_WARN, "%s is not read, and the routes before it hold: %s", r->path,
                  err.message);
}

kt_status kt__routes_open(const char *path, kt__models *models, kt__slog *log, kt__routes **out,
                          kt_error *err) {
    *out = NULL;
    kt__routes *r = kt__calloc(1, sizeof *r);
    if (!r) return kt__fail_nomem(err, "the routes", sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    r->models = models;
    r->log = log;
    r->path = kt__strndup(path, strlen(path));
    kt_status status = r->path ? read_file(r, err) : kt__fail_nomem(err, "the routes", 0);
    if (status == KT_OK)
        *out = r;
    else
        kt__routes_close(r);
    return status;
}

void kt__routes_close(kt__routes *routes) {
    if (!routes) return;
    take_table(routes, NULL);
    pthread_mutex_destroy(&routes->lock);
    kt__free(routes->path);
    kt__free(routes);
}

kt_status kt__routes_write(kt__routes *routes, kt__buf *out, kt_error *err) {
    pthread_mutex_lock(&routes->lock);
    look_at_file(routes);
    char *text = json_dumps(routes->table, JSON_COMPACT);
    pthread_mutex_unlock(&routes->lock);
    if (!text) return kt__fail_nomem(err, "the routes", 0);
    bool whole = kt__buf_append(out, text, strlen(text));
    free(text);
    return whole ? KT_OK : kt__fail_nomem(err, "the routes", 0);
}

kt_status kt__routes_replace(kt__routes *routes, const char *json, size_t len, kt_error *err) {
    json_t *table;
    KT__STEP(parse_table(routes->models, json, len, &table, err));
    pthread_mutex_lock(&routes->lock);
    kt_status status = write_file(routes, table, err);
    if (status == KT_OK)
        take_table(routes, table);
    else
        json_decref(table);
    pthread_mutex_unlock(&routes->lock);
    return status;
}

/* ---- embeddings ---- */

typedef struct embedding {
    float *v;
    size_t n;
} embedding;

static bool take_embedding(void *user, const char *json, size_t len) {
    embedding *e = user;
    json_t *event = json_loadb(json, len, 0, NULL);
    const json_t *list = json_object_get(event, "embedding");
    size_t n = json_array_size(list);
    if (n && !e->v) e->v = kt__calloc(n, sizeof *e->v);
    if (n && e->v) e->n = n;
    for (size_t i = 0; i < n && e->v; i++)
        e->v[i] = (float)json_number_value(json_array_get(list, i));
    json_decref(event);
    return true;
}

/* Of length 1. */
static kt_status embed(kt_engine *engine, const char *text, embedding *out, kt_error *err) {
    *out = (embedding){0};
    json_t *call = json_pack("{s:s,s:s}", "call", "embed", "prompt", text);
    char *json = call ? json_dumps(call, JSON_COMPACT) : NULL;
    kt_status status = json ? kt_call_json(engine, json, strlen(json), take_embedding, out, err)
                            : kt__fail(err, KT_E_ARG, "the text is not UTF-8");
    free(json);
    json_decref(call);
    if (status == KT_OK && !out->v) status = kt__fail_nomem(err, "an embedding", 0);
    if (status != KT_OK) kt__free(out->v);
    return status;
}

/* Vectors of all examples: once a table. The lock is held. */
static kt_status embed_examples(kt__routes *r, kt_engine *engine, kt_error *err) {
    size_t n = 0, at = 0;
    if (r->vectors) return KT_OK;
    for (size_t i = 0; i < json_array_size(list_of(r->table)); i++)
        n += json_array_size(json_object_get(route_at(r->table, i), "examples"));
    r->vectors = kt__calloc(n, sizeof *r->vectors);
    if (!r->vectors) return kt__fail_nomem(err, "the routes", n);
    r->n_vectors = n;
    for (size_t i = 0; i < json_array_size(list_of(r->table)); i++) {
        const json_t *list = json_object_get(route_at(r->table, i), "examples");
        for (size_t k = 0; k < json_array_size(list); k++) {
            embedding e;
            kt_status status = embed(engine, json_string_value(json_array_get(list, k)), &e, err);
            if (status != KT_OK) forget_vectors(r);
            if (status != KT_OK) return status;
            r->dim = e.n;
            r->vectors[at++] = e.v;
        }
    }
    return KT_OK;
}

/* ---- the choice; the lock is held ---- */

static double quality_of(const json_t *route) {
    double good = (double)json_integer_value(json_object_get(route, "good"));
    double bad = (double)json_integer_value(json_object_get(route, "bad"));
    return rated_most * (good - bad) / (good + bad + rated_half);
}

static double cosine(const float *a, const float *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

typedef struct nearest {
    size_t route;
    double score;        /* with the ratings */
    double near;         /* the cosine alone */
    const char *example; /* NULL: nothing was compared */
    json_t *scores;      /* {ROUTE: score, ...} */
} nearest;

static void compare_all(const kt__routes *r, const embedding *e, nearest *best) {
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(list_of(r->table)); i++) {
        const json_t *route = route_at(r->table, i), *list = json_object_get(route, "examples");
        double most = -2;
        const char *example = NULL;
        for (size_t k = 0; k < json_array_size(list); k++) {
            double c = cosine(e->v, r->vectors[at++], r->dim);
            if (c <= most) continue;
            most = c;
            example = json_string_value(json_array_get(list, k));
        }
        double score = most + quality_of(route);
        json_object_set_new(best->scores, text_of(route, "name"),
                            json_real(round(score * 1e4) / 1e4));
        if (best->example && score <= best->score) continue;
        best->route = i;
        best->score = score;
        best->near = most;
        best->example = example;
    }
}

static kt_status find_nearest(kt__routes *r, const char *text, const char *who, nearest *best,
                              kt_error *err) {
    kt_status status;
    kt__served *served;
    kt_model *model;
    kt_engine *engine = NULL;
    embedding e = {0};
    KT__STEP(kt__models_find(r->models, text_of(r->table, "encoder"), &served, err));
    KT__STEP(kt__served_use(served, who, &model, &engine, err));
    KT__TRY(embed_examples(r, engine, err));
    KT__TRY(embed(engine, text, &e, err));
    if (e.n == r->dim) compare_all(r, &e, best);
    kt__free(e.v);
out:
    kt__served_done(served, engine);
    return status;
}

static const json_t *otherwise_of(const kt__routes *r) {
    const json_t *route = find_route(r->table, text_of(r->table, "otherwise"));
    return route ? route : route_at(r->table, 0);
}

static kt_status fill_choice(const json_t *route, const nearest *best, const char *because,
                             kt__routes_choice *out, kt_error *err) {
    const char *adapter = text_of(route, "adapter");
    snprintf(out->route, sizeof out->route, "%s", text_of(route, "name"));
    snprintf(out->model, sizeof out->model, "%s", text_of(route, "model"));
    snprintf(out->adapter, sizeof out->adapter, "%s", adapter ? adapter : "");
    json_t *why = json_pack("{s:s,s:s}", "name", out->route, "because", because);
    if (best->example && !strcmp(because, "nearest")) {
        json_object_set_new(why, "example", json_string(best->example));
        json_object_set_new(why, "cosine", json_real(round(best->near * 1e4) / 1e4));
    }
    if (json_object_size(best->scores)) json_object_set(why, "scores", best->scores);
    char *text = json_dumps(why, JSON_COMPACT | JSON_REAL_PRECISION(6));
    out->why = text ? kt__strndup(text, strlen(text)) : NULL;
    free(text);
    json_decref(why);
    return out->why ? KT_OK : kt__fail_nomem(err, "a route", 0);
}

kt_status kt__routes_choose(kt__routes *r, const char *text, const char *who,
                            kt__routes_choice *out, kt_error *err) {
    nearest best = {.scores = json_object()};
    const char *because = "nearest";
    kt_error failed = {0};
    *out = (kt__routes_choice){0};
    pthread_mutex_lock(&r->lock);
    look_at_file(r);
    const json_t *least = json_object_get(r->table, "least"), *route = otherwise_of(r);
    if (!text || !*text) {
        because = "no text";
    } else if (find_nearest(r, text, who, &best, &failed) != KT_OK || !best.example) {
        because = "the encoder failed";
        kt__slog_line(r->log, KT_LOG_WARN, "a request for " KT__ROUTES_AUTO " goes to %s: %s",
                      text_of(route, "name"), failed.message);
    } else if (best.near < (least ? json_number_value(least) : 0)) {
        because = "nothing is near";
    } else {
        route = route_at(r->table, best.route);
    }
    kt_status status = fill_choice(route, &best, because, out, err);
    pthread_mutex_unlock(&r->lock);
    json_decref(best.scores);
    return status;
}

/* ---- ratings ---- */

void kt__routes_rate(kt__routes *r, const char *route, float score) {
    kt_error err;
    pthread_mutex_lock(&r->lock);
    look_at_file(r);
    json_t *of = find_route(r->table, route);
    const char *key = score >= 0.5f ? "good" : "bad";
    if (of) {
        json_int_t n = json_integer_value(json_object_get(of, key)) + 1;
        json_object_set_new(of, key, json_integer(n));
        if (write_file(r, r->table, &err) != KT_OK)
            kt__slog_line(r->log, KT_LOG_WARN, "%s is not written: %s", r->path, err.message);
    }
    pthread_mutex_unlock(&r->lock);
}
