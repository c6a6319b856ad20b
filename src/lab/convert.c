/* kentang convert: makes a GGUF file of a Hugging Face folder. */
#include "convert/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/nearest.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "host/host.h"
#include "host/pool.h"

enum { MAX_NAMES = 64 };

struct convert_opts {
    const char *type;
    int32_t n_threads;
    bool quiet;
};

static const kt__opt table[] = {
    {.name = "type",
     .kind = KT__OPT_TEXT,
     .at = offsetof(struct convert_opts, type),
     .arg = "NAME",
     .help = "type or recipe of the weights (default: as the source has them); the list is below"},
    {.name = "threads",
     .brief = "t",
     .kind = KT__OPT_INT,
     .at = offsetof(struct convert_opts, n_threads),
     .min = 1,
     .max = KT__POOL_MAX_THREADS,
     .arg = "N",
     .help = "threads (default: as many as there are cores for us)"},
    {.name = "quiet",
     .brief = "q",
     .kind = KT__OPT_ON,
     .at = offsetof(struct convert_opts, quiet),
     .help = "no progress on a terminal"},
};

/* ---- progress ---- */

typedef struct convert_progress {
    int64_t begun_ns, shown_ns;
    uint64_t first; /* bytes that were there when this run began */
    bool shown;
} convert_progress;

static void show_progress(void *user, uint64_t done, uint64_t total) {
    convert_progress *p = user;
    int64_t now = kt__now_ns();
    if (p->begun_ns == 0) {
        p->begun_ns = now;
        p->first = done;
    }
    if (now - p->shown_ns < 200000000 && done < total) return;
    p->shown_ns = now;
    p->shown = true;
    double seconds = (double)(now - p->begun_ns) * 1e-9, mib = 1.0 / (1 << 20);
    double rate = seconds > 0.2 ? (double)(done - p->first) / seconds : 0.0;
    fprintf(stderr, "\r%5.1f%%  %.0f of %.0f MiB", 100.0 * (double)done / (double)total,
            (double)done * mib, (double)total * mib);
    if (rate > 0.0)
        fprintf(stderr, ", %.0f MiB/s, %.0f s left ", rate * mib, (double)(total - done) / rate);
    fflush(stderr);
}

static void show_note(void *user, const char *line) {
    (void)user;
    fprintf(stderr, "kentang convert: note: %s\n", line);
}

/* ---- the command ---- */

static int default_threads(void) {
    kt__topology topology;
    kt__limits limits;
    char why[128];
    kt__topology_detect(&topology);
    kt__limits_read(&limits);
    return kt__threads_default(&topology, &limits, why, sizeof why);
}

static int unknown_type(const char *name) {
    const char *names[MAX_NAMES];
    size_t n = kt__recipe_count() < MAX_NAMES ? kt__recipe_count() : MAX_NAMES;
    for (size_t i = 0; i < n; i++) names[i] = kt__recipe_at(i)->name;
    const char *near = kt__nearest_name(name, strlen(name), names, n);
    return kt__cli_usage_error("convert", "unknown type \"%.60s\"%s%s%s", name,
                               near ? "; did you mean \"" : "", near ? near : "",
                               near ? "\"?" : "");
}

static void print_report(const char *path, const kt__convert_report *r) {
    if (r->counts.overflows || r->counts.underflows)
        fprintf(stderr,
                "kentang convert: note: F16 cannot hold %" PRIu64 " weights that are too large and "
                "%" PRIu64 " that are too small; --type bf16 keeps them\n",
                r->counts.overflows, r->counts.underflows);
    fprintf(stderr,
            "%s: %s, %s, tokenizer %s, %" PRIu64 " tensors, %" PRIu64 " parameters, %.1f MiB", path,
            r->arch, r->recipe, r->tokenizer, r->n_tensors, r->n_params,
            (double)r->bytes / (1 << 20));
    if (r->resumed_bytes)
        fprintf(stderr, " (%.1f MiB of them by an earlier run)",
                (double)r->resumed_bytes / (1 << 20));
    fputc('\n', stderr);
}

static int convert_folder(const struct convert_opts *opts, const kt__recipe *recipe,
                          const char *const words[2]) {
    convert_progress progress = {0};
    kt__convert_report report;
    kt_error err;
    kt__convert_params params = {.folder = words[0],
                                 .target = words[1],
                                 .recipe = recipe,
                                 .n_threads = opts->n_threads ? opts->n_threads : default_threads(),
                                 .notes = {show_note, NULL},
                                 .progress_user = &progress};
    if (!opts->quiet && isatty(STDERR_FILENO)) params.progress = show_progress;
    kt_status status = kt__convert_folder(&params, &report, &err);
    if (progress.shown) fputc('\n', stderr);
    if (status != KT_OK) return kt__cli_fail("convert", &err);
    print_report(words[1], &report);
    return 0;
}

/* "Types: a b c" in lines of 76 characters */
static void list_types(char *out, size_t size) {
    size_t at = (size_t)snprintf(out, size, "Types:\n "), column = 2;
    for (size_t i = 0; i < kt__recipe_count() && at < size; i++) {
        const char *name = kt__recipe_at(i)->name;
        bool wrap = column + strlen(name) + 1 > 76;
        at += (size_t)snprintf(out + at, size - at, "%s %s", wrap ? "\n " : "", name);
        column = (wrap ? 2 : column) + strlen(name) + 1;
    }
    if (at < size)
        snprintf(
            out + at, size - at,
            "\n\nA run that was killed goes on where it was when it is started again: the work "
            "is in OUT.gguf.part.\n"
            "Example: kentang convert ./Qwen2.5-1.5B-Instruct qwen.gguf --type q4_k_m\n");
}

int kt__cmd_convert(int argc, char **argv) {
    struct convert_opts opts = {0};
    const kt__opt_group groups[] = {{"Options", table, KT__COUNT(table), &opts}};
    char notes[1024];
    list_types(notes, sizeof notes);
    const kt__syntax syntax = {
        .command = "convert",
        .usage = "[OPTIONS] FOLDER OUT.gguf",
        .about =
            "Reads config.json, the safetensors files and the tokenizer of a Hugging Face\n"
            "folder, and writes one GGUF file. Nothing in the folder is run or changed; a file\n"
            "that is damaged or says what GGUF cannot express is refused by name.",
        .groups = groups,
        .n_groups = 1,
        .min_words = 2,
        .max_words = 2,
        .word = "FOLDER or OUT.gguf",
        .notes = notes};
    const char *words[2] = {NULL, NULL};
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, words, &n_words);
    if (code >= 0) return code;
    const kt__recipe *recipe = opts.type ? kt__recipe_find(opts.type) : NULL;
    if (opts.type && !recipe) return unknown_type(opts.type);
    return convert_folder(&opts, recipe, words);
}
