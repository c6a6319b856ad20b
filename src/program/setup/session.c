#include "setup/session.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "host/pages.h"
#include "setup/command_model.h"
#include "setup/config_set.h"
#include "setup/model_file.h"
#include "setup/thinking.h"
#include "setup/tuned.h"
#include "term/safe_text.h"
#include "term/terminal.h"

kt__opt_group kt__session_opts_group(kt__session_opts *opts) {
    static const kt__opt table[] = {
        {.name = "verbose",
         .brief = "v",
         .kind = KT__OPT_ON,
         .at = offsetof(kt__session_opts, verbose),
         .help = "say what was decided: kernel tier, threads, batches, memory"},
        {.name = "reasoning-effort",
         .kind = KT__OPT_TEXT,
         .at = offsetof(kt__session_opts, effort),
         .arg = "LEVEL",
         .help = "how much a model thinks, if its template asks: none, minimal, low, medium, high"},
        {.name = "reasoning-budget",
         .kind = KT__OPT_INT,
         .at = offsetof(kt__session_opts, budget),
         .given_at = KT__GIVEN(kt__session_opts, has_budget),
         .min = -1,
         .max = 1 << 30,
         .arg = "N",
         .help = "tokens of thinking at most; 0: none, -1: no limit"},
        {.name = "chat-template-kwargs",
         .kind = KT__OPT_TEXT,
         .at = offsetof(kt__session_opts, template_kwargs),
         .arg = "JSON",
         .help = "variables of the chat template, an object"},
    };
    return (kt__opt_group){"Messages and thinking", table, KT__COUNT(table), opts};
}

/* ---- what the options say of every request ---- */

static kt_status add_effort(json_t *vars, const char *effort, kt_error *err) {
    bool known;
    if (!effort || !strcmp(effort, "default")) return KT_OK;
    KT__STEP(kt__thinking_effort(vars, effort, &known, err));
    if (known) return KT_OK;
    return kt__fail(err, KT_E_ARG,
                    "--reasoning-effort %.40s: expected none, minimal, low, medium or high",
                    effort);
}

static kt_status add_kwargs(json_t *vars, const char *text, kt_error *err) {
    json_t *given = text ? json_loads(text, 0, NULL) : NULL;
    bool fits = !text || json_is_object(given);
    if (given && fits) json_object_update(vars, given);
    json_decref(given);
    return fits ? KT_OK : kt__fail(err, KT_E_ARG, "--chat-template-kwargs: expected a JSON object");
}

static kt_status take_thinking(const kt__session_opts *opts, kt__session *s, kt_error *err) {
    json_t *vars = json_object();
    const char *word = opts->config->reasoning;
    kt_status status;
    s->shift_context = opts->config->context_shift;
    if (word && strcmp(word, "auto") != 0)
        KT__TRY(kt__thinking_switch(vars, !strcmp(word, "on"), err));
    KT__TRY(add_effort(vars, opts->effort, err));
    if (opts->has_budget && opts->budget == 0) KT__TRY(kt__thinking_switch(vars, false, err));
    if (opts->has_budget && opts->budget >= 0) s->budget = opts->budget ? opts->budget : -1;
    KT__TRY(add_kwargs(vars, opts->template_kwargs, err));
    if (json_object_size(vars)) s->template_vars = json_dumps(vars, JSON_COMPACT);
out:
    json_decref(vars);
    return status;
}

kt_request_params kt__session_request(const kt__session *session) {
    kt_request_params r = kt_request_params_default();
    r.prompt.template_vars = session->template_vars;
    r.parts.reasoning_budget = session->budget;
    r.overflow.shift = session->shift_context;
    return r;
}

/* ---- opening ---- */

/* The files that are meant; *draft is "" for the demo model, NULL for none. */
static kt_status find_files(const kt__session_opts *opts, char **path, char **draft,
                            kt_error *err) {
    const kt__config *c = opts->config;
    *draft = NULL;
    kt_status status = kt__model_name_find(c->model, c->load_in, path, err);
    if (status != KT_OK || !c->draft_model || c->draft <= 0) return status;
    status = kt__model_name_find(c->draft_model, NULL, draft, err);
    if (status != KT_OK || *draft) return status;
    *draft = kt__strdup("");
    return *draft ? KT_OK : kt__fail_nomem(err, "a path", 1);
}

static kt_status open_place(const kt__session_opts *opts, kt__session *s, kt_error *err) {
    kt__place_asked asked = kt__command_asks(opts->config);
    char *path = NULL, *draft = NULL;
    kt_status status;
    KT__TRY(kt__config_read_template(opts->config, err));
    KT__TRY(kt__config_finish_own(opts->config, err));
    KT__TRY(take_thinking(opts, s, err));
    KT__TRY(find_files(opts, &path, &draft, err));
    asked.path = path;
    asked.draft_path = draft;
    asked.is_single = !opts->many;
    KT__TRY(kt__place_open(&asked, true, &s->place, err));
    s->ctx = s->place.ctx;
    s->model = s->place.model;
    s->draft = s->place.draft;
    s->engine = s->place.engine;
    kt_model_get_info(s->model, &s->info);
    kt_engine_get_info(s->engine, &s->engine_info);
out:
    kt__free(path);
    kt__free(draft);
    return status;
}

kt_status kt__session_open(const kt__session_opts *opts, kt__session *out, kt_error *err) {
    kt_status status;
    memset(out, 0, sizeof *out);
    /* this program owns its process: a model file truncated in use becomes an error, not a
     * SIGBUS */
    KT__TRY(kt_install_fault_guard(err));
    KT__TRY(open_place(opts, out, err));
    out->reproducible = !kt__place_uses_blas(opts->config);
    KT__TRY(kt__command_set_priority(opts->config, err));
    if (!opts->many) KT__TRY(kt_seq_open(out->engine, &out->seq, err));
    KT__TRY(kt__lora_set_open(&opts->lora, out->model, &out->lora, err));
    if (out->seq) KT__TRY(kt_seq_set_adapters(out->seq, out->lora.uses, out->lora.n, err));
out:
    if (status != KT_OK) kt__session_close(out);
    return status;
}

void kt__session_close(kt__session *s) {
    kt__interrupt_unwatch();
    kt_seq_close(s->seq);
    kt__place_close_engine(&s->place);
    kt__lora_set_close(&s->lora);
    kt__place_close(&s->place);
    free(s->template_vars);
    memset(s, 0, sizeof *s);
}

void kt__session_warn_of_cache(const kt__session *session) {
    kt_cache *cache = session->place.cache;
    kt_cache_stats s;
    if (!cache) return;
    kt_cache_get_stats(cache, &s);
    if (s.n_damaged) {
        fprintf(stderr, "kentang: disk cache: %llu damaged files were not used\n",
                (unsigned long long)s.n_damaged);
    }
    if (s.n_dropped + s.n_failed) {
        fprintf(stderr, "kentang: disk cache: %llu blocks could not be kept (%s)\n",
                (unsigned long long)(s.n_dropped + s.n_failed),
                s.n_failed ? "writing failed" : "the disk was too slow");
    }
}

/* ---- the plan ---- */

/* "12.3 GB" and the like */
typedef struct amount {
    char text[72];
} amount;

static amount bytes_text(uint64_t bytes) {
    amount a;
    double b = (double)bytes;
    if (b >= 1e9) {
        snprintf(a.text, sizeof a.text, "%.2f GB", b / 1e9);
    } else if (b >= 1e6) {
        snprintf(a.text, sizeof a.text, "%.0f MB", b / 1e6);
    } else {
        snprintf(a.text, sizeof a.text, "%.0f kB", b / 1e3);
    }
    return a;
}

/* The number after "KEY" in a file of "KEY: NUMBER kB" lines, in bytes; 0 if it is not there. */
static uint64_t read_kb(const char *path, const char *key) {
    char line[256];
    uint64_t bytes = 0;
    size_t len = strlen(key);
    FILE *in = fopen(path, "r");
    if (!in) return 0;
    while (fgets(line, sizeof line, in)) {
        if (!strncmp(line, key, len) && line[len] == ':')
            bytes = strtoull(line + len + 1, NULL, 10) * 1024;
    }
    fclose(in);
    return bytes;
}

void kt__memory_used(uint64_t *peak_bytes, uint64_t *anon_bytes) {
    *peak_bytes = read_kb("/proc/self/status", "VmHWM");
    *anon_bytes = read_kb("/proc/self/status", "RssAnon");
    kt__process_use use; /* where there is no such file */
    if (!*peak_bytes && kt__process_used(&use)) *peak_bytes = use.peak_bytes;
}

/* ", processors 0-3, priority 2": what was asked for beyond the number of threads */
static void print_place(const kt__config *c) {
    if (c->cpus) fprintf(stderr, ", processors %s", c->cpus);
    if (c->priority) fprintf(stderr, ", priority %d", (int)c->priority);
}

static void print_adapters(const kt__lora_set *set) {
    for (size_t i = 0; i < set->n; i++) {
        kt_adapter_info info;
        kt_adapter_get_info(set->uses[i].adapter, &info);
        fputs(" | adapter ", stderr);
        kt__safe_line(stderr, info.name);
        if (set->uses[i].scale != 1.0f) fprintf(stderr, " x %g", (double)set->uses[i].scale);
    }
}

static void print_draft(const kt__session *s) {
    kt_model_info info;
    kt_model_get_info(s->draft, &info);
    fputs(" | draft model ", stderr);
    kt__safe_line(stderr, info.name[0] ? info.name : info.path);
    fprintf(stderr, " %s", info.quant);
}

/* "K/V 20 MB", and what it is held as where that is not f16 */
static void print_kv(const kt_engine_info *e) {
    fprintf(stderr, "K/V %s", bytes_text(e->kv_bytes_max).text);
    if (e->kv_draft_bytes)
        fprintf(stderr, " (%s for the block that proposes tokens)",
                bytes_text(e->kv_draft_bytes).text);
    if (e->state_bytes) fprintf(stderr, ", states %s", bytes_text(e->state_bytes).text);
    if (e->kv_keys == KT_KV_F16 && e->kv_values == KT_KV_F16) return;
    if (e->kv_keys == e->kv_values) {
        fprintf(stderr, " in %s", kt_kv_type_name(e->kv_keys));
    } else {
        fprintf(stderr, ", keys in %s, values in %s", kt_kv_type_name(e->kv_keys),
                kt_kv_type_name(e->kv_values));
    }
    if (e->n_f16_layers)
        fprintf(stderr, " (f16 keys in %d layers, whose bias is an outlier)", e->n_f16_layers);
    if (e->kv_tail) fprintf(stderr, ", the last %d positions in f16", e->kv_tail);
    fprintf(stderr, ", %s in f16 while it is %s", bytes_text(e->kv_f16_bytes).text,
            e->kv_tail ? "written or recent" : "written");
}

static void print_name(const kt__session *s) {
    fputs("kentang: ", stderr);
    kt__safe_line(stderr, s->info.name && s->info.name[0] ? s->info.name : s->info.path);
}

static void print_experts(const kt_engine_info *e, const char *before) {
    if (!e->expert_kept_bytes) return;
    fprintf(stderr, "%s%s of %s of experts in memory, the others are read as they are needed",
            before, bytes_text(e->expert_kept_bytes).text, bytes_text(e->expert_bytes).text);
}

static void print_pages(const kt__session *s) {
    kt_pages_info pages;
    char text[48];
    kt_model_get_pages(s->model, &pages);
    const kt__page_use use = {pages.bytes, pages.mapped_bytes, pages.large_bytes};
    kt__page_use_text(&use, text, sizeof text);
    if (text[0]) fprintf(stderr, " %s", text);
}

static void print_whole_plan(const kt__session *s, const kt__session_opts *opts) {
    const kt_engine_info *e = &s->engine_info;
    bool embedded = !strcmp(s->info.path, "(demo)"), mapped = opts->config->use_mmap && !embedded;
    uint64_t anonymous = e->kv_bytes_max + e->kv_f16_bytes + e->state_bytes + e->scratch_bytes;
    if (!mapped && !embedded) anonymous += s->info.weight_bytes;
    print_name(s);
    fprintf(stderr, " %s (%s, %s%s", s->info.quant, s->info.arch,
            bytes_text(s->info.file_bytes).text,
            mapped     ? " mapped"
            : embedded ? " embedded"
                       : " in memory,");
    if (!embedded) print_pages(s);
    fprintf(stderr, ")%s | %s, %s | threads %d", opts->config->exact ? " exact" : "",
            kt_ctx_isa(s->ctx), kt_ctx_isa_why(s->ctx), e->n_threads);
    if (e->n_threads_batch != e->n_threads) fprintf(stderr, "/%d", e->n_threads_batch);
    fprintf(stderr, ", %s", kt_ctx_n_threads_why(s->ctx));
    print_place(opts->config);
    if (opts->many) fprintf(stderr, " | %d at once", e->n_parallel);
    fprintf(stderr, " | context %d, batch %d/%d | memory %s (", e->n_ctx, e->n_batch, e->n_ubatch,
            bytes_text(anonymous).text);
    print_kv(e);
    fprintf(stderr, ", scratch %s)", bytes_text(e->scratch_bytes).text);
    if (opts->config->mem) {
        fprintf(stderr, "; planned %s of --mem %s, weights and tables included",
                bytes_text(e->mem_planned_bytes).text, bytes_text(e->mem_budget_bytes).text);
    } else if (e->mem_budget_bytes) { /* the cgroup's limit counts, too */
        fprintf(stderr, " of %s available", bytes_text(e->mem_budget_bytes).text);
    }
    print_experts(e, " | ");
    if (s->draft) print_draft(s);
    print_adapters(&s->lora);
    if (s->place.tuned[0]) fprintf(stderr, " | tuned %s", s->place.tuned);
    if (s->place.why[0]) fprintf(stderr, " | %s", s->place.why);
    if (s->place.kv_why[0]) fprintf(stderr, " | %s", s->place.kv_why);
    if (!s->reproducible) fputs(" | BLAS: answers not reproducible", stderr);
    fputc('\n', stderr);
}

/* What a person wants to know before a conversation. */
static void print_short_plan(const kt__session *s, double tok_s) {
    print_name(s);
    fprintf(stderr, " %s, %s, context %d", s->info.quant, bytes_text(s->info.file_bytes).text,
            s->engine_info.n_ctx);
    print_experts(&s->engine_info, ", ");
    if (s->draft) print_draft(s);
    print_adapters(&s->lora);
    double unit = tok_s < 10 ? 0.1 : tok_s < 100 ? 1 : tok_s < 1000 ? 10 : 100; /* two digits */
    if (tok_s > 0)
        fprintf(stderr, ", about %.*f tokens a second", tok_s < 10, unit * round(tok_s / unit));
    if (s->place.kv_why[0]) fprintf(stderr, ", %s", s->place.kv_why);
    if (!s->reproducible) fputs(", BLAS: answers not reproducible", stderr);
    fputc('\n', stderr);
}

void kt__session_print_plan(const kt__session *s, const kt__session_opts *opts, double tok_s) {
    if (opts->verbose) {
        print_whole_plan(s, opts);
    } else {
        print_short_plan(s, tok_s);
    }
}

double kt__session_tok_s(const kt__session *s) {
    kt_error err;
    int64_t us;
    kt_status status = kt__step_threads_time(s->model, s->engine_info.n_threads, &us, &err);
    return status == KT_OK && us > 0 ? 1e6 / (double)us : 0;
}

static bool stretches_context(const kt__config *c) {
    return c->rope_scaling &&
           (!strcmp(c->rope_scaling, "linear") || !strcmp(c->rope_scaling, "yarn"));
}

void kt__session_warn(const kt__session *s, const kt__session_opts *opts) {
    int32_t n_ctx = s->engine_info.n_ctx, trained = s->info.n_ctx_train;
    if (trained <= 0 || n_ctx <= trained || stretches_context(opts->config)) return;
    fprintf(stderr,
            "kentang: warning: a context of %d is more than the %d positions that the model was "
            "trained for; what is said beyond them may make no sense (--rope-scaling yarn "
            "stretches it)\n",
            (int)n_ctx, (int)trained);
}

void kt__session_tell_notes(const kt_request_report *report) {
    if (!report->n_learned) return;
    fputs("(learned:", stderr);
    for (int32_t i = 0; i < report->n_learned; i++)
        fprintf(stderr, " fb_%llu", (unsigned long long)report->learned[i]);
    fputs(")\n", stderr);
}

/* An adapter that was trained comes after those of --lora. */
kt_status kt__session_recall(kt__session *s, kt_request_params *request, kt_learned *learned,
                             kt_error *err) {
    kt_adapter_use uses[KT_ADAPTERS_MAX + KT_LEARNED_ADAPTERS];
    size_t n = s->lora.n;
    *learned = (kt_learned){0};
    if (!s->learner) return KT_OK;
    kt_status status = kt_learner_get(s->learner, KT_VERSION_SERVED, learned, err);
    if (status != KT_OK) return status;
    request->corrections.recall = learned->recall;
    request->corrections.bank = learned->bank;
    request->corrections.note_tokens = s->notes == KT__NOTES_OUT ? -1 : 0;
    request->corrections.doubtful = s->notes == KT__NOTES_RECITED;
    for (size_t i = 0; i < n; i++) uses[i] = s->lora.uses[i];
    n += kt_learned_adapters(learned, request, uses + n);
    if (n > KT_ADAPTERS_MAX) n = KT_ADAPTERS_MAX;
    status = kt_seq_set_adapters(s->seq, uses, n, err);
    bool judged = s->notes == KT__NOTES_RECITED && !request->constraint.n_forms &&
                  !request->calls.tools;
    if (status == KT_OK && judged) {
        status = kt_notes_judge(s->engine, request, &request->corrections.recited, err);
        request->corrections.note_tokens = -1;
    }
    if (status != KT_OK) kt_learned_close(learned);
    return status;
}

/* ---- figures ---- */

void kt__figures_add(kt__figures *f, const kt_request_report *r) {
    f->last = *r;
    if (!f->n_answers++) f->first_token_ms = (double)r->first_token_us * 1e-3;
    f->n_prompt += r->n_prompt;
    f->n_generated += r->n_generated;
    f->n_drafted += r->n_drafted;
    f->n_accepted += r->n_accepted;
    f->prefill_ms += (double)r->prefill_us * 1e-3;
    f->decode_ms += (double)(r->decode_us + r->sample_us) * 1e-3;
    f->n_prefilled += r->n_prompt - r->n_cached;
    /* the first token comes from the prompt's logits */
    if (r->n_generated > 1) f->n_decoded += r->n_generated - 1;
}

static double per_second(int64_t n, double ms) {
    return n > 0 && ms > 0.0 ? (double)n * 1000.0 / ms : 0.0;
}

double kt__figures_prefill_tok_s(const kt__figures *f) {
    return per_second(f->n_prefilled, f->prefill_ms);
}

double kt__figures_decode_tok_s(const kt__figures *f) {
    return per_second(f->n_decoded, f->decode_ms);
}

/* ", 12 of 30 proposed tokens right", or nothing */
static amount speculation_text(const kt__figures *f) {
    amount a = {""};
    if (f->n_drafted)
        snprintf(a.text, sizeof a.text, ", %lld of %lld proposed tokens right",
                 (long long)f->n_accepted, (long long)f->n_drafted);
    return a;
}

static const char *plural_end(int64_t n) {
    return n == 1 ? "" : "s";
}

void kt__figures_print(const kt__figures *f) {
    uint64_t peak, anon;
    kt__memory_used(&peak, &anon);
    fprintf(stderr, "kentang: prompt %lld token%s", (long long)f->n_prompt,
            plural_end(f->n_prompt));
    if (f->n_prefilled < f->n_prompt) {
        fprintf(stderr, " (%lld computed)", (long long)f->n_prefilled);
    }
    fprintf(
        stderr,
        ", %.1f tok/s | generated %lld token%s, %.1f tok/s%s | first token %.1f ms | peak memory %s "
        "(anonymous %s) | finish %s | seed %llu\n",
        kt__figures_prefill_tok_s(f), (long long)f->n_generated, plural_end(f->n_generated),
        kt__figures_decode_tok_s(f), speculation_text(f).text, f->first_token_ms,
        bytes_text(peak).text, bytes_text(anon).text, kt_finish_name(f->last.finish),
        (unsigned long long)f->last.seed);
}
