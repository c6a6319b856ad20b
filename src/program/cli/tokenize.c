/* kentang tokenize, kentang detokenize: text to token ids and back, JSON lines both. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "setup/command_model.h"
#include "setup/setting_opts.h"
#include "term/cli.h"

enum { MAX_LINE_BYTES = 256 << 20 };

typedef struct text_opts {
    bool add_special, plain, pieces;
    const char *prompt, *ids;
} text_opts;

/* What a command does with one line of its input. */
typedef kt_status line_fn(const kt_model *model, const text_opts *opts, json_t *value,
                          kt_error *err);

/* ---- both ---- */

/* All of a vocabulary's text of ids, in out. */
static kt_status decode_ids(const kt_model *model, const int32_t *ids, size_t n, unsigned flags,
                            kt__buf *out, kt_error *err) {
    size_t len = 0, cap = 16 * n + 64;
    for (;;) {
        if (!kt__buf_reserve(out, cap)) return kt__fail_nomem(err, "text", cap);
        kt_status status = kt_detokenize(model, ids, n, flags, out->data, cap, &len, err);
        if (status != KT_E_LIMIT || len <= cap) {
            out->len = status == KT_OK ? len : 0;
            return status;
        }
        cap = len;
    }
}

/* As JSON.stringify writes it, so that outputs can be compared as lines. */
static kt_status print_json_text(const char *text, size_t len, kt_error *err) {
    kt__buf line;
    kt__buf_init(&line, SIZE_MAX / 2);
    kt__json_string(&line, text, len, KT__JSON_PLAIN);
    kt__buf_putc(&line, '\n');
    bool done = !line.failed;
    if (done) fwrite(line.data, 1, line.len, stdout);
    kt__buf_free(&line);
    return done ? KT_OK : kt__fail_nomem(err, "output", len);
}

static kt_status run_line(const kt_model *model, const text_opts *opts, line_fn *run,
                          const char *line, size_t len, kt_error *err) {
    json_error_t bad;
    json_t *value = json_loadb(line, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &bad);
    if (!value)
        return kt__fail(err, KT_E_FORMAT, "not JSON: %.200s (column %d)", bad.text, bad.column);
    kt_status status = run(model, opts, value, err);
    json_decref(value);
    return status;
}

static int run_lines(const char *command, const char *remedy, const kt_model *model,
                     const text_opts *opts, line_fn *run) {
    kt_error err = {0};
    char *line = NULL;
    size_t len = 0;
    int code = 0, got = 0;
    for (long number = 1;
         code == 0 && (got = kt__cli_read_line(stdin, MAX_LINE_BYTES, &line, &len, &err)) > 0;
         number++) {
        bool blank = strspn(line, " \t\r") == len;
        if (!blank && run_line(model, opts, run, line, len, &err) != KT_OK)
            code = kt__cli_error(command, err.code, err.code == KT_E_FORMAT ? remedy : NULL,
                                 "line %ld: %s", number, err.message);
        kt__free(line);
    }
    return got < 0 ? kt__cli_fail(command, &err) : code;
}

/* ---- tokenize ---- */

static unsigned encode_flags(const text_opts *opts) {
    return (opts->add_special ? (unsigned)KT_TOK_ADD_SPECIAL : 0) |
           (opts->plain ? 0 : (unsigned)KT_TOK_PARSE_SPECIAL);
}

static void print_ids(const int32_t *ids, size_t n) {
    putchar('[');
    for (size_t i = 0; i < n; i++) printf("%s%d", i ? "," : "", (int)ids[i]);
    puts("]");
}

/* One token a line: id, tab, its text as a JSON string. */
static kt_status print_pieces(const kt_model *model, const int32_t *ids, size_t n, kt_error *err) {
    kt_status status = KT_OK;
    kt__buf text;
    kt__buf_init(&text, SIZE_MAX / 2);
    for (size_t i = 0; i < n; i++) {
        /* The first token of a text may lose a prefix space: decoded twice, the second is whole. */
        const int32_t twice[2] = {ids[i], ids[i]};
        kt__buf_clear(&text);
        KT__TRY(decode_ids(model, twice, 2, KT_TOK_RENDER_SPECIAL, &text, err));
        printf("%d\t", (int)ids[i]);
        KT__TRY(print_json_text(text.data + text.len / 2, text.len - text.len / 2, err));
    }
out:
    kt__buf_free(&text);
    return status;
}

static kt_status tokenize_text(const kt_model *model, const text_opts *opts, const char *text,
                               size_t len, kt_error *err) {
    kt_status status;
    /* Most tokens mean a byte at least; BOS, EOS, a prefix space. Normalisation may write more. */
    size_t n = 0, cap = len + 8;
    int32_t *ids = kt__calloc(cap, sizeof *ids);
    if (!ids) return kt__fail_nomem(err, "token ids", cap * sizeof *ids);
    status = kt_tokenize(model, text, len, encode_flags(opts), ids, cap, &n, err);
    if (status == KT_E_LIMIT && n > cap) {
        int32_t *more = kt__realloc_array(ids, n, sizeof *ids);
        if (more) ids = more;
        status = more ? kt_tokenize(model, text, len, encode_flags(opts), ids, n, &n, err)
                      : kt__fail_nomem(err, "token ids", n * sizeof *ids);
    }
    if (status != KT_OK) goto out;
    if (opts->pieces)
        KT__TRY(print_pieces(model, ids, n, err));
    else
        print_ids(ids, n);
out:
    kt__free(ids);
    return status;
}

static kt_status tokenize_line(const kt_model *model, const text_opts *opts, json_t *value,
                               kt_error *err) {
    if (!json_is_string(value)) return kt__fail(err, KT_E_FORMAT, "expected a JSON string");
    return tokenize_text(model, opts, json_string_value(value), json_string_length(value), err);
}

/* ---- detokenize ---- */

static kt_status detokenize_ids(const kt_model *model, const text_opts *opts, const int32_t *ids,
                                size_t n, kt_error *err) {
    kt__buf text;
    kt__buf_init(&text, SIZE_MAX / 2);
    unsigned flags = opts->plain ? 0 : (unsigned)KT_TOK_RENDER_SPECIAL;
    kt_status status = decode_ids(model, ids, n, flags, &text, err);
    if (status == KT_OK) status = print_json_text(text.data, text.len, err);
    kt__buf_free(&text);
    return status;
}

static kt_status detokenize_line(const kt_model *model, const text_opts *opts, json_t *value,
                                 kt_error *err) {
    size_t n = json_array_size(value);
    if (!json_is_array(value)) return kt__fail(err, KT_E_FORMAT, "expected a JSON array of ids");
    int32_t *ids = kt__calloc(n, sizeof *ids);
    if (!ids) return kt__fail_nomem(err, "token ids", n * sizeof *ids);
    kt_status status = KT_OK;
    for (size_t i = 0; i < n && status == KT_OK; i++) {
        json_t *item = json_array_get(value, i);
        json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id > INT32_MAX)
            status = kt__fail(err, KT_E_FORMAT, "element %zu is no token id", i);
        ids[i] = (int32_t)id;
    }
    if (status == KT_OK) status = detokenize_ids(model, opts, ids, n, err);
    kt__free(ids);
    return status;
}

/* ---- the commands ---- */

#define AT(member) offsetof(text_opts, member)

static const kt__opt tokenize_table[] = {
    {.name = "prompt",
     .brief = "p",
     .kind = KT__OPT_TEXT,
     .at = AT(prompt),
     .arg = "TEXT",
     .help = "encode this text instead of lines of stdin"},
    {.name = "pieces",
     .kind = KT__OPT_ON,
     .at = AT(pieces),
     .help = "one token a line: its id, a tab, its text as a JSON string"},
    {.name = "add-special",
     .kind = KT__OPT_ON,
     .at = AT(add_special),
     .help = "add BOS and EOS as the model's rules say"},
    {.name = "no-parse-special",
     .kind = KT__OPT_ON,
     .at = AT(plain),
     .help = "take control tokens written in the text as plain text"},
};
static const kt__opt detokenize_table[] = {
    {.name = "ids",
     .kind = KT__OPT_TEXT,
     .at = AT(ids),
     .arg = "[1,2,3]",
     .help = "decode this JSON array instead of lines of stdin"},
    {.name = "no-special",
     .kind = KT__OPT_ON,
     .at = AT(plain),
     .help = "leave out control tokens instead of writing their text"},
};

typedef struct text_command {
    const char *about, *remedy;
    const kt__opt *table;
    size_t n_table;
    line_fn *run_line;
} text_command;

static kt_status run_given(const kt_model *model, const text_opts *opts, const text_command *cmd,
                           kt_error *err) {
    if (opts->prompt) return tokenize_text(model, opts, opts->prompt, strlen(opts->prompt), err);
    return run_line(model, opts, cmd->run_line, opts->ids, strlen(opts->ids), err);
}

static int text_main(int argc, char **argv, kt__config *config, const text_command *cmd) {
    text_opts opts = {0};
    const kt__opt_group groups[] = {{"Text", cmd->table, cmd->n_table, &opts},
                                    kt__setting_opts_one(config, "Model", KT__SETTING_model)};
    const kt__syntax syntax = {.command = argv[0],
                               .usage = "[MODEL | -m MODEL] [OPTIONS] [< LINES.jsonl]",
                               .about = cmd->about,
                               .groups = groups,
                               .n_groups = KT__COUNT(groups)};
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code >= 0) return code;
    kt_ctx *ctx;
    kt_model *model;
    kt_error err = {0};
    config->threads = 1;
    if (kt__command_open_model(config, true, &ctx, &model, &err) != KT_OK)
        return kt__cli_fail(argv[0], &err);
    if (!opts.prompt && !opts.ids)
        code = run_lines(argv[0], cmd->remedy, model, &opts, cmd->run_line);
    else
        code = run_given(model, &opts, cmd, &err) == KT_OK ? 0 : kt__cli_fail(argv[0], &err);
    kt_model_close(model);
    kt_ctx_close(ctx);
    return kt__cli_finish(argv[0], code);
}

static int tokenize_command(int argc, char **argv, kt__config *config) {
    static const text_command cmd = {
        "Reads one JSON string a line and writes, for each, the JSON array of its token ids.\n"
        "Control tokens written in a text are recognised; BOS and EOS are not added unless asked.",
        "one JSON string a line, such as \"Hello\\n\"; or use -p TEXT", tokenize_table,
        KT__COUNT(tokenize_table), tokenize_line};
    return text_main(argc, argv, config, &cmd);
}

static int detokenize_command(int argc, char **argv, kt__config *config) {
    static const text_command cmd = {
        "Reads one JSON array of token ids a line and writes, for each, the text as a JSON "
        "string;\n"
        "bytes that are no UTF-8 become U+FFFD.",
        "one JSON array of token ids a line, as `kentang tokenize` writes", detokenize_table,
        KT__COUNT(detokenize_table), detokenize_line};
    return text_main(argc, argv, config, &cmd);
}

int kt__cmd_tokenize(int argc, char **argv) {
    return kt__with_settings(argc, argv, tokenize_command);
}

int kt__cmd_detokenize(int argc, char **argv) {
    return kt__with_settings(argc, argv, detokenize_command);
}
