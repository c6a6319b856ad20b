/* kentang batch: a file of requests to a file of results, many at once. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"
#include "cli/batch.h"
#include "setup/answer_opts.h"
#include "setup/session.h"
#include "setup/setting_opts.h"
#include "term/cli.h"
#include "term/terminal.h"

typedef struct batch_opts {
    const char *out;
    bool quiet, retry_failed, strict, replicas;
} batch_opts;

#define AT(member) offsetof(batch_opts, member)

static const kt__opt files_table[] = {
    {.name = "out",
     .brief = "o",
     .kind = KT__OPT_TEXT,
     .at = AT(out),
     .arg = "FILE",
     .help =
         "append the results to FILE (default: standard output); those that it holds already are "
         "not computed again"},
    {.name = "retry-failed",
     .kind = KT__OPT_ON,
     .at = AT(retry_failed),
     .help = "compute those again whose result in FILE is an error; the new result is appended, "
             "and of two with one id the last counts"},
    {.name = "strict",
     .kind = KT__OPT_ON,
     .at = AT(strict),
     .help =
         "end with 1 where a result of this run is an error (default: 0, they are in the file)"},
    {.name = "replicas",
     .kind = KT__OPT_ON,
     .at = AT(replicas),
     .help = "after mpirun: each process has a whole model and answers a share of the requests; "
             "results are written in the order of their requests"},
    {.name = "quiet",
     .brief = "q",
     .kind = KT__OPT_ON,
     .at = AT(quiet),
     .help = "no progress line"},
};

typedef struct batch {
    const batch_opts *opts;
    kt__session session;
    kt__batch_input in;
    kt__batch_output out;
    kt__batch_sink sink;
    kt__batch_line held; /* refused by a full queue, to be submitted again */
    kt__id_set seen;     /* ids of this run */
    kt_request_params defaults;
    kt__batch_share share;
    kt__batch_order order; /* of replicas' results */
    int32_t n_live, n_live_max;
    int32_t n_elsewhere; /* of n_live, in other processes */
    bool stopping;
    kt_error failure; /* the first that ends the batch: of the output, or of memory */

    uint64_t n_done, n_errors, n_skipped;
    int64_t n_prompt, n_cached, n_generated, n_drafted, n_accepted;
    int64_t begin_us, shown_us;
    bool show;
} batch;

/* ---- progress ---- */

static double seconds_since(const batch *b) {
    return (double)(kt__now_us() - b->begin_us) * 1e-6;
}

static void show_progress(batch *b, bool now) {
    int64_t t_us = kt__now_us();
    if (!b->show || (!now && t_us - b->shown_us < 500000)) return;
    b->shown_us = t_us;
    fprintf(stderr, "\r\033[Kkentang: %llu done", (unsigned long long)b->n_done);
    if (b->n_errors) fprintf(stderr, " (%llu errors)", (unsigned long long)b->n_errors);
    kt_engine_stats stats;
    kt_engine_get_stats(b->session.engine, &stats);
    fprintf(stderr, ", %d running, %d waiting, %.1f tok/s", stats.running, stats.waiting,
            (double)stats.generated_tokens / seconds_since(b));
    if (b->n_elsewhere) fprintf(stderr, " here, %d elsewhere", b->n_elsewhere);
    if (b->in.size)
        fprintf(stderr, ", %.0f%% of the requests read",
                100.0 * (double)b->in.n_bytes / (double)b->in.size);
    fflush(stderr);
}

static void show_end(batch *b) {
    if (b->show) fputs("\r\033[K", stderr);
    fprintf(stderr, "kentang: %llu results",
            (unsigned long long)(b->n_done - kt__batch_order_waiting(&b->order)));
    if (b->n_errors) fprintf(stderr, ", %llu of them errors", (unsigned long long)b->n_errors);
    if (b->n_skipped)
        fprintf(stderr, ", %llu were there already", (unsigned long long)b->n_skipped);
    fprintf(stderr, " | prompts %lld tokens (%lld cached) | generated %lld tokens, %.1f tok/s",
            (long long)b->n_prompt, (long long)b->n_cached, (long long)b->n_generated,
            (double)b->n_generated / seconds_since(b));
    if (b->n_drafted)
        fprintf(stderr, ", %lld of %lld proposed tokens right", (long long)b->n_accepted,
                (long long)b->n_drafted);
    if (b->share.peers) fprintf(stderr, " | %d replicas", b->share.n);
    fprintf(stderr, " | %.1f s\n", seconds_since(b));
    kt__session_warn_of_cache(&b->session);
}

/* ---- results ---- */

static void fail_batch(batch *b, const kt_error *err) {
    if (b->failure.code == KT_OK) b->failure = *err;
    b->stopping = true;
}

static kt_status write_in_order(batch *b, uint64_t number, kt__buf *line, kt_error *err) {
    kt__buf next;
    kt_status status = KT_OK;
    kt__batch_order_put(&b->order, number, line);
    while (status == KT_OK && kt__batch_order_next(&b->order, &next)) {
        status = kt__batch_output_write(&b->out, &next, err);
        kt__buf_free(&next);
    }
    return status;
}

static void take_result(batch *b, uint64_t number, kt__buf *line, bool failed,
                        const kt_request_report *report) {
    kt_error err;
    /* unfinished, by Ctrl-C or an error of the output: for when the batch is gone on with */
    if (b->stopping || (report && report->finish == KT_FINISH_CANCELLED)) return;
    b->n_done++;
    b->n_errors += failed;
    if (report) {
        b->n_prompt += report->n_prompt;
        b->n_cached += report->n_cached;
        b->n_generated += report->n_generated;
        b->n_drafted += report->n_drafted;
        b->n_accepted += report->n_accepted;
    }
    kt_status status = b->opts->replicas ? write_in_order(b, number, line, &err)
                                         : kt__batch_output_write(&b->out, line, &err);
    if (status != KT_OK) fail_batch(b, &err);
}

static void on_done(void *user, uint64_t number, kt__buf *line, bool failed,
                    const kt_request_report *report) {
    batch *b = user;
    if (report) b->n_live--;
    take_result(b, number, line, failed, report);
}

/* Those that other processes have sent. */
static kt_status take_others(batch *b, kt_error *err) {
    for (bool any = true; any;) {
        kt__batch_result result;
        kt__buf line;
        KT__STEP(kt__batch_share_look(&b->share, &result, &any, err));
        if (!any) break;
        b->n_live--;
        b->n_elsewhere--;
        kt__buf_init(&line, (size_t)1 << 30);
        if (!kt__buf_append(&line, result.bytes, result.len))
            return kt__fail_nomem(err, "a result", result.len);
        take_result(b, result.number, &line, result.failed, &result.report);
        kt__buf_free(&line);
    }
    return KT_OK;
}

/* ---- requests ---- */

/* An id for the second time is an error. Its result bears the line's number: under the id it could
 * not be told from the first one's. */
static kt_status refuse_twice(batch *b, kt__batch_line *line, kt_error *err) {
    bool was_there;
    char number[32];
    if (!line->id || !kt__id_set_add(&b->seen, line->id, &was_there))
        return kt__fail_nomem(err, "the ids of requests", b->seen.n);
    if (!was_there) return KT_OK;
    kt__wire_request_free(line->request);
    line->request = NULL;
    (void)kt__fail_at(&line->err, KT_E_ARG, line->openai ? "custom_id" : "id", UINT64_MAX,
                      "%s: \"%.80s\" was used before", line->openai ? "custom_id" : "id", line->id);
    kt__free(line->id);
    snprintf(number, sizeof number, "line-%llu", (unsigned long long)b->in.n_lines);
    line->id = kt__strdup(number);
    return line->id ? KT_OK : kt__fail_nomem(err, "an id", sizeof number);
}

/* Submits what is held. KT_E_BUSY: not now. */
static kt_status submit_held(batch *b, kt_error *err) {
    bool request = b->held.request != NULL;
    uint64_t n_done = b->n_done;
    kt_status status = kt__batch_job_submit(b->session.engine, &b->held, &b->sink, err);
    if (status == KT_OK && request && b->n_done == n_done && !b->stopping) b->n_live++;
    return status;
}

/* The held request goes to the process that has the least to do, which may be this one. */
static kt_status share_held(batch *b, const char *line, size_t len, kt_error *err) {
    bool any = b->share.peers && b->held.request;
    int rank = any ? kt__batch_share_choose(&b->share, b->n_live - b->n_elsewhere) : 0;
    if (!kt__batch_order_expect(&b->order, b->held.number))
        return kt__fail_nomem(err, "the order of results", b->order.end);
    if (rank < 1) return submit_held(b, err);
    KT__STEP(kt__batch_share_send(&b->share, rank, b->held.number, line, len, err));
    b->n_live++;
    b->n_elsewhere++;
    kt__batch_line_free(&b->held);
    return KT_OK;
}

static kt_status take_line(batch *b, kt__batch_read got, const char *line, size_t len,
                           kt_error *err) {
    if (got == KT__BATCH_TOO_LONG) line = "", len = 0;
    kt__batch_line_parse(line, len, b->in.n_lines, &b->defaults, &b->held);
    if (got == KT__BATCH_TOO_LONG) {
        (void)kt__fail(&b->held.err, KT_E_LIMIT, "a line of more than %d bytes",
                       KT__WIRE_MAX_BYTES);
    }
    kt_status status = refuse_twice(b, &b->held, err);
    if (status != KT_OK) return status;
    bool finished = kt__id_set_has(&b->out.finished, b->held.id);
    if (!finished && b->opts->replicas) return share_held(b, line, len, err);
    if (!finished) return submit_held(b, err);
    b->n_skipped++;
    kt__batch_line_free(&b->held);
    return KT_OK;
}

static bool has_room(const batch *b) {
    if (b->held.id) return false;
    if (!b->opts->replicas) return b->n_live < b->n_live_max;
    int rank = kt__batch_share_choose(&b->share, b->n_live - b->n_elsewhere);
    return rank >= 0 && !kt__batch_order_is_full(&b->order);
}

/* Takes requests while there are some and room for them. false: there will be no more. */
static bool take_requests(batch *b) {
    kt_error err;
    kt_status status = KT_OK;
    if (b->held.id) status = submit_held(b, &err);
    while (status == KT_OK && has_room(b) && !b->stopping) {
        const char *line;
        size_t len;
        kt__batch_read got = kt__batch_input_next(&b->in, b->n_live == 0, &line, &len, &err);
        if (got == KT__BATCH_EOF) return false;
        if (got == KT__BATCH_FAILED) status = err.code;
        if (got == KT__BATCH_WAIT) break;
        if (status == KT_OK) status = take_line(b, got, line, len, &err);
        show_progress(b, false);
    }
    if (status != KT_OK && status != KT_E_BUSY) fail_batch(b, &err);
    return true;
}

/* What is computed here for a moment, and what came from elsewhere. */
static kt_status step_all(batch *b, kt_error *err) {
    const struct timespec pause = {.tv_nsec = 1000000};
    int32_t left;
    if (b->n_live > b->n_elsewhere)
        KT__STEP(kt_engine_step(b->session.engine, 20000, &left, err));
    else if (b->n_live)
        (void)nanosleep(&pause, NULL);
    return take_others(b, err);
}

static void run_all(batch *b) {
    bool more = true;
    kt__interrupt_watch(b->session.engine);
    while (!b->stopping && (more || b->n_live)) {
        kt_error err;
        if (more) more = take_requests(b);
        kt_status status = step_all(b, &err);
        if (kt__interrupted())
            status = kt__fail(&err, KT_E_CANCELLED, "interrupted; the results so far are kept");
        if (status != KT_OK) fail_batch(b, &err);
        show_progress(b, false);
    }
    b->stopping = true;
    kt_engine_stop(b->session.engine, 0);
    kt__interrupt_unwatch();
}

/* ---- the command ---- */

static kt_status open_input(const char *word, int *fd, kt_error *err) {
    *fd = KT__STDIN;
    if (!word || !strcmp(word, "-")) return KT_OK;
    *fd = kt__fd_open(word, KT__OPEN_READ);
    if (*fd >= 0) return KT_OK;
    return kt__fail_system(err, errno, word, "cannot open");
}

static void set_up(batch *b, const kt_gen_params *gen) {
    const kt_model_info *info = &b->session.info;
    b->defaults = kt_request_params_default();
    b->defaults.gen = *gen;
    b->defaults.adapters = b->session.lora.uses;
    b->defaults.n_adapters = b->session.lora.n;
    b->sink = (kt__batch_sink){on_done, b, b->session.model,
                               info->name[0] ? info->name : info->path, &b->session.lora};
    kt_engine_info engine;
    kt_engine_get_info(b->session.engine, &engine);
    b->n_live_max = engine.n_parallel * 2 + 8; /* the next ones wait in the queue */
    if (b->n_live_max > engine.n_queue_max) b->n_live_max = engine.n_queue_max;
    b->show = !b->opts->quiet && kt__fd_is_terminal(KT__STDERR);
    if (b->out.n_cut) {
        fprintf(stderr, "kentang: an unfinished last line of %llu bytes was cut off %s\n",
                (unsigned long long)b->out.n_cut, b->out.path);
    }
}

static kt_status open_files(batch *b, const char *word, int *fd, kt_error *err) {
    if (b->opts->retry_failed && !b->opts->out)
        return kt__fail(err, KT_E_ARG, "--retry-failed needs the file of results: --out FILE");
    if (kt_launcher_rank() > 0) return KT_OK; /* process 0 reads and writes */
    KT__STEP(open_input(word, fd, err));
    kt__batch_input_open(&b->in, *fd);
    return kt__batch_output_open(b->opts->out, b->opts->retry_failed, &b->out, err);
}

static kt_status answer_all(batch *b, const kt__session_opts *session, kt_error *err) {
    const kt_engine_info *engine = &b->session.engine_info;
    if (b->opts->replicas && b->share.rank > 0)
        return kt__batch_replica_run(&b->share, &b->session, &b->defaults, err);
    kt__session_print_plan(&b->session, session, 0);
    if (b->opts->replicas)
        KT__STEP(kt__batch_share_ready(&b->share, engine->n_parallel, engine->n_queue_max, err));
    b->begin_us = kt__now_us();
    run_all(b);
    show_end(b);
    *err = b->failure;
    return b->failure.code == KT_OK ? kt__batch_share_end(&b->share, err) : b->failure.code;
}

static int run_batch(const batch_opts *opts, kt__session_opts *session, kt__sampling_opts *sampling,
                     const char *word) {
    batch b = {.opts = opts, .in = {.fd = -1}, .out = {.fd = -1}};
    kt_error err = {0};
    kt_status status;
    int code = 0, fd = -1;
    session->many = true;
    session->config->replica = opts->replicas;
    KT__TRY(kt__sampling_opts_finish(sampling, &err));
    KT__TRY(open_files(&b, word, &fd, &err));
    if (opts->replicas) KT__TRY(kt__batch_share_open(&b.share, &err));
    KT__TRY(kt__session_open(session, &b.session, &err));
    set_up(&b, &sampling->params);
    KT__TRY(answer_all(&b, session, &err));
out:
    kt__batch_line_free(&b.held);
    if (b.session.ctx) kt__session_close(&b.session);
    kt__batch_input_close(&b.in);
    kt__batch_order_free(&b.order);
    kt__id_set_free(&b.seen);
    kt_error close_err;
    kt_status closed = kt__batch_output_close(&b.out, &close_err);
    if (status == KT_OK && closed != KT_OK) {
        err = close_err;
        status = closed;
    }
    if (fd > KT__STDIN) kt__fd_close(fd);
    if (status != KT_OK) code = kt__cli_fail("batch", &err);
    kt__batch_share_close(&b.share, status != KT_OK);
    return status == KT_OK && opts->strict && b.n_errors ? 1 : code;
}

static int batch_command(int argc, char **argv, kt__config *config) {
    batch_opts opts = {0};
    kt__session_opts session = {.config = config, .verbose = true};
    kt__sampling_opts sampling = kt__sampling_opts_default();
    const kt__opt_group groups[] = {
        {"Results", files_table, KT__COUNT(files_table), &opts},
        kt__setting_opts(config, KT__OPTIONS_MANY),
        kt__setting_opts(config, KT__OPTIONS_CACHE),
        kt__sampling_opts_length_group(&sampling),
        kt__setting_opts(config, KT__OPTIONS_SIZES),
        kt__setting_opts(config, KT__OPTIONS_DRAFT),
        kt__lora_opts_group(&session.lora),
        kt__setting_opts(config, KT__OPTIONS_CORES),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
        kt__sampling_opts_group(&sampling),
    };
    const kt__syntax syntax = {
        .command = "batch",
        .usage = "[-m MODEL] [REQUESTS.jsonl | -] [OPTIONS] > RESULTS.jsonl",
        .about =
            "Answers a file of requests, one JSON object a line, many at once; a line with the "
            "result\n"
            "of each is written as soon as it is there. A line is one of OpenAI's batch files\n"
            "  {\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", "
            "\"body\": {...}}\n"
            "or kentang's own, with the same fields as the body\n"
            "  {\"id\": \"a\", \"prompt\": \"Once\", \"max_tokens\": 50}   or   {\"id\": \"b\", "
            "\"messages\": [...]}\n"
            "What a request does not say comes from the options. An answer does not depend on the "
            "others,\n"
            "nor on the order in which they end. A line that is wrong gets an error as its "
            "result.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .max_words = 1,
        .word = "FILE",
        .notes = "After a stop of any kind the same command with the same --out goes on: results "
                 "that are\n"
                 "in the file, errors too, are not computed again (--retry-failed: errors are). A "
                 "result is\n"
                 "known by its id alone: for changed requests or another model give another "
                 "--out.\n\n"
                 "Example:\n"
                 "  kentang batch -m model.gguf requests.jsonl --out results.jsonl",
    };
    const char *word = NULL;
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, &word, &n_words);
    if (code < 0) code = run_batch(&opts, &session, &sampling, n_words ? word : NULL);
    kt__sampling_opts_free(&sampling);
    kt__lora_opts_free(&session.lora);
    return code;
}

int kt__cmd_batch(int argc, char **argv) {
    return kt__with_settings(argc, argv, batch_command);
}
