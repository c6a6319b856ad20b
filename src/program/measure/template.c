/* kentang template: messages as JSON in, the prompt that a chat template makes of them out. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "chat/chat_template.h" /* for --template and --builtin: a template without a model */
#include "setup/command_model.h"
#include "setup/setting_opts.h"
#include "term/cli.h"

enum { MAX_TEMPLATE_BYTES = 4 << 20, MAX_MESSAGES_BYTES = 64 << 20 };

typedef struct template_opts {
    const char *file, *builtin, *bos, *eos;
} template_opts;

#define AT(member) offsetof(template_opts, member)

static const kt__opt table[] = {
    {.name = "template",
     .kind = KT__OPT_TEXT,
     .at = AT(file),
     .arg = "FILE",
     .help = "render this Jinja file instead of the model's template"},
    {.name = "builtin",
     .kind = KT__OPT_TEXT,
     .at = AT(builtin),
     .arg = "NAME",
     .help = "render a template of kentang's own: chatml"},
    {.name = "bos",
     .kind = KT__OPT_TEXT,
     .at = AT(bos),
     .arg = "TEXT",
     .help = "bos_token for --template and --builtin (default: undefined)"},
    {.name = "eos",
     .kind = KT__OPT_TEXT,
     .at = AT(eos),
     .arg = "TEXT",
     .help = "eos_token for --template and --builtin (default: undefined)"},
};

typedef struct prompt {
    char *text;
    size_t len;
} prompt;

static kt_status render_source(const template_opts *opts, const char *source, size_t source_len,
                               const char *json, size_t json_len, prompt *out, kt_error *err) {
    kt__chat_template *tmpl = NULL;
    kt__chat_out rendered = {0};
    const kt__chat_params params = {.bos_token = opts->bos,
                                    .eos_token = opts->eos,
                                    .now_local_s = kt__chat_now_local(),
                                    .add_generation_prompt = true};
    kt_status status = kt__chat_template_parse(source, source_len, &tmpl, err);
    if (status == KT_OK)
        status = kt__chat_render_json(tmpl, json, json_len, &params, &rendered, err);
    if (status == KT_OK) {
        *out = (prompt){rendered.text, rendered.len};
        rendered.text = NULL;
    }
    kt__chat_out_free(&rendered);
    kt__chat_template_free(tmpl);
    return status;
}

static kt_status render_file(const template_opts *opts, const char *json, size_t json_len,
                             prompt *out, kt_error *err) {
    char *source;
    size_t len;
    kt_status status = kt__cli_read_file(opts->file, MAX_TEMPLATE_BYTES, &source, &len, err);
    if (status != KT_OK) return status;
    status = render_source(opts, source, len, json, json_len, out, err);
    kt__free(source);
    return status;
}

static kt_status render_builtin(const template_opts *opts, const char *json, size_t json_len,
                                prompt *out, kt_error *err) {
    const char *source = kt__chat_template_builtin(opts->builtin);
    if (!source) return kt__fail(err, KT_E_ARG, "no template is called \"%.60s\"", opts->builtin);
    return render_source(opts, source, strlen(source), json, json_len, out, err);
}

static kt_status render_model(const kt__config *opts, const char *json, size_t json_len,
                              prompt *out, kt_error *err) {
    kt_ctx *ctx;
    kt_model *model;
    kt_status status = kt__command_open_model(opts, true, &ctx, &model, err);
    if (status != KT_OK) return status;
    status = kt_chat_render_json(model, json, json_len, &out->text, &out->len, err);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return status;
}

/* A format error is one of the messages unless it names a model's file. */
static int report_failure(const kt_error *err) {
    if (err->code != KT_E_FORMAT || strcmp(err->where, "JSON") != 0)
        return kt__cli_fail("template", err);
    return kt__cli_error("template", err->code, "check the messages; see `kentang template --help`",
                         "%s (byte %llu of the input)", err->message,
                         (unsigned long long)err->offset);
}

static int template_command(int argc, char **argv, kt__config *config) {
    template_opts opts = {0};
    const kt__opt_group groups[] = {{"Template", table, KT__COUNT(table), &opts},
                                    kt__setting_opts_one(config, "Model", KT__SETTING_model)};
    const kt__syntax syntax = {
        .command = "template",
        .usage = "[OPTIONS] [FILE]",
        .about =
            "Reads messages as JSON (FILE, or standard input) and writes the prompt that the chat\n"
            "template makes of them: an array [{\"role\": \"user\", \"content\": \"...\"}, ...], "
            "or an\n"
            "object {\"messages\": [...], \"tools\": [...], \"add_generation_prompt\": true, ...} "
            "whose\n"
            "further members become template variables. The prompt ends where the assistant's\n"
            "answer begins, unless add_generation_prompt is false.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .max_words = 1,
        .word = "FILE",
        .notes = "Example:\n"
                 "  echo '[{\"role\":\"user\",\"content\":\"Halo!\"}]' | kentang template\n"};
    const char *words[1] = {NULL};
    size_t n_words = 0, len;
    int code = kt__cli_parse(&syntax, argc, argv, words, &n_words);
    if (code >= 0) return code;
    if ((opts.file != NULL) + (opts.builtin != NULL) + (config->model != NULL) > 1)
        return kt__cli_usage_error("template", "give one of -m, --template and --builtin");
    kt_error err = {0};
    char *json;
    prompt out = {0};
    kt_status status = kt__cli_read_file(n_words ? words[0] : "-", MAX_MESSAGES_BYTES, &json, &len,
                                         &err);
    if (status != KT_OK) return kt__cli_fail("template", &err);
    status = opts.file      ? render_file(&opts, json, len, &out, &err)
             : opts.builtin ? render_builtin(&opts, json, len, &out, &err)
                            : render_model(config, json, len, &out, &err);
    kt__free(json);
    if (status != KT_OK) return report_failure(&err);
    fwrite(out.text, 1, out.len, stdout);
    kt_free(out.text);
    return kt__cli_finish("template", 0);
}

int kt__cmd_template(int argc, char **argv) {
    return kt__with_settings(argc, argv, template_command);
}
