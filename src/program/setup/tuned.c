#include "setup/tuned.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "host/host.h"
#include "term/options.h"

enum { MAX_PATH = 4096 };

/* ---- names ---- */

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t len) { /* FNV-1a, 64 bits */
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++) hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t model_fingerprint(const kt_model_info *info) {
    const uint64_t sizes[] = {info->n_params,          info->weight_bytes,
                              info->decode_bytes,      info->kv_bytes_per_token,
                              (uint64_t)info->n_vocab, (uint64_t)info->n_layer,
                              (uint64_t)info->d_model, (uint64_t)info->d_ff,
                              (uint64_t)info->n_head,  (uint64_t)info->n_head_kv,
                              (uint64_t)info->head_dim};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    hash = hash_bytes(hash, info->arch, strlen(info->arch) + 1);
    hash = hash_bytes(hash, info->quant, strlen(info->quant) + 1);
    return hash_bytes(hash, sizes, sizeof sizes);
}

/* "AMD EPYC, 2 cores": what a finding holds for */
static void describe_machine(char *out, size_t size) {
    kt__cpu cpu;
    kt__topology topology;
    kt__cpu_detect(&cpu);
    kt__topology_detect(&topology);
    snprintf(out, size, "%s, %d cores", cpu.brand[0] ? cpu.brand : "unknown processor",
             topology.n_physical);
}

/* The configuration folder: $XDG_CONFIG_HOME, or ~/.config; false: neither is known. */
static bool config_home(char *out, size_t size) {
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = -1;
    if (xdg && kt__files_is_absolute(xdg)) {
        n = snprintf(out, size, "%s", xdg);
    } else if (home && kt__files_is_absolute(home)) {
        n = snprintf(out, size, "%s/.config", home);
    }
    return n > 0 && (size_t)n < size;
}

static bool file_path(const kt_model_info *info, char *out, size_t size) {
    char base[MAX_PATH];
    if (!config_home(base, sizeof base)) return false;
    int n = snprintf(out, size, "%s/kentang/tuned/%016llx.conf", base,
                     (unsigned long long)model_fingerprint(info));
    return n > 0 && (size_t)n < size;
}

/* ---- reading ---- */

static const struct {
    const char *key;
    size_t at;
    int32_t max;
} numbers[] = {
    {"threads", offsetof(kt__tuned, n_threads), KT_THREADS_MAX},
    {"threads-batch", offsetof(kt__tuned, n_threads_batch), KT_THREADS_MAX},
    {"batch", offsetof(kt__tuned, n_batch), KT_BATCH_MAX},
    {"ubatch", offsetof(kt__tuned, n_ubatch), KT_UBATCH_MAX},
    {"contexts", offsetof(kt__tuned, n_contexts), 256},
};

static void take_number(kt__tuned *tuned, const char *key, const char *value) {
    for (size_t i = 0; i < KT__COUNT(numbers); i++) {
        char *end;
        if (strcmp(numbers[i].key, key) != 0) continue;
        long number = strtol(value, &end, 10);
        if (end == value || *end || number < 0 || number > numbers[i].max) return;
        *(int32_t *)(void *)((char *)tuned + numbers[i].at) = (int32_t)number;
    }
}

/* Splits "key=value" in place; false: not such a line. */
static bool split_line(char *line, char **value) {
    line[strcspn(line, "\r\n")] = '\0';
    char *equal = strchr(line, '=');
    if (line[0] == '#' || !equal) return false;
    *equal = '\0';
    *value = equal + 1;
    return true;
}

bool kt__tuned_load(const kt_model_info *info, const char *isa, kt__tuned *out) {
    char path[MAX_PATH], line[256], machine[128], *value;
    bool same_machine = false, same_isa = false;
    memset(out, 0, sizeof *out);
    FILE *in = file_path(info, path, sizeof path) ? fopen(path, "re") : NULL;
    if (!in) return false;
    describe_machine(machine, sizeof machine);
    while (fgets(line, sizeof line, in)) {
        if (!split_line(line, &value)) continue;
        if (!strcmp(line, "machine")) same_machine = !strcmp(value, machine);
        if (!strcmp(line, "isa")) same_isa = !strcmp(value, isa);
        if (!strcmp(line, "date")) snprintf(out->date, sizeof out->date, "%.15s", value);
        take_number(out, line, value);
    }
    fclose(in);
    return same_machine && same_isa;
}

/* ---- writing ---- */

/* Every folder of path's. */
static void make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)kt__folder_make(path,
                              false); /* what is missing then shows when the file is created */
        *slash = '/';
    }
}

static void today_text(char *out, size_t size) {
    time_t now = time(NULL);
    struct tm day;
    out[0] = '\0';
    if (localtime_r(&now, &day)) (void)strftime(out, size, "%Y-%m-%d", &day);
}

static bool write_lines(FILE *f, const kt_model_info *info, const char *isa,
                        const kt__tuned *tuned) {
    char machine[128];
    describe_machine(machine, sizeof machine);
    fprintf(f, "# kentang tune -m %.200s: what `kentang run` uses for models of this shape\n",
            info->path);
    fprintf(f, "date=%s\nmachine=%s\nisa=%s\n", tuned->date, machine, isa);
    for (size_t i = 0; i < KT__COUNT(numbers); i++) {
        const void *at = (const char *)tuned + numbers[i].at;
        if (*(const int32_t *)at) fprintf(f, "%s=%d\n", numbers[i].key, (int)*(const int32_t *)at);
    }
    return fflush(f) == 0 && !ferror(f);
}

/* A new file next to path, whose folders are made; NULL: err says why. */
static FILE *open_temp(const kt_model_info *info, char *path, size_t path_size, char *temp,
                       size_t temp_size, kt_error *err) {
    if (!file_path(info, path, path_size)) {
        (void)kt__fail(err, KT_E_IO, "no folder for settings: set XDG_CONFIG_HOME or HOME");
        return NULL;
    }
    make_folders(path);
    int n = snprintf(temp, temp_size, "%s.%ld.tmp", path, kt__process_number());
    FILE *f = n > 0 && (size_t)n < temp_size ? fopen(temp, "we") : NULL;
    if (!f) (void)kt__fail_system(err, errno, path, "cannot write");
    return f;
}

kt_status kt__tuned_check(const kt_model_info *info, kt_error *err) {
    char path[MAX_PATH], temp[MAX_PATH];
    FILE *f = open_temp(info, path, sizeof path, temp, sizeof temp, err);
    if (!f) return KT_E_IO;
    fclose(f);
    kt__file_remove(temp);
    return KT_OK;
}

kt_status kt__tuned_save(const kt_model_info *info, const char *isa, kt__tuned *tuned, char *path,
                         size_t path_size, kt_error *err) {
    char temp[MAX_PATH];
    today_text(tuned->date, sizeof tuned->date);
    FILE *f = open_temp(info, path, path_size, temp, sizeof temp, err);
    if (!f) return KT_E_IO;
    bool ok = write_lines(f, info, isa, tuned);
    int saved_errno = errno;
    if (fclose(f) != 0) ok = false;
    if (ok && rename(temp, path) == 0) return KT_OK;
    if (ok) saved_errno = errno;
    kt__file_remove(temp);
    return kt__fail_system(err, saved_errno, path, "cannot write");
}

/* ---- step threads ---- */

enum { DEPTH = 16, STEPS = 5 };

/* The fastest of n steps after `depth` tokens, in microseconds. */
static kt_status time_steps(kt_model *model, int n_threads, int depth, int n, int64_t *best_us,
                            kt_error *err) {
    kt_engine_params params = kt_engine_params_default();
    kt_engine *engine = NULL;
    kt_seq *seq = NULL;
    int32_t ids[DEPTH] = {0};
    kt_status status;
    params.n_ctx = DEPTH + STEPS + 1;
    params.n_ubatch = params.n_batch = DEPTH;
    params.n_seq_max = params.n_parallel = 1;
    params.n_queue_max = 1;
    params.n_draft = -1;
    params.n_threads = params.n_threads_batch = n_threads;
    *best_us = INT64_MAX;
    KT__TRY(kt_engine_open(model, &params, &engine, err));
    KT__TRY(kt_seq_open(engine, &seq, err));
    KT__TRY(kt_seq_eval(seq, ids, (size_t)depth, err));
    for (int i = 0; i < n; i++) {
        int64_t begin_us = kt__now_us();
        KT__TRY(kt_seq_eval(seq, ids, 1, err));
        int64_t us = kt__now_us() - begin_us;
        if (us < *best_us) *best_us = us;
    }
out:
    kt_seq_close(seq);
    kt_engine_close(engine);
    return status;
}

kt_status kt__step_threads_find(kt_model *model, int n_most, int *out, kt_error *err) {
    const int tries[] = {n_most, n_most - n_most / 4, (n_most + 1) / 2};
    int64_t best_us = INT64_MAX, us;
    *out = n_most;
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        if (i && tries[i] == tries[i - 1]) continue;
        kt_status status = time_steps(model, tries[i], DEPTH, STEPS, &us, err);
        if (status != KT_OK) return status;
        if (i && (double)us > 0.97 * (double)best_us) continue;
        best_us = us;
        *out = tries[i];
    }
    return KT_OK;
}

kt_status kt__step_threads_time(kt_model *model, int n_threads, int64_t *us, kt_error *err) {
    return time_steps(model, n_threads, 1, 2, us, err);
}
