/* kentang run: one prompt and its answer, or, on a terminal without a prompt, a conversation. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "cli/cache_opts.h"
#include "cli/chat.h"
#include "cli/cli.h"
#include "cli/profile_report.h"
#include "cli/prompt_cache.h"
#include "cli/sampling_opts.h"
#include "cli/session.h"

enum { MAX_PROMPT_BYTES = 256 << 20 };

typedef struct run_opts {
    const char *prompt, *file, *system;
    bool raw, json, interactive, profile;
    kt__prompt_cache prompt_cache;
    kt__cache_opts disk_cache;
} run_opts;

#define AT(member) offsetof(run_opts, member)

static const kt__opt prompt_table[] = {
    {.name = "prompt",
     .brief = "p",
     .kind = KT__OPT_TEXT,
     .at = AT(prompt),
     .arg = "TEXT",
     .help = "the prompt (default: standard input; on a terminal, a conversation)"},
    {.name = "file",
     .brief = "f",
     .kind = KT__OPT_TEXT,
     .at = AT(file),
     .arg = "FILE",
     .help = "read the prompt from FILE; - is standard input"},
    {.name = "system",
     .brief = "sys",
     .also = "system-prompt",
     .kind = KT__OPT_TEXT,
     .at = AT(system),
     .arg = "TEXT",
     .help = "system message"},
    {.name = "raw",
     .kind = KT__OPT_ON,
     .at = AT(raw),
     .help = "without the chat template: the prompt is continued as it is"},
    {.name = "interactive",
     .brief = "i",
     .kind = KT__OPT_ON,
     .at = AT(interactive),
     .help = "a conversation even when standard input is no terminal"},
    {.name = "json",
     .kind = KT__OPT_ON,
     .at = AT(json),
     .help = "one JSON object on standard output: text, finish and figures"},
    {.name = "profile",
     .kind = KT__OPT_ON,
     .at = AT(profile),
     .help = "say where the time went: by operator and phase, and the bottleneck"},
};

/* ---- the prompt ---- */

/* The prompt's text for kt__free; NULL in *text means: a conversation. */
static kt_status get_prompt(const run_opts *opts, const char *word, char **text, size_t *len,
                            kt_error *err) {
    *text = NULL;
    *len = 0;
    if (word && strcmp(word, "-") != 0) {
        return kt__fail(err, KT_E_ARG, "unexpected word \"%.80s\": a prompt follows -p, a model -m",
                        word);
    }
    const char *file = word ? word : opts->file;
    if ((opts->prompt != NULL) + (opts->file != NULL) + (word != NULL) > 1) {
        return kt__fail(err, KT_E_ARG, "more than one prompt: give one of -p, -f and -");
    }
    if (opts->prompt) {
        *text = kt__strdup(opts->prompt);
        *len = strlen(opts->prompt);
        return *text ? KT_OK : kt__fail_nomem(err, "the prompt", *len);
    }
    if (opts->interactive && !file) return KT_OK;
    if (!file && isatty(STDIN_FILENO)) return KT_OK;
    kt_status status = kt__cli_read_file(file ? file : "-", MAX_PROMPT_BYTES, text, len, err);
    if (status != KT_OK) return status;
    if (memchr(*text, '\0', *len)) {
        return kt__fail(err, KT_E_FORMAT, "the prompt holds a NUL byte: is it a text?");
    }
    /* the newline that ends a file or an echo is no part of what is said */
    if (!opts->raw && *len && (*text)[*len - 1] == '\n') (*text)[--*len] = '\0';
    return KT_OK;
}

/* ---- one answer ---- */

typedef struct output {
    bool json;
    kt__buf text;
    char last; /* last character written */
} output;

static bool on_text(void *user, const char *text, size_t len, int32_t id) {
    (void)id;
    output *out = user;
    if (out->json) return kt__buf_append(&out->text, text, len);
    if (len) out->last = text[len - 1];
    return fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0;
}

static kt_status answer_prompt(kt__session *s, const run_opts *opts, const char *text, size_t len,
                               const kt_gen_params *params, output *out, kt_request_report *result,
                               kt_error *err) {
    kt_message messages[2] = {{"system", opts->system}, {"user", text}};
    size_t first = opts->system ? 0 : 1;
    bool raw = opts->raw || !s->info.template_;
    if (raw && opts->system) {
        return kt__fail(err, KT_E_ARG, "--system: this model has no chat template");
    }
    if (raw && !opts->raw) {
        fputs("kentang: this model has no chat template; the prompt is continued as it is\n",
              stderr);
    }
    kt_request_params request = kt_request_params_default();
    request.seq = s->seq;
    request.gen = *params;
    if (raw) {
        request.text = text;
        request.text_len = len;
        request.text_flags = KT_TOK_ADD_SPECIAL | KT_TOK_PARSE_SPECIAL;
    } else {
        request.messages = messages + first;
        request.n_messages = 2 - first;
    }
    return kt_request_run(s->engine, &request, on_text, out, result, err);
}

static kt__profile_report get_profile(const kt__session *s, double wall_ms) {
    kt__profile_report report = {.wall_ms = wall_ms, .decode_bytes = s->info.decode_bytes};
    kt_engine_get_profile(s->engine, &report.profile);
    if (wall_ms < 0) report.wall_ms = report.profile.total_ms;
    return report;
}

static double us_to_ms(int64_t us) {
    return (double)us * 1e-3;
}

static kt_status print_json(const kt__session *s, const output *out, const kt__figures *f,
                            const kt__profile_report *profile, kt_error *err) {
    uint64_t peak, anon;
    const kt_request_report *r = &f->last;
    kt__memory_used(&peak, &anon);
    json_t *object = json_pack(
        "{s:s%,s:s,s:I,s:i,s:i,s:i,s:i,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:I,s:s,s:s,s:i,s:i,s:b}",
        "text", out->text.data ? out->text.data : "", out->text.len, "finish",
        kt_finish_name(r->finish), "seed", (json_int_t)r->seed, "prompt_tokens", (int)r->n_prompt,
        "cached_tokens", (int)r->n_cached, "generated_tokens", (int)r->n_generated,
        "drafted_tokens", (int)r->n_drafted, "accepted_tokens", (int)r->n_accepted, "prefill_tok_s",
        kt__figures_prefill_tok_s(f), "decode_tok_s", kt__figures_decode_tok_s(f), "first_token_ms",
        us_to_ms(r->first_token_us), "prefill_ms", us_to_ms(r->prefill_us), "decode_ms",
        us_to_ms(r->decode_us + r->sample_us), "sample_ms", us_to_ms(r->sample_us),
        "peak_memory_bytes", (json_int_t)peak, "anonymous_memory_bytes", (json_int_t)anon, "model",
        s->info.path, "isa", kt_ctx_isa(s->ctx), "threads", (int)s->engine_info.n_threads,
        "context", (int)s->engine_info.n_ctx, "reproducible", s->reproducible);
    if (!object) return kt__fail(err, KT_E_INTERNAL, "the answer cannot be written as JSON");
    if (profile) json_object_set_new(object, "profile", kt__profile_json(profile));
    json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    putchar('\n');
    return KT_OK;
}

/* Whether what goes to stdout and what goes to stderr stand in one text. */
static bool outputs_meet(void) {
    struct stat out, err;
    return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
           out.st_dev == err.st_dev && out.st_ino == err.st_ino;
}

/* On a terminal the answer's last line ends; a file or a program gets the answer alone. */
static void end_answer(char last) {
    bool unfinished = last && last != '\n';
    if (unfinished && isatty(STDOUT_FILENO)) putchar('\n');
    fflush(stdout);
    if (unfinished && !isatty(STDOUT_FILENO) && outputs_meet()) fputc('\n', stderr);
}

static int run_once(kt__session *s, const run_opts *opts, const char *text, size_t len,
                    const kt_gen_params *params) {
    output out = {.json = opts->json};
    kt__figures figures = {0};
    kt_request_report result = {0};
    kt_error err = {0};
    kt__buf_init(&out.text, SIZE_MAX / 2);
    kt__interrupt_watch(s);
    int64_t start_ns = kt__now_ns();
    kt_status status = answer_prompt(s, opts, text, len, params, &out, &result, &err);
    double wall_ms = (double)(kt__now_ns() - start_ns) * 1e-6;
    kt__interrupt_unwatch();
    int code = 0;
    if (status == KT_OK) status = kt__prompt_cache_keep(&opts->prompt_cache, s->seq, &err);
    kt__profile_report profile = get_profile(s, wall_ms);
    if (status == KT_OK) {
        kt__figures_add(&figures, &result);
        if (opts->json)
            status = print_json(s, &out, &figures, opts->profile ? &profile : NULL, &err);
        end_answer(opts->json ? '\0' : out.last);
    }
    if (status == KT_OK) {
        kt__figures_print(&figures);
        if (opts->profile) kt__profile_print(&profile);
        if (result.finish == KT_FINISH_CANCELLED) code = kt_status_exit_code(KT_E_CANCELLED);
    } else {
        code = kt__cli_fail("run", &err);
    }
    kt__buf_free(&out.text);
    return code;
}

/* ---- the command ---- */

static int run_chat(kt__session *s, const run_opts *opts, const char *first,
                    const kt_gen_params *params) {
    if (opts->raw || opts->json || !s->info.template_) {
        return kt__cli_usage_error("run", "a conversation needs %s; give a prompt with -p, -f or -",
                                   opts->raw    ? "the chat template and not --raw"
                                   : opts->json ? "text output and not --json"
                                                : "a chat template, which this model has not");
    }
    kt__chat_setup setup = {opts->system, first, *params};
    kt__figures figures = {0};
    int code = kt__chat_run(s, &setup, &figures);
    if (figures.n_answers) kt__figures_print(&figures);
    kt__profile_report profile = get_profile(s, -1);
    if (opts->profile) kt__profile_print(&profile);
    kt_error err;
    if (kt__prompt_cache_keep(&opts->prompt_cache, s->seq, &err) != KT_OK && code == 0)
        code = kt__cli_fail("run", &err);
    return code;
}

static kt_status open_all(const kt__session_opts *session_opts, const run_opts *opts,
                          kt__session *session, kt_cache **cache, kt_error *err) {
    kt_status status = kt__session_open(session_opts, NULL, session, err);
    if (status != KT_OK) return status;
    status = kt__cache_opts_open(&opts->disk_cache, session->engine, cache, err);
    if (status == KT_OK) status = kt__prompt_cache_load(&opts->prompt_cache, session->seq, err);
    if (status == KT_OK) return KT_OK;
    kt_cache_close(*cache);
    *cache = NULL;
    kt__session_close(session);
    return status;
}

static int run_prompts(const kt__session_opts *session_opts, const run_opts *opts,
                       kt__sampling_opts *sampling, const char *word) {
    kt_error err = {0};
    kt__session session = {0};
    kt_cache *cache = NULL;
    char *text = NULL;
    size_t len = 0;
    int code;
    kt_status status = kt__sampling_opts_finish(sampling, &err);
    if (status == KT_OK) status = get_prompt(opts, word, &text, &len, &err);
    if (status == KT_OK && text && !len) {
        status = kt__fail(&err, KT_E_ARG, "the prompt is empty; give one with -p, -f or -");
    }
    if (status == KT_OK && opts->raw && opts->system) {
        status = kt__fail(&err, KT_E_ARG, "--system needs the chat template: leave out --raw");
    }
    if (status == KT_OK && opts->prompt_cache.file && opts->disk_cache.dir) {
        status = kt__fail(&err, KT_E_ARG, "give either --prompt-cache or --cache-dir");
    }
    if (status == KT_OK) status = open_all(session_opts, opts, &session, &cache, &err);
    if (status != KT_OK) {
        code = kt__cli_fail("run", &err);
    } else {
        kt__session_print_plan(&session, session_opts);
        kt_engine_profile_enable(session.engine, opts->profile);
        bool chat = !text || opts->interactive;
        code = chat ? run_chat(&session, opts, text, &sampling->params)
                    : run_once(&session, opts, text, len, &sampling->params);
        kt__cache_opts_warn(cache);
        kt_cache_close(cache);
        kt__session_close(&session);
    }
    kt__free(text);
    return code;
}

int kt__cmd_run(int argc, char **argv) {
    run_opts opts = {0};
    kt__session_opts session = kt__session_opts_default();
    kt__sampling_opts sampling = kt__sampling_opts_default();
    const kt__opt_group groups[] = {
        {"Prompt", prompt_table, KT__COUNT(prompt_table), &opts},
        kt__sampling_opts_length_group(&sampling),
        kt__prompt_cache_group(&opts.prompt_cache),
        kt__cache_opts_group(&opts.disk_cache),
        kt__session_opts_group(&session),
        kt__session_opts_draft_group(&session),
        kt__model_opts_place_group(&session.model),
        kt__model_opts_group(&session.model),
        kt__sampling_opts_group(&sampling),
    };
    const kt__syntax syntax = {
        .command = "run",
        .usage = "[-m MODEL] [-p TEXT | -f FILE | -] [OPTIONS]",
        .about =
            "Answers a prompt, or talks with you. The answer alone goes to standard output; a "
            "line\n"
            "with the plan and a line with figures go to standard error. Ctrl-C ends the answer.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .max_words = 1,
        .notes = "Examples:\n"
                 "  kentang run -p \"Why is the sky blue?\"\n"
                 "  kentang run -m model.gguf -n 200 --seed 7 -p \"Write a story.\"\n"
                 "  kentang run -m model.gguf --preset potato",
    };
    const char *word = NULL;
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, &word, &n_words);
    if (code < 0) code = run_prompts(&session, &opts, &sampling, n_words ? word : NULL);
    kt__sampling_opts_free(&sampling);
    return code;
}
