#include "cli/run_inputs.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "cli/documents.h"
#include "setup/model_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- documents ---- */

enum {
    MOST_BYTES = 256 << 20,
    FRAME_TOKENS = 96,   /* the template, and a system message of some lines */
    ANSWER_TOKENS = 512, /* kept free for the answer where nothing is said of it, */
    LEAST_TIMED = 1000,  /* tokens from which on reading is timed, */
    PROBE_BYTES = 600,   /* by so much text */
    MOST_TEXT = 4096     /* bytes of what becomes a vector */
};

/* Tokens of a prompt that are read in a second, by reading some; 0: not known. */
static double reading_rate(kt__session *s, const char *text, size_t len) {
    kt_request_params r = kt_request_params_default();
    kt_request_report report;
    kt_error ignored;
    r.prompt.text = text;
    r.prompt.text_len = len < PROBE_BYTES ? len : PROBE_BYTES;
    while (r.prompt.text_len < len && r.prompt.text_len > 0 &&
           ((unsigned char)text[r.prompt.text_len] & 0xc0) == 0x80)
        r.prompt.text_len--;
    r.gen.n_predict = 1;
    r.service.no_cache = true;
    if (kt_request_run(s->engine, &r, NULL, NULL, &report, &ignored) != KT_OK) return 0;
    return report.prefill_us > 0 ? report.n_prompt * 1e6 / (double)report.prefill_us : 0;
}

static int32_t room_of(const kt__session *s, const kt__read_params *p) {
    int32_t n_ctx = s->engine_info.n_ctx, answer = p->n_predict;
    if (answer < 0 || answer > n_ctx / 2)
        answer = ANSWER_TOKENS < n_ctx / 4 ? ANSWER_TOKENS : n_ctx / 4;
    int32_t question = (int32_t)(strlen(p->question) / 2), room = n_ctx - answer - FRAME_TOKENS;
    return room > question ? room - question : 0;
}

/* ---- nearness by vectors ---- */

typedef struct reader {
    kt_model *model;
    kt_engine *engine;
    kt_model_info info;
    int32_t *ids; /* [cap] */
    size_t cap;
    float *vector; /* [2][d_model]: the question's, and a passage's */
} reader;

static kt_status open_reader(reader *r, kt__session *s, const char *name, kt_error *err) {
    char *path = NULL;
    kt_status status;
    KT__TRY(kt__model_name_find(name, NULL, &path, err));
    KT__TRY(kt_model_open(s->ctx, path, NULL, &r->model, err));
    KT__TRY(kt_engine_open(r->model, NULL, &r->engine, err));
    kt_model_get_info(r->model, &r->info);
    r->cap = (size_t)(r->info.n_ctx_train > 0 && r->info.n_ctx_train < 512 ? r->info.n_ctx_train
                                                                           : 512);
    r->ids = kt__calloc(r->cap + MOST_TEXT, sizeof *r->ids);
    r->vector = kt__calloc(2 * (size_t)r->info.d_model, sizeof *r->vector);
    if (!r->ids || !r->vector) status = kt__fail_nomem(err, "vectors", r->cap);
out:
    kt__free(path);
    return status;
}

static void close_reader(reader *r) {
    kt_engine_close(r->engine);
    kt_model_close(r->model);
    kt__free(r->ids);
    kt__free(r->vector);
}

/* What is longer than the encoder takes is cut. */
static kt_status embed_text(const reader *r, const char *text, size_t len, float *out,
                            kt_error *err) {
    size_t n;
    if (len > MOST_TEXT - 8)
        len = MOST_TEXT - 8; /* a token has at least a byte, and some are added */
    KT__STEP(
        kt_tokenize(r->model, text, len, KT_TOK_ADD_SPECIAL, r->ids, r->cap + MOST_TEXT, &n, err));
    return kt_embed(r->engine, r->ids, n < r->cap ? n : r->cap, KT_POOLING_MODEL, true, out, err);
}

static kt_status fuse_vectors(kt__session *s, const kt__read_params *p, kt__documents *d,
                              kt_error *err) {
    reader r = {0};
    kt_status status;
    double *nearness = kt__calloc(d->n_passages, sizeof *nearness);
    if (!nearness) KT__TRY(kt__fail_nomem(err, "passages", d->n_passages * sizeof *nearness));
    KT__TRY(open_reader(&r, s, p->encoder, err));
    KT__TRY(embed_text(&r, p->question, strlen(p->question), r.vector, err));
    for (size_t i = 0; i < d->n_passages; i++) {
        float *own = r.vector + r.info.d_model;
        KT__TRY(embed_text(&r, d->passages[i].text, d->passages[i].len, own, err));
        for (int k = 0; k < r.info.d_model; k++)
            nearness[i] += (double)r.vector[k] * (double)own[k];
    }
    status = kt__documents_fuse(d, nearness, err);
out:
    close_reader(&r);
    kt__free(nearness);
    return status;
}

/* ---- the whole ---- */

static void tell_choice(const kt__documents *d, int32_t n_all, int32_t n_chosen, double rate) {
    bool whole = n_all == n_chosen;
    fprintf(stderr, "kentang: %s", whole ? "reading " : "");
    if (whole)
        fprintf(stderr, "about %d tokens", (int)n_all);
    else
        fprintf(stderr, "of about %d tokens the %d nearest to the question", (int)n_all,
                (int)n_chosen);
    if (rate > 0) fprintf(stderr, ", some %.0f seconds", n_chosen / rate + 0.5);
    fputs(": ", stderr);
    kt__documents_tell(d, stderr);
    fputc('\n', stderr);
}

kt_status kt__run_documents(kt__session *s, const kt__read_params *p, kt__buf *out, kt_error *err) {
    kt__documents d;
    kt_status status;
    int32_t room = room_of(s, p), n_all, n_chosen;
    double rate = 0;
    kt__buf_init(out, MOST_BYTES);
    KT__TRY(kt__documents_read(p->files, &d, err));
    KT__TRY(kt__documents_count(&d, s->model, &n_all, err));
    if (n_all > LEAST_TIMED) rate = reading_rate(s, d.passages[0].text, d.passages[0].len);
    if (rate > 0 && p->most_s && rate * p->most_s < room) room = (int32_t)(rate * p->most_s);
    if (n_all > room) KT__TRY(kt__documents_score(&d, p->question, err));
    if (n_all > room && p->encoder) KT__TRY(fuse_vectors(s, p, &d, err));
    KT__TRY(kt__documents_choose(&d, room, &n_chosen, err));
    if (!p->quiet) tell_choice(&d, n_all, n_chosen, rate);
    kt__documents_write(&d, p->question, out);
    if (out->failed) status = kt__fail_nomem(err, "a prompt with documents", out->len);
out:
    kt__documents_free(&d);
    return status;
}

/* ---- pictures ---- */

enum { MAX_FILE_BYTES = 64 << 20 };

/* data[*len] for kt__free. */
static kt_status read_file(const char *path, char **data, size_t *len, kt_error *err) {
    FILE *file = fopen(path, "rb");
    *data = NULL;
    *len = 0;
    if (!file) return kt__fail_system(err, errno, NULL, "--image %.300s", path);
    kt_status status = KT_OK;
    kt__buf all;
    kt__buf_init(&all, MAX_FILE_BYTES);
    char some[1 << 16];
    for (size_t n; (n = fread(some, 1, sizeof some, file)) > 0 && !all.failed;)
        (void)kt__buf_append(&all, some, n);
    if (ferror(file)) {
        status = kt__fail_system(err, errno, NULL, "--image %.300s", path);
    } else if (all.failed) {
        status = kt__fail(err, KT_E_LIMIT, "--image %.300s: larger than %d MB", path,
                          MAX_FILE_BYTES >> 20);
    } else {
        *len = all.len;
        *data = all.data;
        all.data = NULL;
    }
    fclose(file);
    if (status != KT_OK) kt__buf_free(&all);
    return status;
}

static kt_status read_files(const kt__opt_texts *files, kt__run_pictures *out, kt_error *err) {
    out->list = kt__calloc(files->n, sizeof *out->list);
    if (!out->list) return kt__fail_nomem(err, "pictures", files->n * sizeof *out->list);
    for (size_t i = 0; i < files->n; i++) {
        char *data;
        size_t len;
        KT__STEP(read_file(files->items[i], &data, &len, err));
        out->list[out->n++] = (kt_picture){data, len};
    }
    return KT_OK;
}

/* [{"role": "user", "content": [{"type": "image"}, ..., {"type": "text", "text": ...}]}] */
static json_t *conversation_of(const char *system, const char *text, size_t len, size_t n) {
    json_t *messages = json_array(), *parts = json_array();
    if (system)
        json_array_append_new(messages, json_pack("{s:s,s:[{s:s,s:s}]}", "role", "system",
                                                  "content", "type", "text", "text", system));
    for (size_t i = 0; i < n; i++)
        json_array_append_new(parts, json_pack("{s:s}", "type", "image"));
    json_array_append_new(parts, json_pack("{s:s,s:s%}", "type", "text", "text", text, len));
    json_array_append_new(messages, json_pack("{s:s,s:o}", "role", "user", "content", parts));
    return messages;
}

kt_status kt__run_pictures_read(const kt__opt_texts *files, const char *system, const char *text,
                                size_t len, kt__run_pictures *out, kt_error *err) {
    *out = (kt__run_pictures){0};
    KT__STEP(read_files(files, out, err));
    json_t *messages = conversation_of(system, text, len, out->n);
    out->chat = json_dumps(messages, JSON_COMPACT);
    json_decref(messages);
    return out->chat ? KT_OK : kt__fail(err, KT_E_ARG, "the prompt is not UTF-8");
}

void kt__run_pictures_free(kt__run_pictures *p) {
    for (size_t i = 0; i < p->n; i++) kt__free((void *)(uintptr_t)p->list[i].data);
    kt__free(p->list);
    free(p->chat);
    *p = (kt__run_pictures){0};
}
