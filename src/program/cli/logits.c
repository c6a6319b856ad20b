/* kentang logits, kentang greedy: token ids in, what the model makes of them out, JSON lines both.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "setup/session.h"
#include "setup/setting_opts.h"
#include "term/cli.h"

enum { MAX_LINE_BYTES = 64 << 20, DEFAULT_CTX = 2048, DEFAULT_GREEDY = 32 };

typedef struct probe_opts {
    int32_t top, n;
} probe_opts;

/* One line's work: the ids after which something is asked. */
typedef kt_status probe_fn(kt__session *s, const probe_opts *opts, const int32_t *ids, size_t n,
                           kt_error *err);

/* ---- lines of ids ---- */

static kt_status ids_from(json_t *list, int32_t **ids, size_t *n, kt_error *err) {
    *n = json_array_size(list);
    if (!json_is_array(list) || !*n) {
        return kt__fail(err, KT_E_FORMAT, "expected a JSON array of at least one token id");
    }
    *ids = kt__calloc(*n, sizeof **ids);
    if (!*ids) return kt__fail_nomem(err, "token ids", *n * sizeof **ids);
    for (size_t i = 0; i < *n; i++) {
        json_t *item = json_array_get(list, i);
        json_int_t id = json_integer_value(item);
        if (!json_is_integer(item) || id < 0 || id > INT32_MAX) {
            return kt__fail(err, KT_E_FORMAT, "element %zu is no token id", i);
        }
        (*ids)[i] = (int32_t)id;
    }
    return KT_OK;
}

static kt_status probe_line(kt__session *s, const probe_opts *opts, probe_fn *probe,
                            const char *line, size_t len, kt_error *err) {
    json_error_t json_error;
    int32_t *ids = NULL;
    size_t n = 0;
    json_t *list = json_loadb(line, len, JSON_DECODE_ANY, &json_error);
    if (!list) {
        return kt__fail(err, KT_E_FORMAT, "not JSON: %.200s (column %d)", json_error.text,
                        json_error.column);
    }
    kt_status status;
    KT__TRY(ids_from(list, &ids, &n, err));
    KT__TRY(kt_seq_truncate(s->seq, 0, err));
    KT__TRY(probe(s, opts, ids, n, err));
out:
    json_decref(list);
    kt__free(ids);
    return status;
}

static int line_error(const char *command, long number, const kt_error *err) {
    if (err->code != KT_E_FORMAT) {
        fprintf(stderr, "kentang %s: in line %ld of the input:\n", command, number);
        return kt__cli_fail(command, err);
    }
    return kt__cli_error(command, KT_E_FORMAT,
                         "one JSON array of token ids a line, as `kentang tokenize` writes",
                         "line %ld: %s", number, err->message);
}

static int probe_lines(const char *command, kt__session *s, const probe_opts *opts,
                       probe_fn *probe) {
    int code = 0;
    for (long number = 1; code == 0; number++) {
        char *line = NULL;
        size_t len = 0;
        kt_error err = {0};
        int got = kt__cli_read_line(stdin, MAX_LINE_BYTES, &line, &len, &err);
        if (got == 0) break;
        if (got < 0) return kt__cli_fail(command, &err);
        if (len && strspn(line, " \t\r") < len &&
            probe_line(s, opts, probe, line, len, &err) != KT_OK) {
            code = line_error(command, number, &err);
        }
        kt__free(line);
    }
    return code;
}

/* ---- logits ---- */

static size_t index_of_max(const float *logits, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        if (logits[i] > logits[best]) best = i;
    }
    return best;
}

/* f32 with as many digits as it takes to read the same number back */
static void print_float(float x) {
    printf("%.9g", (double)x);
}

static void print_all(const float *logits, size_t n_vocab, size_t n) {
    printf("{\"n\":%zu,\"argmax\":%zu,\"logits\":[", n, index_of_max(logits, n_vocab));
    for (size_t i = 0; i < n_vocab; i++) {
        if (i) putchar(',');
        print_float(logits[i]);
    }
    puts("]}");
}

static int by_logit(const void *a, const void *b, void *user) {
    const float *logits = user;
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (logits[x] != logits[y]) return logits[x] > logits[y] ? -1 : 1;
    return (x > y) - (x < y);
}

static kt_status print_top(const float *logits, size_t n_vocab, size_t top, kt_error *err) {
    float *copy = kt__calloc(n_vocab, sizeof *copy);
    int32_t *order = kt__calloc(n_vocab, sizeof *order);
    if (copy && order) {
        memcpy(copy, logits, n_vocab * sizeof *copy);
        for (size_t i = 0; i < n_vocab; i++) order[i] = (int32_t)i;
        qsort_r(order, n_vocab, sizeof *order, by_logit, copy);
        putchar('[');
        for (size_t i = 0; i < top && i < n_vocab; i++) {
            printf("%s[%d,", i ? "," : "", (int)order[i]);
            print_float(copy[order[i]]);
            putchar(']');
        }
        puts("]");
    }
    bool done = copy && order;
    kt__free(copy);
    kt__free(order);
    return done ? KT_OK : kt__fail_nomem(err, "the logits in order", n_vocab * 8);
}

static kt_status probe_logits(kt__session *s, const probe_opts *opts, const int32_t *ids, size_t n,
                              kt_error *err) {
    size_t n_vocab = (size_t)s->info.n_vocab;
    kt_status status = kt_seq_eval(s->seq, ids, n, err);
    if (status != KT_OK) return status;
    const float *logits = kt_seq_logits(s->seq);
    if (opts->top) return print_top(logits, n_vocab, (size_t)opts->top, err);
    print_all(logits, n_vocab, n);
    return KT_OK;
}

/* ---- greedy ---- */

static kt_status probe_greedy(kt__session *s, const probe_opts *opts, const int32_t *ids, size_t n,
                              kt_error *err) {
    kt_request_params request = kt_request_params_default();
    kt_request *req = NULL;
    kt_event event;
    bool first = true;
    request.prompt.ids = ids;
    request.prompt.n_ids = n;
    request.adapters = s->lora.uses;
    request.n_adapters = s->lora.n;
    request.gen.sampling.temperature = 0.0f;
    request.gen.sampling.seed = 0;
    request.gen.n_predict = opts->n;
    request.gen.ignore_eog = true; /* n tokens, as other programs' lists of them */
    kt_status status = kt_engine_submit(s->engine, &request, &req, err);
    if (status != KT_OK) return status;
    while (kt_request_next_event(req, &event, -1)) {
        if (event.kind == KT_EVENT_FINISHED && event.error) {
            *err = *event.error;
            status = err->code;
        }
        if (event.kind != KT_EVENT_TOKEN || event.id < 0) continue;
        printf("%c%d", first ? '[' : ',', (int)event.id);
        first = false;
    }
    if (status == KT_OK && first) putchar('[');
    if (status == KT_OK || !first) puts("]");
    kt_request_close(req);
    return status;
}

/* ---- the commands ---- */

static const kt__opt logits_table[] = {
    {.name = "top",
     .kind = KT__OPT_INT,
     .at = offsetof(probe_opts, top),
     .min = 1,
     .max = INT32_MAX,
     .arg = "N",
     .help = "only the N greatest, as [[id,logit],...]"},
};
static const kt__opt greedy_table[] = {
    {.name = "n",
     .brief = "n",
     .also = "predict",
     .kind = KT__OPT_INT,
     .at = offsetof(probe_opts, n),
     .min = 1,
     .max = 1 << 30,
     .arg = "N",
     .help = "tokens to generate (default 32), less where the context is full"},
};

static int probe_main(int argc, char **argv, kt__config *config, const char *about,
                      const kt__opt *own, size_t n_own, probe_fn *probe) {
    probe_opts opts = {0, DEFAULT_GREEDY};
    kt__session_opts session_opts = {.config = config};
    config->ctx = DEFAULT_CTX;
    const kt__opt_group groups[] = {
        {"Output", own, n_own, &opts},
        kt__lora_opts_group(&session_opts.lora),
        kt__setting_opts(config, KT__OPTIONS_SIZES),
        kt__setting_opts(config, KT__OPTIONS_MODEL),
    };
    const kt__syntax syntax = {.command = argv[0],
                               .usage = "[MODEL | -m MODEL] [OPTIONS] < IDS.jsonl",
                               .about = about,
                               .groups = groups,
                               .n_groups = KT__COUNT(groups)};
    int code = kt__cli_parse(&syntax, argc, argv, NULL, NULL);
    if (code >= 0) return code;
    kt__session session;
    kt_error err = {0};
    if (kt__session_open(&session_opts, &session, &err) != KT_OK) {
        code = kt__cli_fail(argv[0], &err);
    } else {
        code = probe_lines(argv[0], &session, &opts, probe);
        kt__session_close(&session);
    }
    kt__lora_opts_free(&session_opts.lora);
    return code;
}

static int logits_command(int argc, char **argv, kt__config *config) {
    return probe_main(
        argc, argv, config,
        "Reads one JSON array of token ids a line and writes, for each, the logits after its "
        "last\ntoken: {\"n\":ids,\"argmax\":id,\"logits\":[...]}. The context is 2048 unless "
        "-c says otherwise.",
        logits_table, KT__COUNT(logits_table), probe_logits);
}

static int greedy_command(int argc, char **argv, kt__config *config) {
    return probe_main(
        argc, argv, config,
        "Reads one JSON array of token ids a line and writes, for each, the array of the most\n"
        "probable tokens that follow: n of them, also past an end-of-generation token.",
        greedy_table, KT__COUNT(greedy_table), probe_greedy);
}

int kt__cmd_logits(int argc, char **argv) {
    return kt__with_settings(argc, argv, logits_command);
}

int kt__cmd_greedy(int argc, char **argv) {
    return kt__with_settings(argc, argv, greedy_command);
}
