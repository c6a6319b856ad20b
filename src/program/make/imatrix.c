/* kentang imatrix: which columns of a model's matrices matter, for kentang quantize --imatrix. */
#include "convert/convert.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "make/calibration.h"
#include "setup/command_model.h"
#include "setup/setting_opts.h"
#include "synth/write_options.h"
#include "term/cli.h"
#include "term/terminal.h"

enum { MAX_FILES = 64 };

typedef struct imatrix_opts {
    const char *text, *out;
    int32_t n_chunks, n_threads;
    bool parse_special;
} imatrix_opts;

#define AT(member) offsetof(imatrix_opts, member)
static const kt__opt imatrix_table[] = {
    {.name = "file",
     .brief = "f",
     .kind = KT__OPT_TEXT,
     .at = AT(text),
     .arg = "TEXT",
     .help = "the text the model reads (UTF-8; -: standard input); best one like those it will "
             "read later, in their language (default: one that comes with the program, English "
             "and Indonesian)"},
    {.name = "output",
     .brief = "o",
     .kind = KT__OPT_TEXT,
     .at = AT(out),
     .arg = "FILE",
     .help = "where the importance matrix goes, in the GGUF form that llama.cpp has too"},
    {.name = "chunks",
     .kind = KT__OPT_INT,
     .at = AT(n_chunks),
     .min = 1,
     .max = 1 << 20,
     .arg = "N",
     .help = "only the first N chunks of 512 tokens"},
    {.name = "parse-special",
     .kind = KT__OPT_ON,
     .at = AT(parse_special),
     .help = "control tokens written in the text are taken as such: for texts of conversations"},
    {.name = "threads",
     .brief = "t",
     .kind = KT__OPT_INT,
     .at = AT(n_threads),
     .min = 1,
     .max = KT_THREADS_MAX,
     .arg = "N",
     .help = "threads (default: as many as there are cores for us)"},
};
#undef AT

/* ---- a layer's sums ---- */

typedef struct layer_sums {
    double *sum2[KT__LAYER_INPUTS]; /* [n_cols] */
    int n_cols[KT__LAYER_INPUTS];
    double n_rows;
} layer_sums;

static void free_layer_sums(layer_sums *s) {
    for (int i = 0; i < KT__LAYER_INPUTS; i++) kt__free(s->sum2[i]);
    *s = (layer_sums){0};
}

static kt_status add_squares(void *user, kt__net_input input, const float *rows, int n_tok,
                             int n_cols, kt_error *err) {
    layer_sums *s = user;
    if (!s->sum2[input]) {
        s->sum2[input] = kt__calloc((size_t)n_cols, sizeof *s->sum2[input]);
        s->n_cols[input] = n_cols;
    }
    if (!s->sum2[input]) return kt__fail_nomem(err, "a layer's sums", 0);
    for (int t = 0; t < n_tok; t++, rows += n_cols)
        for (int i = 0; i < n_cols; i++) s->sum2[input][i] += (double)rows[i] * (double)rows[i];
    if (input == KT__INPUT_ATTN) s->n_rows += n_tok;
    return KT_OK;
}

static kt_status take_sums(const kt_model *model, int layer, const layer_sums *s, kt__imatrix *m,
                           kt_error *err) {
    kt_status status = KT_OK;
    for (int input = 0; input < KT__LAYER_INPUTS && status == KT_OK; input++) {
        char names[3][64];
        int n = kt__calibration_matrices(model, layer, (kt__net_input)input, names);
        float *sum2 = kt__calloc((size_t)s->n_cols[input] + 1, sizeof *sum2);
        if (!sum2) return kt__fail_nomem(err, "a layer's sums", 0);
        for (int i = 0; i < s->n_cols[input]; i++) sum2[i] = (float)s->sum2[input][i];
        for (int i = 0; i < n && status == KT_OK; i++)
            status = kt__imatrix_add(m, names[i], s->n_cols[input], sum2, s->n_rows, err);
        kt__free(sum2);
    }
    return status;
}

/* On a terminal one line, drawn over itself. */
static void show_layers(int done, int all) {
    if (!kt__terminal_can_draw(KT__STDERR)) return;
    fprintf(stderr, "\rkentang imatrix: %d of %d layers\033[K%s", done, all,
            done == all ? "\n" : "");
    fflush(stderr);
}

static kt_status gather_layers(const kt_model *model, kt__calibration *c, kt__imatrix *m,
                               kt_error *err) {
    kt_status status = KT_OK;
    for (int layer = 0; layer < model->net->hp.n_layer && status == KT_OK; layer++) {
        layer_sums sums = {0};
        show_layers(layer, model->net->hp.n_layer);
        status = kt__calibration_visit(c, add_squares, &sums, err);
        if (status == KT_OK) status = take_sums(model, layer, &sums, m, err);
        free_layer_sums(&sums);
    }
    if (status == KT_OK) show_layers(model->net->hp.n_layer, model->net->hp.n_layer);
    return status;
}

/* ---- the command ---- */

static kt_status refuse_experts(const kt_model *model, kt_error *err) {
    if (!model->net || model->net->hp.n_expert == 0) return KT_OK;
    return kt__fail(
        err, KT_E_UNSUPPORTED,
        "the columns of experts are not measured yet: a matrix without them would weigh "
        "only the attention of this %s model",
        model->net->hp.arch);
}

static kt_status gather_model(const imatrix_opts *o, kt__config *model_opts, kt__imatrix *m,
                              kt_error *err) {
    kt_ctx *ctx = NULL;
    kt_model *model = NULL;
    kt__calibration *c = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    kt_status status;
    model_opts->threads = o->n_threads;
    KT__TRY(kt__command_open_model(model_opts, false, &ctx, &model, err));
    KT__TRY(refuse_experts(model, err));
    KT__TRY(kt__calibration_ids(model, o->text, o->parse_special,
                                (size_t)o->n_chunks * KT__CALIBRATION_CHUNK, &ids, &n, err));
    KT__TRY(kt__calibration_open(model, ids, n, false, &c, err));
    KT__TRY(gather_layers(model, c, m, err));
    KT__TRY(kt__imatrix_add_dataset(m, o->text ? o->text : KT__CALIBRATION_OWN, err));
    m->n_chunks += (uint32_t)kt__calibration_chunks(c);
    m->chunk_size = KT__CALIBRATION_CHUNK;
out:
    kt__calibration_close(c);
    kt__free(ids);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return status;
}

static kt_status make_imatrix(const imatrix_opts *o, kt__config *model_opts,
                              const char *const *files, size_t n_files, kt_error *err) {
    kt__imatrix m = {0};
    kt_status status;
    KT__TRY(kt__write_check_target(o->out, model_opts->model, err));
    KT__TRY(kt__write_check_target(o->out, o->text, err));
    for (size_t i = 0; i < n_files; i++) KT__TRY(kt__write_check_target(o->out, files[i], err));
    for (size_t i = 0; i < n_files; i++) KT__TRY(kt__imatrix_merge_file(&m, files[i], err));
    if (model_opts->model || n_files == 0) KT__TRY(gather_model(o, model_opts, &m, err));
    KT__TRY(kt__imatrix_write(&m, o->out, err));
    fprintf(stderr, "%s: %zu matrices, %u chunks of %u tokens\n", o->out, m.n, m.n_chunks,
            m.chunk_size);
out:
    kt__imatrix_free(&m);
    return status;
}

static int imatrix_command(int argc, char **argv, kt__config *config) {
    imatrix_opts o = {0};
    const kt__opt_group groups[] = {{"Options", imatrix_table, KT__COUNT(imatrix_table), &o},
                                    kt__setting_opts(config, KT__OPTIONS_MODEL)};
    const kt__syntax syntax = {
        .command = "imatrix",
        .usage = "-m MODEL [-f TEXT] -o FILE [OTHER...]",
        .about =
            "Measures which columns of a model's matrices matter, for `kentang quantize "
            "--imatrix`,\n"
            "and adds what OTHER files have measured. Without -m, OTHER files are only added up.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .max_words = MAX_FILES,
        .word = "OTHER"};
    const char *files[MAX_FILES];
    size_t n_files = 0;
    kt_error err = {0};
    int code = kt__cli_parse(&syntax, argc, argv, files, &n_files);
    if (code >= 0) return code;
    if (!o.out) return kt__cli_usage_error("imatrix", "-o FILE is missing");
    kt_status status = make_imatrix(&o, config, files, n_files, &err);
    return kt__cli_finish("imatrix", status == KT_OK ? 0 : kt__cli_fail("imatrix", &err));
}

int kt__cmd_imatrix(int argc, char **argv) {
    return kt__with_settings(argc, argv, imatrix_command);
}
