/* kentang embed: texts to vectors, a line each. */
#include <errno.h>
#include <jansson.h>
#include <kentang.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"
#include "setup/session.h"
#include "setup/setting_opts.h"
#include "term/cli.h"

/* ---- vectors as a file: JSON lines, a NumPy array, or bare floats ---- */

typedef enum vector_format { FORMAT_JSON, FORMAT_NPY, FORMAT_F32 } vector_format;

typedef struct vector_output {
    FILE *file;
    const char *path; /* NULL: standard output */
    vector_format format;
    size_t n_cols, n_rows;
    off_t begin; /* of the file, for NPY */
} vector_output;

static kt_status fail_write(const vector_output *out, kt_error *err) {
    return kt__fail_system(err, errno, NULL, "cannot write %s",
                           out->path ? out->path : "standard output");
}

/* NumPy's format 1.0: a text of fixed length, so that the number of rows can be written again. */
static bool write_npy_header(vector_output *out) {
    enum { HEADER = 128, PREFIX = 10 };
    char header[HEADER + 1];
    memset(header, ' ', HEADER);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", PREFIX); /* 118 bytes follow */
    int n = snprintf(header + PREFIX, HEADER - PREFIX,
                     "{'descr': '<f4', 'fortran_order': False, 'shape': (%zu, %zu), }", out->n_rows,
                     out->n_cols);
    header[PREFIX + n] = ' ';
    header[HEADER - 1] = '\n';
    return fwrite(header, 1, HEADER, out->file) == HEADER;
}

static kt_status begin_npy(vector_output *out, kt_error *err) {
    out->begin = ftello(out->file);
    if (out->begin < 0 || fseeko(out->file, out->begin, SEEK_SET) != 0)
        return kt__fail(err, KT_E_ARG,
                        "a NumPy array says at its begin how many rows it has, which is known at "
                        "the end: write it to a file (--output FILE)");
    return write_npy_header(out) ? KT_OK : fail_write(out, err);
}

static kt_status open_output(const char *path, vector_format format, size_t n_cols,
                             vector_output **result, kt_error *err) {
    kt_status status = KT_OK;
    vector_output *out = kt__calloc(1, sizeof *out);
    *result = out;
    if (!out) return kt__fail_nomem(err, "the output", sizeof *out);
    *out = (vector_output){.path = path, .format = format, .n_cols = n_cols};
    out->file = path ? fopen(path, "wb") : stdout;
    if (!out->file) return kt__fail_system(err, errno, NULL, "cannot open %s", path);
    if (format == FORMAT_NPY) status = begin_npy(out, err);
    return status;
}

/* As many digits as it takes to read the same float back. */
static bool write_json(vector_output *out, const float *row) {
    fputc('[', out->file);
    for (size_t i = 0; i < out->n_cols; i++)
        fprintf(out->file, "%s%.9g", i ? "," : "", (double)row[i]);
    fputs("]\n", out->file);
    return !ferror(out->file);
}

static kt_status append_vector(vector_output *out, const float *row, kt_error *err) {
    out->n_rows++;
    bool done = out->format == FORMAT_JSON
                    ? write_json(out, row)
                    : fwrite(row, sizeof *row, out->n_cols, out->file) == out->n_cols;
    return done ? KT_OK : fail_write(out, err);
}

static kt_status finish_output(vector_output *out, kt_error *err) {
    bool ok = true;
    if (out->format == FORMAT_NPY)
        ok = fseeko(out->file, out->begin, SEEK_SET) == 0 && write_npy_header(out) &&
             fseeko(out->file, 0, SEEK_END) == 0;
    return ok && fflush(out->file) == 0 ? KT_OK : fail_write(out, err);
}

static void close_output(vector_output *out) {
    if (!out) return;
    if (out->file && out->path) fclose(out->file);
    kt__free(out);
}

enum { MAX_LINE_BYTES = 64 << 20, PER_LANE = 4 /* texts submitted for each that is computed */ };

typedef struct embed_opts {
    bool json_lines, plain, normalize;
    int pooling; /* index of the choices below, which are those of kt_pooling, but NONE */
    int32_t n_dimensions;
    int format;
    const char *in, *out; /* files; NULL: standard input and output */
} embed_opts;

static const kt_pooling poolings[] = {KT_POOLING_MODEL, KT_POOLING_MEAN, KT_POOLING_LAST,
                                      KT_POOLING_CLS};

static const kt__opt table[] = {
    {.name = "file",
     .brief = "f",
     .kind = KT__OPT_TEXT,
     .at = offsetof(embed_opts, in),
     .arg = "FILE",
     .help = "the texts, instead of standard input"},
    {.name = "json",
     .kind = KT__OPT_ON,
     .at = offsetof(embed_opts, json_lines),
     .help = "each line is JSON: a text, or an array of token ids (default: a line is a text)"},
    {.name = "format",
     .kind = KT__OPT_ENUM,
     .at = offsetof(embed_opts, format),
     .choices = "json|npy|f32",
     .help = "json: an array a line (default); npy: one NumPy array of all; f32: little-endian "
             "floats, nothing else"},
    {.name = "output",
     .brief = "o",
     .kind = KT__OPT_TEXT,
     .at = offsetof(embed_opts, out),
     .arg = "FILE",
     .help = "write there instead of standard output; npy needs a file"},
    {.name = "pooling",
     .kind = KT__OPT_ENUM,
     .at = offsetof(embed_opts, pooling),
     .choices = "model|mean|last|cls",
     .help = "of which tokens' states (default model: as its file says, else mean)"},
    {.name = "dimensions",
     .kind = KT__OPT_INT,
     .at = offsetof(embed_opts, n_dimensions),
     .min = 1,
     .max = 1 << 20,
     .arg = "N",
     .help = "only the first N numbers, for models trained so"},
    {.name = "normalize",
     .kind = KT__OPT_ON,
     .at = offsetof(embed_opts, normalize),
     .help = "vectors of length 1 (the default)"},
    {.name = "no-normalize",
     .kind = KT__OPT_OFF,
     .at = offsetof(embed_opts, normalize),
     .help = "vectors as the model gives them"},
    {.name = "no-special",
     .kind = KT__OPT_ON,
     .at = offsetof(embed_opts, plain),
     .help = "do not look for control tokens in texts"},
};

/* Texts on their way, in the order of the lines. */
typedef struct embedder {
    const embed_opts *opts;
    kt__session *session;
    FILE *in;
    vector_output *out;
    kt_request **waiting; /* a ring of [cap] */
    size_t cap, first, n;
    size_t n_dimensions;
    long line;
    uint64_t n_done;
    int64_t begin_us, shown_us;
    bool show; /* how far it is, on a terminal that the vectors do not go to */
} embedder;

/* ---- progress ---- */

static void show_progress(embedder *e) {
    int64_t t_us = kt__now_us();
    if (!e->show || t_us - e->shown_us < 500000) return;
    e->shown_us = t_us;
    fprintf(stderr, "\r\033[Kkentang: %llu texts, %.1f texts/s", (unsigned long long)e->n_done,
            (double)e->n_done / ((double)(t_us - e->begin_us) * 1e-6));
    fflush(stderr);
}

static void begin_progress(embedder *e) {
    e->begin_us = e->shown_us = kt__now_us();
    e->show = kt__fd_is_terminal(KT__STDERR) && (e->opts->out || !kt__fd_is_terminal(KT__STDOUT));
}

static void end_progress(const embedder *e) {
    if (e->shown_us != e->begin_us) fputs("\r\033[K", stderr);
}

/* ---- out ---- */

static void normalize_vector(float *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    double scale = sum > 0 ? 1.0 / sqrt(sum) : 1.0;
    for (size_t i = 0; i < n; i++) x[i] = (float)((double)x[i] * scale);
}

static kt_status write_vector(const embedder *e, const float *embedding, kt_error *err) {
    size_t n = e->n_dimensions;
    float *x = kt__calloc(n, sizeof *x);
    if (!x) return kt__fail_nomem(err, "a vector", n * sizeof *x);
    memcpy(x, embedding, n * sizeof *x);
    bool cut = n < (size_t)e->session->info.d_model;
    if (cut && e->opts->normalize) normalize_vector(x, n);
    kt_status status = append_vector(e->out, x, err);
    kt__free(x);
    return status;
}

static kt_status take_oldest(embedder *e, kt_error *err) {
    kt_request *req = e->waiting[e->first];
    kt_event event = {.kind = KT_EVENT_STARTED};
    kt_status status = KT_OK;
    e->first = (e->first + 1) % e->cap;
    e->n--;
    while (event.kind != KT_EVENT_FINISHED && kt_request_next_event(req, &event, -1)) {
    }
    if (event.embedding) {
        status = write_vector(e, event.embedding, err);
        e->n_done++;
        show_progress(e);
    } else if (event.error) {
        *err = *event.error;
        status = err->code;
    } else {
        status = kt__fail(err, KT_E_CANCELLED, "cancelled");
    }
    kt_request_close(req);
    return status;
}

/* ---- in ---- */

static kt_status read_ids(const json_t *list, int32_t **ids, size_t *n, kt_error *err) {
    *n = json_array_size(list);
    *ids = kt__calloc(*n ? *n : 1, sizeof **ids);
    if (!*ids) return kt__fail_nomem(err, "token ids", *n * sizeof **ids);
    for (size_t i = 0; i < *n; i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id > INT32_MAX)
            return kt__fail(err, KT_E_FORMAT, "element %zu is no token id", i);
        (*ids)[i] = (int32_t)id;
    }
    return KT_OK;
}

/* text, or ids where they are not NULL */
static kt_status submit_text(embedder *e, const char *text, size_t len, const int32_t *ids,
                             size_t n_ids, kt_error *err) {
    kt_request_params r = kt_request_params_default();
    r.prompt.text = ids ? NULL : text;
    r.prompt.text_len = ids ? 0 : len;
    if (!e->opts->plain) r.prompt.text_flags |= KT_TOK_PARSE_SPECIAL;
    r.prompt.ids = ids;
    r.prompt.n_ids = n_ids;
    r.embedding.pooling = poolings[e->opts->pooling];
    r.embedding.normalize = e->opts->normalize;
    r.adapters = e->session->lora.uses;
    r.n_adapters = e->session->lora.n;
    if (e->n == e->cap) {
        kt_status status = take_oldest(e, err);
        if (status != KT_OK) return status;
    }
    kt_status status = kt_engine_submit(e->session->engine, &r,
                                        &e->waiting[(e->first + e->n) % e->cap], err);
    e->n += status == KT_OK;
    return status;
}

static kt_status embed_line(embedder *e, const char *line, size_t len, kt_error *err) {
    json_error_t bad;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    if (!e->opts->json_lines) return submit_text(e, line, len, NULL, 0, err);
    json_t *value = json_loadb(line, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &bad);
    if (!value)
        return kt__fail(err, KT_E_FORMAT, "not JSON: %.200s (column %d)", bad.text, bad.column);
    kt_status status = KT_OK;
    if (json_is_array(value))
        status = read_ids(value, &ids, &n_ids, err);
    else if (!json_is_string(value))
        status = kt__fail(err, KT_E_FORMAT, "expected a JSON string or an array of token ids");
    if (status == KT_OK)
        status = submit_text(e, json_string_value(value), json_string_length(value), ids, n_ids,
                             err);
    kt__free(ids);
    json_decref(value);
    return status;
}

static kt_status embed_lines(embedder *e, kt_error *err) {
    kt_status status = KT_OK;
    for (e->line = 1; status == KT_OK; e->line++) {
        char *line = NULL;
        size_t len = 0;
        int got = kt__cli_read_line(e->in, MAX_LINE_BYTES, &line, &len, err);
        if (got == 0) break;
        if (got < 0) return err->code;
        bool blank = strspn(line, " \t\r") == len;
        if (!blank || !e->opts->json_lines) status = embed_line(e, line, len, err);
        if (status != KT_OK) fprintf(stderr, "kentang embed: in line %ld of the input:\n", e->line);
        kt__free(line);
    }
    while (status == KT_OK && e->n) status = take_oldest(e, err);
    return status;
}

/* ---- the command ---- */

static void close_waiting(embedder *e) {
    for (; e->n; e->n--) {
        kt_request_close(e->waiting[e->first]);
        e->first = (e->first + 1) % e->cap;
    }
    kt__free(e->waiting);
}

static kt_status check_options(const embed_opts *opts, const kt__session *s, kt_error *err) {
    if (s->info.pooling == KT_POOLING_RANK && opts->pooling == 0)
        return kt__fail(
            err, KT_E_UNSUPPORTED,
            "%s is a reranker: its file has no pooling for embeddings; ask for one with "
            "--pooling, or for a ranking (/v1/rerank)",
            s->info.path);
    if (opts->n_dimensions > s->info.d_model)
        return kt__fail(err, KT_E_ARG, "--dimensions is %d; the model's vectors have %d",
                        opts->n_dimensions, s->info.d_model);
    return KT_OK;
}

static int embed_with(const embed_opts *opts, kt__session *session) {
    kt_error err = {0};
    size_t n_dimensions = (size_t)session->info.d_model;
    if (opts->n_dimensions) n_dimensions = (size_t)opts->n_dimensions;
    embedder e = {.opts = opts,
                  .session = session,
                  .in = stdin,
                  .cap = (size_t)session->engine_info.n_parallel * PER_LANE,
                  .n_dimensions = n_dimensions};
    kt_status status;
    KT__TRY(check_options(opts, session, &err));
    if (opts->in) e.in = fopen(opts->in, "rb");
    if (!e.in) KT__TRY(kt__fail_system(&err, errno, NULL, "cannot open %s", opts->in));
    e.waiting = kt__calloc(e.cap, sizeof(kt_request *));
    if (!e.waiting) KT__TRY(kt__fail_nomem(&err, "requests", e.cap * sizeof *e.waiting));
    KT__TRY(open_output(opts->out, (vector_format)opts->format, n_dimensions, &e.out, &err));
    begin_progress(&e);
    status = embed_lines(&e, &err);
    end_progress(&e);
    if (status == KT_OK) status = finish_output(e.out, &err);
out:
    close_waiting(&e);
    close_output(e.out);
    if (e.in && e.in != stdin) fclose(e.in);
    return status == KT_OK ? 0 : kt__cli_fail("embed", &err);
}

static int embed_command(int argc, char **argv, kt__config *config) {
    embed_opts opts = {.normalize = true};
    kt__session_opts session_opts = {.config = config};
    session_opts.many = true;
    const kt__opt_group groups[] = {
        {"Texts and vectors", table, KT__COUNT(table), &opts},
        kt__setting_opts(config, KT__OPTIONS_MANY),
        kt__lora_opts_group(&session_opts.lora),
        kt__setting_opts(config, KT__OPTIONS_SIZES),
        kt__setting_opts(config, KT__OPTIONS_CORES),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
    };
    const kt__syntax syntax = {
        .command = "embed",
        .usage = "[MODEL | -m MODEL] [OPTIONS] [-f FILE | < TEXTS]",
        .about = "Reads a text a line and writes its embedding, in the same order. Short texts are "
                 "computed\ntogether; a vector depends on its own text alone. With an encoder the "
                 "context is the\nmodel's own, and a longer text is refused.",
        .groups = groups,
        .n_groups = KT__COUNT(groups)};
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code >= 0) return code;
    kt__session session;
    kt_error err = {0};
    if (kt__session_open(&session_opts, &session, &err) != KT_OK) {
        code = kt__cli_fail("embed", &err);
    } else {
        code = embed_with(&opts, &session);
        kt__session_close(&session);
    }
    kt__lora_opts_free(&session_opts.lora);
    return kt__cli_finish("embed", code);
}

int kt__cmd_embed(int argc, char **argv) {
    return kt__with_settings(argc, argv, embed_command);
}
