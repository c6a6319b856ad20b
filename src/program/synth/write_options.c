#include "synth/write_options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "host/host.h"
#include "host/pool.h"
#include "term/cli.h"

enum { MAX_NAMES = 64 };

int kt__write_threads(void) {
    kt__topology topology;
    kt__limits limits;
    char why[128];
    kt__topology_detect(&topology);
    kt__limits_read(&limits);
    return kt__threads_default(&topology, &limits, why, sizeof why);
}

/* ---- options ---- */

static const kt__opt write_table[] = {
    {.name = "threads",
     .brief = "t",
     .kind = KT__OPT_INT,
     .at = offsetof(kt__write_opts, n_threads),
     .min = 1,
     .max = KT__POOL_MAX_THREADS,
     .arg = "N",
     .help = "threads (default: as many as there are cores for us)"},
    {.name = "quiet",
     .brief = "q",
     .kind = KT__OPT_ON,
     .at = offsetof(kt__write_opts, quiet),
     .help = "no progress on a terminal"},
};

kt__opt_group kt__write_group(kt__write_opts *opts) {
    return (kt__opt_group){"Work", write_table, KT__COUNT(write_table), opts};
}

/* ---- names ---- */

size_t kt__write_list_names(char *out, size_t size, const char *title, size_t n,
                            const char *(*name_at)(size_t)) {
    size_t at = (size_t)snprintf(out, size, "%s:\n ", title), column = 2;
    for (size_t i = 0; i < n && at < size; i++) {
        const char *name = name_at(i);
        if (column + strlen(name) + 1 > 76) {
            at += (size_t)snprintf(out + at, size - at, "\n ");
            column = 2;
        }
        if (at < size) at += (size_t)snprintf(out + at, size - at, " %s", name);
        column += strlen(name) + 1;
    }
    if (at < size) at += (size_t)snprintf(out + at, size - at, "\n");
    return at < size ? at : size - 1;
}

const char *kt__write_recipe_name(size_t i) {
    return kt__recipe_at(i)->name;
}

int kt__write_unknown_recipe(const char *command, const char *name) {
    const char *names[MAX_NAMES];
    size_t n = kt__recipe_count() < MAX_NAMES ? kt__recipe_count() : MAX_NAMES;
    for (size_t i = 0; i < n; i++) names[i] = kt__write_recipe_name(i);
    const char *near = kt__nearest_name(name, strlen(name), names, n);
    return kt__cli_usage_error(command, "unknown type \"%.60s\"%s%s%s", name,
                               near ? "; did you mean \"" : "", near ? near : "",
                               near ? "\"?" : "");
}

/* ---- progress and report ---- */

void kt__write_show_note(void *user, const char *line) {
    fprintf(stderr, "kentang %s: note: %s\n", (const char *)user, line);
}

kt__convert_output kt__write_output(const char *command, const char *target,
                                    const kt__write_opts *opts, kt__byte_progress *progress) {
    bool shown = !opts->quiet && kt__fd_is_terminal(KT__STDERR);
    return (kt__convert_output){.target = target,
                                .n_threads = opts->n_threads ? opts->n_threads
                                                             : kt__write_threads(),
                                .notes = {kt__write_show_note, (void *)(uintptr_t)command},
                                .progress = shown ? kt__byte_progress_show : NULL,
                                .progress_user = progress};
}

kt_status kt__write_check_target(const char *target, const char *source, kt_error *err) {
    if (!source || !kt__same_file(target, source)) return KT_OK;
    return kt__fail_at(err, KT_E_ARG, target, UINT64_MAX,
                       "the output is a file that is read: choose another name for it");
}

static void print_report(const char *command, const char *path, const kt__convert_report *r) {
    if (r->counts.overflows || r->counts.underflows)
        fprintf(stderr,
                "kentang %s: note: F16 cannot hold %" PRIu64 " weights that are too large and "
                "%" PRIu64 " that are too small; bf16 keeps them\n",
                command, r->counts.overflows, r->counts.underflows);
    fprintf(stderr, "%s: %s, %s%s%s, %" PRIu64 " tensors, %" PRIu64 " parameters, %.1f MiB", path,
            r->arch, r->recipe, r->tokenizer[0] ? ", tokenizer " : "", r->tokenizer, r->n_tensors,
            r->n_params, (double)r->bytes / (1 << 20));
    if (r->resumed_bytes)
        fprintf(stderr, " (%.1f MiB of them by an earlier run)",
                (double)r->resumed_bytes / (1 << 20));
    fputc('\n', stderr);
}

int kt__write_end(const char *command, const char *target, kt__byte_progress *progress,
                  kt_status status, const kt__convert_report *report, const kt_error *err) {
    kt__byte_progress_end(progress);
    if (status != KT_OK) return kt__cli_fail(command, err);
    print_report(command, target, report);
    return 0;
}
