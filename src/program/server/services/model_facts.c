#include "services/model_facts.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* Whether the vocabulary has a token for the beginning of a text with a gap, by the names that models have for it. */
static bool fills_gaps(const kt_model *model) {
    static const char *const marks[] = {"<|fim_prefix|>",
                                        "<fim_prefix>",
                                        "<fim-prefix>",
                                        "<|fim\xe2\x96\x81"
                                        "begin|>",
                                        "[PREFIX]",
                                        "<PRE>",
                                        "<\xef\xbd\x9c"
                                        "fim\xe2\x96\x81"
                                        "begin\xef\xbd\x9c>"};
    int32_t ids[2];
    size_t n;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (kt_tokenize(model, marks[i], strlen(marks[i]), KT_TOK_PARSE_SPECIAL, ids, 2, &n,
                        NULL) == KT_OK &&
            n == 1)
            return true;
    return false;
}

static void look_at_model(void *user, const kt_model *model) {
    kt__model_facts *f = user;
    kt_model_get_info(model, &f->model);
    const char *template = f->model.template_ ? f->model.template_ : "";
    f->template_ = kt__strdup(template);
    f->fills_gaps = !f->model.is_encoder && fills_gaps(model);
    f->reasons = strstr(template, "enable_thinking") || strstr(template, "<think>") ||
                 strstr(template, "reasoning_content");
    snprintf(f->arch, sizeof f->arch, "%s", f->model.arch);
    snprintf(f->quant, sizeof f->quant, "%s", f->model.quant);
    f->sees = f->model.vision != NULL;
    f->model.vision = NULL;
    f->model.path = f->model.name = f->model.arch = f->model.quant = NULL;
    f->model.tokenizer = f->model.template_ = NULL;
}

kt_status kt__model_facts_read(kt__models *models, kt__served *served, kt__model_facts *out,
                               kt_error *err) {
    kt_model_params params = kt_model_params_default();
    kt_ctx *ctx = kt__models_ctx(models);
    char *path = NULL;
    kt_model *model = NULL;
    kt_status status;
    *out = (kt__model_facts){0};
    if (kt__served_look(served, look_at_model, out)) return KT_OK;
    KT__TRY(kt__served_file(served, &path, err));
    params.vocab_only = kt_ctx_n_ranks(ctx) >
                        1; /* the weights are theirs, too, and are only mapped */
    if (path)
        KT__TRY(kt_model_open(ctx, path, &params, &model, err));
    else
        KT__TRY(kt_model_open_demo(ctx, &params, &model, err));
    look_at_model(out, model);
    out->sees = kt__served_has_mmproj(served, path);
out:
    kt_model_close(model);
    kt__free(path);
    return status;
}

void kt__model_facts_free(kt__model_facts *facts) {
    kt__free(facts->template_);
    *facts = (kt__model_facts){0};
}
