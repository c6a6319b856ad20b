/* kentang learn: an adapter trained from feedback, and the gate's judgement of it. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "context/types.h"
#include "learn/learn.h"
#include "make/learn.h"
#include "setup/session.h"
#include "setup/setting_opts.h"
#include "term/cli.h"

typedef struct learn_opts {
    kt__report_opts report;
    const char *target, *measure, *from;
    bool deep, micro, force, json, no_replay;
    int32_t rank, n_step, n_own, batch, batch_replay, batch_neighbour;
    float rate, alpha, replay_weight, neighbour_weight, ewc, held_out, cpu_s;
    uint64_t seed;
} learn_opts;

#define AT(member) offsetof(learn_opts, member)
static const kt__opt learn_table[] = {
    {.name = "output",
     .brief = "o",
     .kind = KT__OPT_TEXT,
     .at = AT(target),
     .arg = "FILE",
     .help = "the adapter, a GGUF file; it is written where the gate lets it pass"},
    {.name = "force", .kind = KT__OPT_ON, .at = AT(force), .help = "write it where it does not"},
    {.name = "from",
     .kind = KT__OPT_TEXT,
     .at = AT(from),
     .arg = "FILE",
     .help = "continue from an adapter that this command wrote, with the same rank and --deep"},
    {.name = "deep",
     .kind = KT__OPT_ON,
     .at = AT(deep),
     .help = "every matrix of every layer; else the last layer's after its keys and values, and "
             "the final hidden state: what was computed of prompts stays valid, and less can be "
             "learned"},
    {.name = "micro",
     .kind = KT__OPT_ON,
     .at = AT(micro),
     .help =
         "the final hidden state alone (MicroLoRA): words and style; with --rank 1 to 8 an answer takes no "
         "measurable time more"},
    {.name = "json", .kind = KT__OPT_ON, .at = AT(json), .help = "the report as a JSON object"},
    {.name = "measure",
     .kind = KT__OPT_TEXT,
     .at = AT(measure),
     .arg = "FILE",
     .help = "also measure the loss on this file's answers, before and after; they teach nothing"},
};

static const kt__opt training_table[] = {
    {.name = "rank",
     .kind = KT__OPT_INT,
     .at = AT(rank),
     .min = 1,
     .max = 256,
     .arg = "N",
     .help = "of the matrices (default 8)"},
    {.name = "steps",
     .kind = KT__OPT_INT,
     .at = AT(n_step),
     .min = 1,
     .max = 1000000,
     .arg = "N",
     .help = "updates"},
    {.name = "rate",
     .kind = KT__OPT_FLOAT,
     .at = AT(rate),
     .min = 0,
     .max = 1,
     .arg = "R",
     .help =
         "how far one goes, at most (default: 0.005, less of matrices with more than 1536 inputs)"},
    {.name = "alpha",
     .kind = KT__OPT_FLOAT,
     .at = AT(alpha),
     .min = 1e-3,
     .max = 1e6,
     .arg = "A",
     .help = "the adapter counts A / rank"},
    {.name = "batch",
     .kind = KT__OPT_INT,
     .at = AT(batch),
     .min = 1,
     .max = 4096,
     .arg = "N",
     .help = "lines of feedback an update"},
    {.name = "batch-replay",
     .kind = KT__OPT_INT,
     .at = AT(batch_replay),
     .min = 0,
     .max = 4096,
     .arg = "N",
     .help = "conversations of replay an update"},
    {.name = "batch-neighbours",
     .kind = KT__OPT_INT,
     .at = AT(batch_neighbour),
     .min = 0,
     .max = 4096,
     .arg = "N",
     .help = "questions an update whose answers shall stay"},
    {.name = "replay-weight",
     .kind = KT__OPT_FLOAT,
     .at = AT(replay_weight),
     .min = 0,
     .max = 1000,
     .arg = "W",
     .help = "how much staying as it was counts"},
    {.name = "neighbours-weight",
     .kind = KT__OPT_FLOAT,
     .at = AT(neighbour_weight),
     .min = 0,
     .max = 1000,
     .arg = "W",
     .help = "the same of questions whose answers shall stay"},
    {.name = "own",
     .kind = KT__OPT_INT,
     .at = AT(n_own),
     .min = 0,
     .max = 100000,
     .arg = "N",
     .help = "conversations that the model writes itself, for replay and as the anchor"},
    {.name = "ewc",
     .kind = KT__OPT_FLOAT,
     .at = AT(ewc),
     .min = 0,
     .max = 1e9,
     .arg = "L",
     .help = "with --from: how firmly it is held to what lines of \"earlier\" need (default 0)"},
    {.name = "no-replay",
     .kind = KT__OPT_ON,
     .at = AT(no_replay),
     .help = "train without replay: to see what it is for"},
    {.name = "held-out",
     .kind = KT__OPT_FLOAT,
     .at = AT(held_out),
     .min = 0,
     .max = 0.9,
     .arg = "PART",
     .help = "of the conversations that is only measured (default 0.2)"},
    {.name = "cpu",
     .kind = KT__OPT_FLOAT,
     .at = AT(cpu_s),
     .min = 0,
     .max = 1e9,
     .arg = "SECONDS",
     .help = "of processor time for the training; 0 (default): no limit"},
    {.name = "seed",
     .kind = KT__OPT_SEED,
     .at = AT(seed),
     .arg = "N",
     .help = "of all that is random (default 1)"},
};
#undef AT

static learn_opts default_opts(void) {
    kt__learn_settings s;
    kt__learn_defaults(&s);
    return (learn_opts){.rank = s.rank,
                        .n_step = s.n_step,
                        .n_own = 800,
                        .batch = s.batch,
                        .batch_replay = s.batch_replay,
                        .batch_neighbour = s.batch_neighbour,
                        .alpha = s.alpha,
                        .replay_weight = s.replay_weight,
                        .neighbour_weight = s.neighbour_weight,
                        .held_out = (float)s.held_out,
                        .seed = s.seed};
}

/* Who is called with each step. */
typedef struct step_watch {
    const learn_opts *opts;
    kt__learning_course course;
} step_watch;

static void show_step(void *user, int step, double loss) {
    step_watch *w = user;
    const learn_opts *o = w->opts;
    if (w->course.n < w->course.cap) w->course.losses[w->course.n++] = loss;
    if (step % 10 == 0 || step == o->n_step)
        fprintf(stderr, "\rstep %d of %d, loss %.4f ", step, o->n_step, loss);
    if (step == o->n_step) fputc('\n', stderr);
}

static kt__learn_settings settings_of(const learn_opts *o) {
    kt__learn_settings s;
    kt__learn_defaults(&s);
    s.where = o->deep ? KT__LEARN_ALL : o->micro ? KT__LEARN_HIDDEN : KT__LEARN_LAST;
    s.rank = o->rank;
    s.n_step = o->n_step;
    s.rate = o->rate;
    s.alpha = o->alpha;
    s.batch = o->batch;
    s.batch_replay = o->batch_replay;
    s.batch_neighbour = o->batch_neighbour;
    s.replay_weight = o->no_replay ? 0.0f : o->replay_weight;
    s.neighbour_weight = o->neighbour_weight;
    s.shrink = !o->no_replay;
    s.held_out = (double)o->held_out;
    s.seed = o->seed;
    s.ewc_lambda = o->ewc;
    s.cpu_ms_max = (int64_t)(o->cpu_s * 1000.0f);
    return s;
}

/* What is open while there is a lesson. */
typedef struct learning {
    kt__session session;
    kt__lesson lesson, measured;
    kt__factors *prior, *factors;
    kt__learn_report report;
    step_watch watch;
    double before, after; /* of what --measure names */
} learning;

static void close_learning(learning *l) {
    kt__factors_free(l->prior);
    kt__factors_free(l->factors);
    kt__lesson_free(&l->lesson);
    kt__lesson_free(&l->measured);
    kt__free(l->watch.course.losses);
    if (l->session.ctx) kt__session_close(&l->session);
}

static kt_status read_prior(const learn_opts *o, const kt__learn_settings *s, learning *l,
                            kt_error *err) {
    const kt__gguf_open_params params = {.use_mmap = true};
    kt__gguf *gguf = NULL;
    kt_status status;
    if (!o->from) return KT_OK;
    KT__TRY(kt__gguf_open(o->from, &params, &gguf, err));
    KT__TRY(kt__factors_make(l->session.model->net, s->where, s->rank, s->alpha, s->seed, &l->prior,
                             err));
    KT__TRY(kt__factors_read(l->prior, gguf, err));
out:
    kt__gguf_close(gguf);
    return status;
}

/* With the context's threads, which are this command's alone. */
static kt_status train_adapter(const learn_opts *o, learning *l, kt_error *err) {
    kt_ctx *ctx = l->session.ctx;
    kt__learn_settings s = settings_of(o);
    s.bytes_keep = ctx->mem_bytes / 4;
    s.progress = show_step;
    s.progress_user = &l->watch;
    const kt__learn_on on = {l->session.model->net, ctx->pool, ctx->kernels,
                             kt__lesson_end_token(l->session.model)};
    kt_status status = read_prior(o, &s, l, err);
    const kt__learn_from from = {.prior = l->prior};
    if (status != KT_OK) return status;
    const kt__consolidate merge = {.how = KT__CONSOLIDATE_EWC_MERGE, .prior = l->prior};
    kt__pool_lock(ctx->pool);
    if (o->ewc > 0.0f)
        status = kt__learn_consolidate(&on, &merge, l->lesson.samples, l->lesson.n, &s, &l->factors,
                                       &l->report, err);
    else
        status = kt__learn(&on, l->lesson.samples, l->lesson.n, &s, &from, &l->factors, &l->report,
                           err);
    if (status == KT_OK && l->measured.n > 0) {
        status = kt__learn_evaluate(&on, l->prior, l->measured.samples, l->measured.n, &s,
                                    &l->before, err);
        if (status == KT_OK)
            status = kt__learn_evaluate(&on, l->factors, l->measured.samples, l->measured.n, &s,
                                        &l->after, err);
    }
    kt__pool_unlock(ctx->pool);
    return status;
}

static kt_status print_json(const learning *l, bool written, kt_error *err) {
    kt__buf buf;
    kt__buf_init(&buf, 1 << 16);
    kt__learn_report_json(&l->report, &buf);
    if (buf.failed) return kt__fail_nomem(err, "the report", 0);
    buf.data[buf.len - 1] = '\0'; /* its closing brace comes below */
    printf("%s,\"written\":%s", buf.data, written ? "true" : "false");
    if (l->measured.n > 0)
        printf(",\"measured\":{\"before\":%.5f,\"after\":%.5f}", l->before, l->after);
    puts("}");
    kt__buf_free(&buf);
    return KT_OK;
}

static void print_report(const learning *l, const learn_opts *o, bool written) {
    const kt__learn_report *r = &l->report;
    printf("%d samples trained in %d steps, %.1f s of processor time\n", r->n_train, r->n_step,
           (double)r->cpu_ms / 1000.0);
    printf("held-out answers: %.3f nats a token before, %.3f after (quality_delta %.3f, at least "
           "%.3f)\n",
           r->held.before, r->held.after, r->quality_delta, r->gain_low);
    printf("anchor: %.4f before, %.4f after\n", r->anchor.before, r->anchor.after);
    printf("corrections recalled word for word: %d of %d\n", r->recalled, r->n_recall);
    printf("neighbouring questions with a taught answer: %d of %d\n", r->leaks, r->n_neighbour);
    if (l->measured.n > 0) printf("%s: %.4f before, %.4f after\n", o->measure, l->before, l->after);
    if (!r->publish) printf("not published: %s\n", r->why);
    if (written) printf("%s written\n", o->target);
}

/* Room for the losses of all steps, where a report shows them. */
static kt_status open_watch(const learn_opts *o, learning *l, kt_error *err) {
    l->watch.opts = o;
    if (!o->report.path) return KT_OK;
    l->watch.course.cap = o->n_step;
    l->watch.course.losses = kt__calloc((size_t)o->n_step + 1, sizeof(double));
    if (!l->watch.course.losses) return kt__fail_nomem(err, "the losses of the steps", 0);
    return kt__report_check(&o->report, err);
}

static kt_status report_learning(const learn_opts *o, const learning *l, const char *file,
                                 bool written, kt_error *err) {
    const kt_model_info *info = &l->session.info;
    const kt__learning_result result = {.model = info->name[0] ? info->name : info->path,
                                        .lesson = file,
                                        .isa = kt_ctx_isa(l->session.ctx),
                                        .report = &l->report,
                                        .course = &l->watch.course,
                                        .measured = l->measured.n > 0 ? o->measure : NULL,
                                        .before = l->before,
                                        .after = l->after,
                                        .written = written ? o->target : NULL};
    return kt__learning_write_report(&o->report, &result, err);
}

static kt_status run_learning(const learn_opts *o, const kt__session_opts *session_opts,
                              const char *file, learning *l, kt_error *err) {
    const kt__lesson_own own = {.n = o->n_own, .seed = o->seed};
    KT__STEP(open_watch(o, l, err));
    KT__STEP(kt__session_open(session_opts, &l->session, err));
    KT__STEP(kt__lesson_read(&l->lesson, l->session.engine, file, err));
    if (o->measure) KT__STEP(kt__lesson_read(&l->measured, l->session.engine, o->measure, err));
    if (o->n_own > 0 && kt__lesson_count(&l->lesson, KT__SAMPLE_REPLAY) == 0)
        KT__STEP(kt__lesson_write_own(&l->lesson, l->session.engine, &own, err));
    KT__STEP(train_adapter(o, l, err));
    bool written = o->target && (l->report.publish || o->force);
    if (written)
        KT__STEP(kt__factors_write(l->factors, l->session.info.arch, NULL, o->target, err));
    if (o->json)
        KT__STEP(print_json(l, written, err));
    else
        print_report(l, o, written);
    return report_learning(o, l, file, written, err);
}

static int learn_command(int argc, char **argv, kt__config *config) {
    learn_opts o = default_opts();
    o.report = kt__report_opts_of(argc, argv);
    kt__session_opts session_opts = {.config = config};
    session_opts.many = true; /* what the model writes itself is written at the same time */
    const kt__opt_group groups[] = {
        {"Options", learn_table, KT__COUNT(learn_table), &o},
        {"Training", training_table, KT__COUNT(training_table), &o},
        kt__report_opts_group(&o.report),
        kt__setting_opts(config, KT__OPTIONS_SIZES),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
    };
    const kt__syntax syntax = {
        .command = "learn",
        .usage = "[-m MODEL] [-o ADAPTER] [OPTIONS] FILE",
        .about =
            "Trains an adapter from feedback, a JSON object a line: {\"prompt\": TEXT or "
            "\"messages\":\n[...], \"correction\": TEXT}, or \"answer\" with \"rating\" \"up\" or "
            "\"down\", or\n\"keep\": true for what shall stay as it is. A part of the "
            "conversations is only\nmeasured; the adapter is written where they gain, and nothing "
            "else loses.",
        .groups = groups,
        .n_groups = KT__COUNT(groups),
        .min_words = 1,
        .max_words = 1,
        .word = "FILE",
        .notes = "Exit code 3: the gate refused the adapter."};
    const char *file = NULL;
    size_t n_words = 0;
    learning l = {0};
    kt_error err = {0};
    int code = kt__cli_parse(&syntax, argc, argv, &file, &n_words);
    if (code >= 0) return code;
    kt_status status = run_learning(&o, &session_opts, file, &l, &err);
    code = status != KT_OK ? kt__cli_fail("learn", &err) : l.report.publish ? 0 : 3;
    close_learning(&l);
    return kt__cli_finish("learn", code);
}

int kt__cmd_learn(int argc, char **argv) {
    return kt__with_settings(argc, argv, learn_command);
}
