/* kentang run: one prompt and its answer, or, on a terminal without a prompt, a conversation. */
#include <errno.h>
#include <jansson.h>
#include <kentang.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"
#include "cli/agent_opts.h"
#include "cli/chat.h"
#include "cli/run_inputs.h"
#include "setup/answer_opts.h"
#include "setup/learn_config.h"
#include "setup/model_file.h"
#include "setup/session.h"
#include "setup/setting_opts.h"
#include "term/cli.h"
#include "term/options.h"
#include "term/profile_report.h"
#include "term/screen.h"
#include "term/terminal.h"

/* ---- what is kept between two runs: a session file ---- */

typedef struct prompt_cache {
    const char *file; /* NULL: none */
    bool read_only;
} prompt_cache;

static const kt__opt cache_table[] = {
    {.name = "prompt-cache",
     .kind = KT__OPT_TEXT,
     .at = offsetof(prompt_cache, file),
     .arg = "FILE",
     .help = "begin with what FILE holds of the prompt, and keep prompt and answer there for the "
             "next run; it belongs to one model and its options"},
    {.name = "prompt-cache-ro",
     .kind = KT__OPT_ON,
     .at = offsetof(prompt_cache, read_only),
     .help = "only read the file of --prompt-cache"},
};

static kt__opt_group prompt_cache_group(prompt_cache *cache) {
    return (kt__opt_group){"Session file", cache_table, KT__COUNT(cache_table), cache};
}

/* A file that cannot be used is an error, not a miss: it would be overwritten. */
static kt_status load_prompt_cache(const prompt_cache *cache, kt_seq *seq, kt_error *err) {
    if (!cache->file) {
        if (!cache->read_only) return KT_OK;
        return kt__fail(err, KT_E_ARG, "--prompt-cache-ro needs --prompt-cache FILE");
    }
    if (!kt__file_exists(cache->file) && errno == ENOENT) return KT_OK;
    kt_error why;
    kt_status status = kt_seq_restore(seq, cache->file, &why);
    if (status == KT_E_FORMAT || status == KT_E_STATE) {
        return kt__fail_at(err, status, why.where, why.offset,
                           "%s; remove it, or give another --prompt-cache, to begin anew",
                           why.message);
    }
    *err = why;
    return status;
}

static kt_status keep_prompt_cache(const prompt_cache *cache, kt_seq *seq, kt_error *err) {
    if (!cache->file || cache->read_only || !kt_seq_len(seq)) return KT_OK;
    return kt_seq_save(seq, cache->file, err);
}

enum { MAX_PROMPT_BYTES = 256 << 20, MAX_WORDS = 2 };

typedef struct run_opts {
    const char *prompt, *file, *system, *system_file, *fim_prefix, *fim_suffix;
    bool raw, json, interactive, profile, escapes, quiet, plain;
    int thoughts;
    kt__opt_texts images, reads;
    const char *read_encoder;
    int32_t read_s;
    prompt_cache kept;
    kt__learn_opts learn;
    kt__agent_opts agent;
    kt__constraint_opts held;
    kt_constraint constraint;
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
    {.name = "system-file",
     .brief = "sysf",
     .also = "system-prompt-file",
     .kind = KT__OPT_TEXT,
     .at = AT(system_file),
     .arg = "FILE",
     .help = "read the system message from FILE"},
    {.name = "escape",
     .brief = "e",
     .kind = KT__OPT_ON,
     .at = AT(escapes),
     .help = "in -p, \\n is a newline, \\t a tab, \\\\ a backslash"},
    {.name = "image",
     .kind = KT__OPT_TEXTS,
     .at = AT(images),
     .arg = "FILE",
     .help = "a picture that the prompt is about, PNG, JPEG or WebP; may be repeated. The model "
             "needs its mmproj file: --mmproj"},
    {.name = "read",
     .kind = KT__OPT_TEXTS,
     .at = AT(reads),
     .arg = "FILE",
     .help =
         "a document that the prompt is about: PDF, docx, odt, HTML, or any text; may be repeated. "
         "Where not all of it fits, the passages nearest to the prompt"},
    {.name = "read-seconds",
     .kind = KT__OPT_INT,
     .at = AT(read_s),
     .max = 1000000,
     .arg = "N",
     .help = "of what --read names, so much that it is read in about N seconds; 0: as much as fits "
             "(default 120)"},
    {.name = "read-encoder",
     .kind = KT__OPT_TEXT,
     .at = AT(read_encoder),
     .arg = "MODEL",
     .help =
         "a model for embeddings: passages are then chosen by their vectors as well as by their "
         "words"},
    {.name = "raw",
     .kind = KT__OPT_ON,
     .at = AT(raw),
     .help = "without the chat template: the prompt is continued as it is"},
    {.name = "fim-prefix",
     .kind = KT__OPT_TEXT,
     .at = AT(fim_prefix),
     .arg = "TEXT",
     .help = "fill in the middle: the text before the gap (or -p, -f); for models made for code"},
    {.name = "fim-suffix",
     .kind = KT__OPT_TEXT,
     .at = AT(fim_suffix),
     .arg = "TEXT",
     .help = "the text after it"},
    {.name = "interactive",
     .brief = "i",
     .kind = KT__OPT_ON,
     .at = AT(interactive),
     .help = "a conversation even when standard input is no terminal"},
    {.name = "quiet",
     .brief = "q",
     .kind = KT__OPT_ON,
     .at = AT(quiet),
     .help = "on standard error only warnings and errors: neither model nor figures"},
    {.name = "plain",
     .kind = KT__OPT_ON,
     .at = AT(plain),
     .help = "on a terminal, the answer as the model writes it: no Markdown"},
    {.name = "reasoning",
     .kind = KT__OPT_ENUM,
     .at = AT(thoughts),
     .choices = "auto|show|hide|on|off",
     .arg = "MODE",
     .help = "what the model thinks before it answers: on a terminal it is shown dimmed; on, off: "
             "whether it thinks"},
    {.name = "json",
     .kind = KT__OPT_ON,
     .at = AT(json),
     .help = "one JSON object on standard output: text, finish and figures"},
    {.name = "profile",
     .kind = KT__OPT_ON,
     .at = AT(profile),
     .help = "say where the time went: by operator and phase, by layer and by thread, and the "
             "bottleneck"},
};

/* ---- the prompt ---- */

/* What is said, from wherever. */
typedef struct prompt {
    const char *word; /* a prompt without -p, or "-"; NULL: none */
    char *text;       /* for kt__free; NULL: a conversation */
    size_t len;
    char *system; /* for kt__free; of --system-file */
} prompt;

/* `run MODEL`, `run MODEL TEXT`, `run -m MODEL TEXT`, `run -` */
static kt_status take_words(const char *const *words, size_t n, kt__config *config, prompt *p,
                            kt_error *err) {
    size_t i = 0;
    if (i < n && !config->model && strcmp(words[i], "-") != 0) {
        if (!kt__model_name_exists(words[i]))
            return kt__fail(err, KT_E_ARG,
                            "no file and no model \"%.80s\": the first word is a model; a prompt "
                            "follows -p, or the model",
                            words[i]);
        KT__STEP(kt__config_set_model(config, words[i++], err));
    }
    if (i < n) p->word = words[i++];
    if (i == n) return KT_OK;
    return kt__fail(err, KT_E_ARG, "unexpected word \"%.80s\": put quotes around a prompt",
                    words[i]);
}

/* \n and the like, in place; what is no escape stays. */
static void replace_escapes(char *text, size_t *len) {
    static const char names[] = "ntr\\\"'", bytes[] = "\n\t\r\\\"'";
    size_t to = 0;
    for (size_t i = 0; i < *len; i++) {
        const char *at = text[i] == '\\' && i + 1 < *len ? strchr(names, text[i + 1]) : NULL;
        text[to++] = at ? bytes[at - names] : text[i];
        i += at != NULL;
    }
    *len = to;
    text[to] = '\0';
}

static kt_status copy_prompt(const char *text, bool escapes, prompt *p, kt_error *err) {
    p->len = strlen(text);
    p->text = kt__strdup(text);
    if (!p->text) return kt__fail_nomem(err, "the prompt", p->len);
    if (escapes) replace_escapes(p->text, &p->len);
    return KT_OK;
}

static kt_status get_prompt(const run_opts *opts, prompt *p, kt_error *err) {
    bool from_stdin = p->word && !strcmp(p->word, "-");
    if ((opts->prompt != NULL) + (opts->file != NULL) + (p->word != NULL) > 1) {
        return kt__fail(err, KT_E_ARG, "more than one prompt: give one of -p, -f, a word and -");
    }
    if (opts->prompt) return copy_prompt(opts->prompt, opts->escapes, p, err);
    if (p->word && !from_stdin) return copy_prompt(p->word, opts->escapes, p, err);
    const char *file = from_stdin ? "-" : opts->file;
    if (!file && (opts->interactive || kt__fd_is_terminal(KT__STDIN))) return KT_OK;
    kt_status status = kt__text_file_read(file ? file : "-", MAX_PROMPT_BYTES, opts->raw, &p->text,
                                          &p->len, err);
    if (status != KT_OK) return status;
    /* the newline that ends a file or an echo is no part of what is said */
    if (!opts->raw && p->len && p->text[p->len - 1] == '\n') p->text[--p->len] = '\0';
    return KT_OK;
}

/* --system-file becomes --system. */
static kt_status get_system(run_opts *opts, prompt *p, kt_error *err) {
    size_t len;
    if (!opts->system_file) return KT_OK;
    if (opts->system) return kt__fail(err, KT_E_ARG, "give either --system or --system-file");
    kt_status status = kt__text_file_read(opts->system_file, MAX_PROMPT_BYTES, false, &p->system,
                                          &len, err);
    if (status != KT_OK) return status;
    if (len && p->system[len - 1] == '\n') p->system[len - 1] = '\0';
    opts->system = p->system;
    return KT_OK;
}

/* ---- one answer ---- */

typedef struct output {
    bool json;
    kt__buf text, reasoning;
    kt__screen screen;
    kt__progress progress;
} output;

static bool on_part(void *user, const kt_part *part) {
    output *out = user;
    kt__buf *text = part->kind == KT_PART_REASONING ? &out->reasoning : &out->text;
    kt__progress_end(&out->progress);
    if (out->json) return !part->len || kt__buf_append(text, part->text, part->len);
    return kt__screen_write_part(&out->screen, part);
}

static bool on_text(void *user, const char *text, size_t len, int32_t id) {
    (void)id;
    output *out = user;
    kt__progress_end(&out->progress);
    if (out->json) return kt__buf_append(&out->text, text, len);
    return kt__screen_write(&out->screen, text, len);
}

/* A prompt with pictures is on no sequence: it is found again by what they are, not by where they were. */
static void set_pictures(const kt__run_pictures *pictures, kt_request_params *request) {
    request->seq = NULL;
    request->prompt.messages = NULL;
    request->prompt.n_messages = 0;
    request->prompt.chat_json = pictures->chat;
    request->prompt.chat_json_len = strlen(pictures->chat);
    request->prompt.pictures = pictures->list;
    request->prompt.n_pictures = pictures->n;
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
    if (raw && opts->images.n) return kt__fail(err, KT_E_ARG, "--image needs a chat template");
    kt_request_params request = kt__session_request(s);
    request.seq = s->seq;
    request.gen = *params;
    request.constraint = opts->constraint;
    if (raw) {
        request.prompt.text = text;
        request.prompt.text_len = len;
        request.prompt.text_flags = KT_TOK_ADD_SPECIAL | KT_TOK_PARSE_SPECIAL;
        request.prompt.fim_suffix = opts->fim_suffix;
        request.prompt.fim_suffix_len = opts->fim_suffix ? strlen(opts->fim_suffix) : 0;
    } else {
        request.prompt.messages = messages + first;
        request.prompt.n_messages = 2 - first;
        request.parts.split = true;
        request.parts.on_part = on_part;
    }
    kt_learned learned = {0};
    kt__run_pictures pictures = {0};
    kt_status status = KT_OK;
    if (opts->images.n) {
        KT__TRY(kt__run_pictures_read(&opts->images, opts->system, text, len, &pictures, err));
        set_pictures(&pictures, &request);
    }
    KT__TRY(kt__session_recall(s, &request, &learned, err));
    kt__progress_begin(&out->progress, s->engine);
    status = kt_request_run(s->engine, &request, on_text, out, result, err);
    kt__progress_end(&out->progress);
out:
    kt__run_pictures_free(&pictures);
    kt_learned_close(&learned);
    return status;
}

static kt__profile_report get_profile(const kt__session *s, double wall_ms) {
    kt__profile_report report;
    kt__profile_report_of(s->engine, "profile", wall_ms, s->info.decode_bytes, &report);
    return report;
}

static double us_to_ms(int64_t us) {
    return (double)us * 1e-3;
}

static kt_status print_answer_json(const kt__session *s, const output *out, const kt__figures *f,
                                   const kt__profile_report *profile, kt_error *err) {
    uint64_t peak, anon;
    const kt_request_report *r = &f->last;
    kt__memory_used(&peak, &anon);
    json_t *object = json_pack(
        "{s:s%,s:s,s:I,s:i,s:i,s:i,s:i,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:I,s:s,s:s,s:i,s:i,s:b}",
        "text", out->text.data ? out->text.data : "", out->text.len, "finish",
        kt_finish_name(r->finish), "seed", (json_int_t)r->seed, "prompt_tokens", (int)r->n_prompt,
        "cached_tokens", (int)r->n_cached, "generated_tokens", (int)r->n_generated,
        "drafted_tokens", (int)r->n_drafted, "accepted_tokens", (int)r->n_accepted, "prefill_tok_s",
        kt__figures_prefill_tok_s(f), "decode_tok_s", kt__figures_decode_tok_s(f), "first_token_ms",
        us_to_ms(r->first_token_us), "prefill_ms", us_to_ms(r->prefill_us), "decode_ms",
        us_to_ms(r->decode_us + r->sample_us), "sample_ms", us_to_ms(r->sample_us), "lora_ms",
        us_to_ms(r->lora_us), "peak_memory_bytes", (json_int_t)peak, "anonymous_memory_bytes",
        (json_int_t)anon, "model", s->info.path, "isa", kt_ctx_isa(s->ctx), "threads",
        (int)s->engine_info.n_threads, "context", (int)s->engine_info.n_ctx, "reproducible",
        s->reproducible);
    if (!object) return kt__fail(err, KT_E_INTERNAL, "the answer cannot be written as JSON");
    if (out->reasoning.len)
        json_object_set_new(object, "reasoning",
                            json_stringn(out->reasoning.data, out->reasoning.len));
    if (profile) json_object_set_new(object, "profile", kt__profile_json(profile));
    json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    putchar('\n');
    return KT_OK;
}

/* Whether what goes to stdout and what goes to stderr are in one text. */
static bool outputs_meet(void) {
    kt__file_info out, err;
    return kt__fd_look(KT__STDOUT, &out) && kt__fd_look(KT__STDERR, &err) &&
           out.device == err.device && out.number == err.number;
}

/* On a terminal the answer's last line ends; a file or a program gets the answer alone. */
static void end_answer(output *out) {
    char last = kt__screen_end_answer(&out->screen);
    fflush(stdout);
    if (last && last != '\n' && !out->screen.rendered && outputs_meet()) fputc('\n', stderr);
}

static int run_once(kt__session *s, const run_opts *opts, const char *text, size_t len,
                    const kt_gen_params *params) {
    output out = {.json = opts->json};
    kt__figures figures = {0};
    kt_request_report result = {0};
    kt_error err = {0};
    kt__buf_init(&out.text, SIZE_MAX / 2);
    kt__buf_init(&out.reasoning, SIZE_MAX / 2);
    kt__screen_open(&out.screen, opts->plain || opts->raw, (kt__thoughts)opts->thoughts);
    kt__interrupt_watch(s->engine);
    int64_t start_ns = kt__now_ns();
    kt_status status = answer_prompt(s, opts, text, len, params, &out, &result, &err);
    double wall_ms = (double)(kt__now_ns() - start_ns) * 1e-6;
    kt__interrupt_unwatch();
    int code = 0;
    if (status == KT_OK) status = keep_prompt_cache(&opts->kept, s->seq, &err);
    kt__profile_report profile = get_profile(s, wall_ms);
    if (status == KT_OK) {
        kt__figures_add(&figures, &result);
        if (opts->json)
            status = print_answer_json(s, &out, &figures, opts->profile ? &profile : NULL, &err);
    }
    end_answer(&out);
    if (status == KT_OK) {
        if (!opts->quiet) kt__session_tell_notes(&result);
        if (!opts->quiet) kt__figures_print(&figures);
        if (opts->profile) kt__profile_print(&profile);
        if (result.finish == KT_FINISH_CANCELLED) code = kt_status_exit_code(KT_E_CANCELLED);
    } else {
        kt__constraint_opts_name_error(&opts->held, &err);
        code = kt__cli_fail("run", &err);
    }
    kt__screen_close(&out.screen);
    kt__buf_free(&out.text);
    kt__buf_free(&out.reasoning);
    return code;
}

/* ---- the command ---- */

static int run_chat(kt__session *s, const run_opts *opts, const char *first,
                    kt__sampling_opts *sampling) {
    if (opts->constraint.n_forms)
        return kt__cli_usage_error("run", "a form of the answer needs a prompt: -p, -f or -");
    if (opts->raw || opts->json || !s->info.template_) {
        return kt__cli_usage_error("run", "a conversation needs %s; give a prompt with -p, -f or -",
                                   opts->raw ? "the chat template and not --raw"
                                   : opts->json
                                       ? "text output and not --json"
                                       : "a chat template, which this model does not have");
    }
    kt__chat_setup setup = {opts->system, first,       sampling,
                            opts->plain,  opts->quiet, (kt__thoughts)opts->thoughts};
    kt__figures figures = {0};
    int code = kt__chat_run(s, &setup, &figures);
    if (figures.n_answers && !opts->quiet) kt__figures_print(&figures);
    kt__profile_report profile = get_profile(s, -1);
    if (opts->profile) kt__profile_print(&profile);
    kt_error err;
    if (keep_prompt_cache(&opts->kept, s->seq, &err) != KT_OK && code == 0)
        code = kt__cli_fail("run", &err);
    return code;
}

static kt_status open_learner(const run_opts *opts, const kt__config *given, kt__session *session,
                              kt_error *err) {
    char notes_why[256];
    KT__STEP(kt__learn_opts_notes(given, session->model, &session->notes, notes_why,
                                  sizeof notes_why, err));
    if (!opts->quiet) fprintf(stderr, "learning: %s\n", notes_why);
    return kt__learn_opts_open(&opts->learn, given, session->engine, false, &session->learner, err);
}

static kt_status open_all(const kt__session_opts *session_opts, const run_opts *opts,
                          kt__session *session, kt_error *err) {
    const kt__config *given = session_opts->config;
    kt_status status = kt__session_open(session_opts, session, err);
    if (status != KT_OK) return status;
    status = load_prompt_cache(&opts->kept, session->seq, err);
    if (status == KT_OK && given->learn) status = open_learner(opts, given, session, err);
    if (status != KT_OK) kt__session_close(session);
    return status;
}

/* Tools were asked for. */
static bool has_tools(const run_opts *opts) {
    const kt__agent_opts *a = &opts->agent;
    return a->servers || a->builtins || a->folder || a->replay;
}

/* A text with a gap is a prompt without the chat template. */
static kt_status take_gap(run_opts *opts, kt_error *err) {
    if (!opts->fim_prefix && !opts->fim_suffix) return KT_OK;
    if (opts->fim_prefix && (opts->prompt || opts->file))
        return kt__fail(err, KT_E_ARG, "give the text before the gap once: --fim-prefix, -p or -f");
    if (opts->system || opts->system_file || opts->interactive)
        return kt__fail(err, KT_E_ARG,
                        "filling in the middle needs no system message and no conversation");
    if (opts->fim_prefix) opts->prompt = opts->fim_prefix;
    if (!opts->fim_suffix) opts->fim_suffix = "";
    if (!opts->prompt && !opts->file) opts->prompt = "";
    opts->raw = true;
    return KT_OK;
}

/* What does not go together, before a model is opened. */
static kt_status check_opts(const run_opts *opts, const prompt *p, kt_error *err) {
    if (p->text && !p->len && !opts->fim_suffix)
        return kt__fail(err, KT_E_ARG, "the prompt is empty; give one with -p, -f or -");
    if (has_tools(opts) && (opts->raw || opts->json || (p->text && opts->interactive)))
        return kt__fail(err, KT_E_ARG,
                        "tools (--mcp, --tools, --files) go without --raw, --json and -i");
    if (opts->images.n && (!p->text || opts->interactive || opts->raw || has_tools(opts)))
        return kt__fail(err, KT_E_ARG,
                        "--image goes with one prompt: -p, -f or -, without tools and --raw");
    if (opts->reads.n && (!p->text || opts->interactive || opts->raw || has_tools(opts)))
        return kt__fail(err, KT_E_ARG,
                        "--read goes with one prompt: -p, -f or -, without tools and --raw");
    if (opts->raw && opts->system)
        return kt__fail(err, KT_E_ARG, "--system needs the chat template: leave out --raw");
    return KT_OK;
}

static int run_with_documents(kt__session *session, const run_opts *opts, const prompt *p,
                              kt__sampling_opts *sampling) {
    const kt__read_params params = {
        &opts->reads, p->text, opts->read_encoder, opts->read_s, sampling->params.n_predict,
        opts->quiet};
    kt_error err;
    kt__buf text;
    kt_status status = kt__run_documents(session, &params, &text, &err);
    int code = status == KT_OK ? run_once(session, opts, text.data, text.len, &sampling->params)
                               : kt__cli_fail("run", &err);
    kt__buf_free(&text);
    return code;
}

static int run_opened(const kt__session_opts *session_opts, const run_opts *opts, const prompt *p,
                      kt__sampling_opts *sampling, kt__session *session) {
    if (!opts->quiet) {
        bool talks = !p->text || opts->interactive;
        bool shown = talks && !session_opts->verbose;
        kt__session_print_plan(session, session_opts, shown ? kt__session_tok_s(session) : 0);
    }
    kt__session_warn(session, session_opts);
    kt_engine_profile_enable(session->engine, opts->profile);
    if (has_tools(opts))
        return kt__agent_work("run", session, &opts->agent, &sampling->params, opts->system,
                              p->text);
    if (!p->text || opts->interactive) return run_chat(session, opts, p->text, sampling);
    if (opts->reads.n) return run_with_documents(session, opts, p, sampling);
    return run_once(session, opts, p->text, p->len, &sampling->params);
}

/* on and off say whether the model thinks, the others what is shown of it. */
static void take_reasoning(run_opts *opts, kt__config *config) {
    enum { ON = KT__THOUGHTS_HIDE + 1, OFF };
    if (opts->thoughts < ON) return;
    config->reasoning = opts->thoughts == ON ? "on" : "off";
    opts->thoughts = KT__THOUGHTS_AUTO;
}

static int run_prompts(kt__session_opts *session_opts, run_opts *opts, kt__sampling_opts *sampling,
                       const char *const *words, size_t n_words) {
    kt_error err = {0};
    kt__session session = {0};
    prompt p = {0};
    kt_status status;
    int code = 0;
    opts->agent.quiet = opts->quiet;
    take_reasoning(opts, session_opts->config);
    KT__TRY(kt__sampling_opts_finish(sampling, &err));
    KT__TRY(take_words(words, n_words, session_opts->config, &p, &err));
    KT__TRY(take_gap(opts, &err));
    KT__TRY(get_prompt(opts, &p, &err));
    KT__TRY(get_system(opts, &p, &err));
    KT__TRY(kt__constraint_opts_finish(&opts->held, &opts->constraint, &err));
    KT__TRY(check_opts(opts, &p, &err));
    KT__TRY(open_all(session_opts, opts, &session, &err));
    code = run_opened(session_opts, opts, &p, sampling, &session);
    kt__session_warn_of_cache(&session);
    kt_learner_close(session.learner);
    kt__session_close(&session);
out:
    if (status != KT_OK) code = kt__cli_fail("run", &err);
    kt__free(p.text);
    kt__free(p.system);
    return code;
}

static int run_command(int argc, char **argv, kt__config *config) {
    run_opts opts = {.agent = kt__agent_opts_default(), .read_s = 120};
    kt__session_opts session = {.config = config};
    kt__sampling_opts sampling = kt__sampling_opts_default();
    const kt__opt_group groups[] = {
        {"Prompt", prompt_table, KT__COUNT(prompt_table), &opts},
        kt__session_opts_group(&session),
        kt__sampling_opts_length_group(&sampling),
        kt__agent_opts_group(&opts.agent),
        prompt_cache_group(&opts.kept),
        kt__setting_opts(config, KT__OPTIONS_CACHE),
        kt__setting_opts(config, KT__OPTIONS_LEARN),
        kt__learn_opts_group(&opts.learn),
        kt__setting_opts(config, KT__OPTIONS_SIZES),
        kt__setting_opts(config, KT__OPTIONS_DRAFT),
        kt__lora_opts_group(&session.lora),
        kt__setting_opts(config, KT__OPTIONS_CORES),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
        kt__sampling_opts_group(&sampling),
        kt__constraint_opts_group(&opts.held),
    };
    const kt__syntax syntax = {
        .command = "run",
        .usage = "[-m MODEL | MODEL] [TEXT | -p TEXT | -f FILE | -] [OPTIONS]",
        .about =
            "Answers a prompt, or talks with you. The answer alone goes to standard output; a "
            "line\n"
            "with the model and a line with figures go to standard error. Ctrl-C ends the answer.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .set = kt__setting_opts_set,
        .set_base = config,
        .max_words = MAX_WORDS,
        .notes = "Examples:\n"
                 "  kentang run -p \"Why is the sky blue?\"\n"
                 "  kentang run -m model.gguf -n 200 --seed 7 -p \"Write a story.\"\n"
                 "  kentang run model.gguf \"Why is the sky blue?\"\n"
                 "  kentang run -m model.gguf --preset potato",
    };
    const char *words[MAX_WORDS] = {NULL};
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, words, &n_words);
    if (code < 0) code = run_prompts(&session, &opts, &sampling, words, n_words);
    kt__sampling_opts_free(&sampling);
    kt__agent_opts_free(&opts.agent);
    kt__constraint_opts_free(&opts.held);
    kt__opt_texts_free(&opts.images);
    kt__opt_texts_free(&opts.reads);
    kt__lora_opts_free(&session.lora);
    return code;
}

int kt__cmd_run(int argc, char **argv) {
    return kt__with_settings(argc, argv, run_command);
}
