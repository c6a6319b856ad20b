/* kentang merge: a model with adapters added into its weights, as a new file. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "context/adapter.h"
#include "convert/convert.h"
#include "model/lora.h"
#include "setup/command_model.h"
#include "setup/setting_opts.h"
#include "synth/write_options.h"
#include "term/cli.h"
#include "term/options.h"

struct merge_opts {
    const char *model, *target, *type;
    kt__lora_opts lora;
    kt__write_opts write;
};

static const kt__opt merge_table[] = {
    {.name = "model",
     .brief = "m",
     .kind = KT__OPT_TEXT,
     .at = offsetof(struct merge_opts, model),
     .arg = "FILE",
     .help = "the model, best one of F32, F16 or BF16 weights"},
    {.name = "output",
     .brief = "o",
     .kind = KT__OPT_TEXT,
     .at = offsetof(struct merge_opts, target),
     .arg = "FILE",
     .help = "the new file"},
    {.name = "type",
     .kind = KT__OPT_TEXT,
     .at = offsetof(struct merge_opts, type),
     .arg = "TYPE",
     .help = "type of the new file's weights, as of `kentang quantize` (default: the model's where "
             "that is f32, f16 or bf16, else f16: small changes do not survive in fewer bits)"},
};

/* Rows of a tensor that belong to one site of a block. */
typedef struct merged_site {
    char name[64];
    int block, row0, n_row;
    kt__lora_site site;
} merged_site;

typedef struct merger {
    const kt__net *net;
    kt__lora_set set;
    merged_site *sites;
    size_t n_sites;
} merger;

static const kt__lora_block *merged_block(const merger *m, size_t use, int block) {
    return &m->set.uses[use].adapter->pack.lora.blocks[block];
}

static bool is_adapted(const merger *m, int block, kt__lora_site site) {
    for (size_t i = 0; i < m->set.n; i++)
        if (merged_block(m, i, block)->b[site].rank && m->set.uses[i].scale != 0.0f) return true;
    return false;
}

/* ---- which rows ---- */

/* The tensor that holds a site, and from which row on. */
static void find_rows(const merger *m, int block, kt__lora_site site, merged_site *out) {
    int n_sites, first = (int)site, n_row, n_col;
    *out = (merged_site){.block = block, .site = site};
    kt__lora_site_tensor(m->net, block, site, out->name, &n_sites);
    while (n_sites == 0) {
        char name[64];
        kt__lora_site_tensor(m->net, block, (kt__lora_site)--first, name, &n_sites);
        kt__lora_shape(m->net, block, (kt__lora_site)first, &n_row, &n_col);
        out->row0 += n_row;
    }
    kt__lora_shape(m->net, block, site, &out->n_row, &n_col);
}

static kt_status list_sites(merger *m, kt_error *err) {
    int n_block = m->net->hp.n_layer + 1;
    m->sites = kt__calloc((size_t)n_block * KT__SITES, sizeof *m->sites);
    if (!m->sites) return kt__fail_nomem(err, "the matrices", (size_t)n_block * sizeof *m->sites);
    for (int block = 0; block < n_block; block++) {
        for (int s = 0; s < KT__SITES; s++) {
            kt__lora_site site = (kt__lora_site)s;
            if (!is_adapted(m, block, site)) continue;
            if (site == KT__SITE_HIDDEN)
                return kt__fail_at(err, KT_E_UNSUPPORTED, "final_hidden.weight", UINT64_MAX,
                                   "an adapter of the final hidden state has no matrix that it "
                                   "could be merged into");
            if (site == KT__SITE_HEAD && m->net->head.data == m->net->embed.data)
                return kt__fail_at(err, KT_E_UNSUPPORTED, "output.weight", UINT64_MAX,
                                   "the model's head is its embedding, which an adapter of the "
                                   "head may not change");
            find_rows(m, block, site, &m->sites[m->n_sites++]);
        }
    }
    return KT_OK;
}

/* ---- W + s B A ---- */

/* values: row o of the site's matrix. */
static void add_delta(const merger *m, const merged_site *at, size_t o, int64_t n_cols,
                      float *values) {
    for (size_t i = 0; i < m->set.n; i++) {
        const kt__lora_block *block = merged_block(m, i, at->block);
        const kt__lora_b *b = &block->b[at->site];
        const kt__lora_a *a = &block->a[kt__lora_input_of(at->site)];
        size_t rank = (size_t)b->rank;
        const kt__f16 *panel = b->panels + o / KT__PANEL_ROWS * rank * KT__PANEL_ROWS;
        for (size_t j = 0; j < rank; j++) {
            const kt__f16 *row = a->rows + ((size_t)b->at + j) * (size_t)n_cols;
            float f = m->set.uses[i].scale * b->factor *
                      kt__f16_to_f32(panel[j * KT__PANEL_ROWS + o % KT__PANEL_ROWS]);
            for (int64_t c = 0; c < n_cols; c++) values[c] += f * kt__f16_to_f32(row[c]);
        }
    }
}

static bool has_change(void *user, const char *name) {
    const merger *m = user;
    for (size_t i = 0; i < m->n_sites; i++)
        if (!strcmp(m->sites[i].name, name)) return true;
    return false;
}

static void change_rows(void *user, const char *name, int64_t begin, int64_t end, int64_t n_cols,
                        float *values) {
    const merger *m = user;
    for (size_t i = 0; i < m->n_sites; i++) {
        const merged_site *at = &m->sites[i];
        if (strcmp(at->name, name) != 0) continue;
        int64_t from = at->row0 > begin ? at->row0 : begin;
        int64_t to = at->row0 + at->n_row < end ? at->row0 + at->n_row : end;
        for (int64_t r = from; r < to; r++)
            add_delta(m, at, (size_t)(r - at->row0), n_cols, values + (r - begin) * n_cols);
    }
}

/* ---- the file ---- */

/* The output may be neither an adapter's file nor one of an adapter's folder. */
static kt_status check_target(const struct merge_opts *o, kt_error *err) {
    static const char *const parts[] = {"", "/adapter_model.safetensors", "/adapter_config.json"};
    for (size_t i = 0; i < o->lora.files.n; i++) {
        char path[4096], part[4128];
        float scale;
        KT__STEP(kt__lora_split(o->lora.files.items[i], path, sizeof path, &scale, err));
        for (size_t k = 0; k < KT__COUNT(parts); k++) {
            snprintf(part, sizeof part, "%s%s", path, parts[k]);
            KT__STEP(kt__write_check_target(o->target, part, err));
        }
    }
    return KT_OK;
}

static const char *default_type(const kt_model *model) {
    uint32_t type = UINT32_MAX;
    kt_error ignored;
    if (kt__gguf_get_u32(model->gguf, "general.file_type", false, &type, &ignored) != KT_OK)
        return "f16";
    return type == kt__recipe_find("f32")->file_type    ? "f32"
           : type == kt__recipe_find("bf16")->file_type ? "bf16"
                                                        : "f16";
}

static kt_status prepare_merge(const struct merge_opts *o, kt_model *model, merger *m,
                               kt_error *err) {
    KT__STEP(check_target(o, err));
    KT__STEP(kt__lora_set_open(&o->lora, model, &m->set, err));
    return list_sites(m, err);
}

static int merge_opened(const struct merge_opts *o, kt_model *model, merger *m) {
    kt__byte_progress progress = {0};
    kt__convert_report report = {.recipe = ""};
    kt_error err;
    kt__row_change change = {.has = has_change, .apply = change_rows, .user = m};
    kt__quantize_params params = {.source = o->model, .change = &change};
    m->net = model->net;
    params.recipe = kt__recipe_find(o->type ? o->type : default_type(model));
    if (!params.recipe) return kt__write_unknown_recipe("merge", o->type);
    if (prepare_merge(o, model, m, &err) != KT_OK) return kt__cli_fail("merge", &err);
    kt__hash_init(&change.identity, 1);
    for (size_t i = 0; i < m->set.n; i++) {
        kt__hash_add(&change.identity, &m->set.uses[i].adapter->pack.digest, sizeof(kt__digest));
        kt__hash_add(&change.identity, &m->set.uses[i].scale, sizeof m->set.uses[i].scale);
    }
    const kt__convert_output output = kt__write_output("merge", o->target, &o->write, &progress);
    kt_status status = kt__quantize_file(&params, &output, &report, &err);
    return kt__write_end("merge", o->target, &progress, status, &report, &err);
}

static int merge_with(const struct merge_opts *o, kt__config *config) {
    kt_ctx *ctx;
    kt_model *model;
    kt_error err;
    merger m = {0};
    if (!o->model || !o->target || !o->lora.files.n)
        return kt__cli_usage_error("merge", "-m, --lora and -o are needed");
    config->model = o->model;
    if (kt__command_open_model(config, false, &ctx, &model, &err) != KT_OK)
        return kt__cli_fail("merge", &err);
    int code = merge_opened(o, model, &m);
    kt__lora_set_close(&m.set);
    kt__free(m.sites);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return code;
}

static int merge_command(int argc, char **argv, kt__config *config) {
    struct merge_opts opts = {0};
    const kt__opt_group groups[] = {{"Options", merge_table, KT__COUNT(merge_table), &opts},
                                    kt__lora_opts_group(&opts.lora),
                                    kt__write_group(&opts.write)};
    const kt__syntax syntax = {
        .command = "merge",
        .usage = "-m MODEL --lora FILE[=SCALE] -o OUT.gguf [OPTIONS]",
        .about =
            "Writes a model with adapters (LoRA) added into its weights, for programs that take "
            "none.\nkentang itself answers with --lora as well, and loses nothing of small "
            "changes so.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .notes = "Example: kentang merge -m model-f16.gguf --lora style.gguf -o merged.gguf --type "
                 "q4_k_m\n"};
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code < 0) code = merge_with(&opts, config);
    kt__lora_opts_free(&opts.lora);
    return code;
}

int kt__cmd_merge(int argc, char **argv) {
    return kt__with_settings(argc, argv, merge_command);
}
