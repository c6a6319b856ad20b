/* convert, quantize, merge and imatrix as commands, with every write and every allocation failing in
 * turn: an error that names the file and a remedy, nothing under the final name, nothing beside it,
 * sources as they were; and what succeeds is the whole file. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/hash.h"
#include "convert_folder.h"
#include "fault_alloc.h"
#include "fault_io.h"

#define X(name, function, group, shown, what) int function(int argc, char **argv);
#include "term/commands.def"
#undef X

enum { MAX_ARGS = 16, MAX_SOURCES = 4 };

static char dir[] = "/tmp/kt_faults_XXXXXX";
static char folder[64], model[64], lora[64], matrix[64], text[64], target[64], said[64];

typedef struct tool {
    int (*run)(int argc, char **argv);
    const char *argv[MAX_ARGS];
    const char *sources[MAX_SOURCES];
    int n_samples; /* of its allocations */
    bool is_slow;  /* another row has its writes */
} tool;

static const tool tools[] = {
    {.run = kt__cmd_convert,
     .argv = {"convert", folder, target, "--type", "q4_0", "-q", "-t", "1"},
     .sources = {folder},
     .n_samples = 300},
    {.run = kt__cmd_quantize,
     .argv = {"quantize", model, target, "q4_0", "-q", "-t", "1", "--imatrix", matrix},
     .sources = {model, matrix},
     .n_samples = 40},
    {.run = kt__cmd_merge,
     .argv = {"merge", "-m", model, "--lora", lora, "-o", target, "-q", "-t", "1"},
     .sources = {model, lora},
     .n_samples = 100},
    {.run = kt__cmd_imatrix,
     .argv = {"imatrix", "-m", model, "-f", text, "-o", target, "-t", "1"},
     .sources = {model, text},
     .n_samples = 12,
     .is_slow = true},
    {.run = kt__cmd_imatrix,
     .argv = {"imatrix", matrix, "-o", target},
     .sources = {matrix},
     .n_samples = 300},
};
enum { N_TOOLS = sizeof tools / sizeof *tools };

/* ---- a run ---- */

static int run_quietly(int (*run)(int, char **), const char *const *argv) {
    char *copy[MAX_ARGS + 1] = {NULL};
    int argc = 0, code, keep = dup(STDERR_FILENO);
    int fd = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (; argc < MAX_ARGS && argv[argc]; argc++) copy[argc] = strdup(argv[argc]);
    fflush(stderr);
    dup2(fd, STDERR_FILENO);
    io_armed = true;
    code = run(argc, copy);
    io_armed = false;
    fflush(stderr);
    dup2(keep, STDERR_FILENO);
    close(fd);
    close(keep);
    for (int i = 0; i < argc; i++) free(copy[i]);
    return code;
}

static const char *what_it_said(void) {
    static char all[4096];
    FILE *f = fopen(said, "rb");
    size_t n = f ? fread(all, 1, sizeof all - 1, f) : 0;
    if (f) fclose(f);
    all[n] = '\0';
    return all;
}

static kt__digest digest_of(const char *path) {
    FILE *f = fopen(path, "rb");
    static char data[1 << 16];
    kt__hash hash;
    kt__hash_init(&hash, 1);
    assert_non_null(f);
    for (size_t n; (n = fread(data, 1, sizeof data, f)) > 0;) kt__hash_add(&hash, data, n);
    fclose(f);
    return kt__hash_end(&hash);
}

/* Of a folder: its three files. */
static kt__digest digest_of_source(const char *path) {
    static const char *const names[] = {"config.json", "tokenizer.json", "model.safetensors"};
    struct stat st;
    kt__hash hash;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) return digest_of(path);
    kt__hash_init(&hash, 1);
    for (int i = 0; i < 3; i++) {
        char file[128];
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        const kt__digest one = digest_of(file);
        kt__hash_add(&hash, &one, sizeof one);
    }
    return kt__hash_end(&hash);
}

static kt__digest digest_of_sources(const tool *t) {
    kt__hash hash;
    kt__hash_init(&hash, 1);
    for (int i = 0; i < MAX_SOURCES && t->sources[i]; i++) {
        const kt__digest one = digest_of_source(t->sources[i]);
        kt__hash_add(&hash, &one, sizeof one);
    }
    return kt__hash_end(&hash);
}

/* Nothing in the folder's name but what belongs there. */
static bool leaves_nothing(void) {
    char command[160];
    snprintf(command, sizeof command, "test -z \"$(ls %s | grep '^out')\"", dir);
    return system(command) == 0;
}

/* What one run left: the whole file, or an error with place and remedy and nothing else. */
static void check_run(const tool *t, long call, int code, const kt__digest *want, bool of_disk) {
    if (code == 0) {
        kt__digest got = digest_of(target);
        if (memcmp(&got, want, sizeof got) != 0)
            fail_msg("%s, call %ld: another file", t->argv[0], call);
        unlink(target);
        return;
    }
    if (code < 2 ||
        (of_disk && (!strstr(what_it_said(), target) || !strstr(what_it_said(), "remedy"))))
        fail_msg("%s, call %ld: code %d: %s", t->argv[0], call, code, what_it_said());
    if (!leaves_nothing()) fail_msg("%s, call %ld: leaves something", t->argv[0], call);
}

/* ---- the tests ---- */

/* Of many calls some, but each of the first and the last ones. */
static long next_call(long at, long n) {
    return at < 12 || at >= n - 12 ? at + 1 : at + 1 + (n - 24) / 12;
}

static void fail_writes(const tool *t, int error, bool half) {
    const kt__digest before = digest_of_sources(t);
    unlink(target);
    io_fail_at = -1;
    atomic_store(&io_calls, 0);
    assert_int_equal(run_quietly(t->run, t->argv), 0);
    long n_calls_whole = atomic_load(&io_calls);
    const kt__digest want = digest_of(target);
    unlink(target);
    int n_errors = 0;
    assert_true(n_calls_whole >= 4);
    io_errno = error;
    io_half = half;
    for (io_fail_at = 0; io_fail_at < n_calls_whole;
         io_fail_at = next_call(io_fail_at, n_calls_whole)) {
        atomic_store(&io_calls, 0);
        size_t live_before = live;
        int code = run_quietly(t->run, t->argv);
        n_errors += code != 0;
        check_run(t, io_fail_at, code, &want, true);
        assert_int_equal(live, live_before);
    }
    io_fail_at = -1;
    assert_true(n_errors >= 3);
    const kt__digest after = digest_of_sources(t);
    assert_memory_equal(&before, &after, sizeof before);
}

static void test_writes_fail(void **state) {
    (void)state;
    for (int i = 0; i < N_TOOLS; i++) {
        if (tools[i].is_slow) continue;
        fail_writes(&tools[i], ENOSPC, false);
        fail_writes(&tools[i], ENOSPC, true);
        fail_writes(&tools[i], EIO, false);
    }
}

/* One call in some, so that the whole takes seconds. */
static void fail_allocations(const tool *t) {
    const kt__digest before = digest_of_sources(t);
    unlink(target);
    n_calls = 0;
    assert_int_equal(run_quietly(t->run, t->argv), 0);
    const long n_whole = n_calls, step = n_whole / t->n_samples + 1;
    const kt__digest want = digest_of(target);
    unlink(target);
    for (long at = 0; at < n_whole; at += step) {
        size_t live_before = live;
        n_calls = 0;
        fail_at = at;
        int code = run_quietly(t->run, t->argv);
        fail_at = -1;
        check_run(t, at, code, &want, false);
        if (live != live_before) fail_msg("%s, allocation %ld: leaks", t->argv[0], at);
    }
    const kt__digest after = digest_of_sources(t);
    assert_memory_equal(&before, &after, sizeof before);
}

static void test_allocations_fail(void **state) {
    (void)state;
    for (int i = 0; i < N_TOOLS; i++) fail_allocations(&tools[i]);
}

/* The output is a file that is read. */
static void test_output_on_an_input(void **state) {
    (void)state;
    static const char *const runs[][MAX_ARGS] = {
        {"quantize", model, matrix, "q8_0", "--imatrix", matrix, "-q"},
        {"quantize", model, model, "q8_0", "-q"},
        {"merge", "-m", model, "--lora", lora, "-o", lora, "-q"},
        {"merge", "-m", model, "--lora", lora, "-o", model, "-q"},
        {"imatrix", "-m", model, "-f", text, "-o", model},
        {"imatrix", "-m", model, "-f", text, "-o", text},
        {"imatrix", matrix, "-o", matrix},
    };
    int (*const commands[])(int, char **) = {kt__cmd_quantize, kt__cmd_merge, kt__cmd_imatrix};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        const kt__digest m = digest_of(model), l = digest_of(lora), x = digest_of(matrix),
                         f = digest_of(text);
        const int which = runs[i][0][0] == 'q' ? 0 : runs[i][0][0] == 'm' ? 1 : 2;
        assert_int_not_equal(run_quietly(commands[which], runs[i]), 0);
        if (!strstr(what_it_said(), "is read") && !strstr(what_it_said(), "the output is"))
            fail_msg("run %zu: %s", i, what_it_said());
        const kt__digest m2 = digest_of(model), l2 = digest_of(lora), x2 = digest_of(matrix),
                         f2 = digest_of(text);
        assert_memory_equal(&m, &m2, sizeof m);
        assert_memory_equal(&l, &l2, sizeof l);
        assert_memory_equal(&x, &x2, sizeof x);
        assert_memory_equal(&f, &f2, sizeof f);
    }
}

/* ---- the sources ---- */

static void write_text(void) {
    FILE *f = fopen(text, "wb");
    for (int i = 0; i < 60; i++) fprintf(f, "%d kentang goreng di pasar. ", i);
    fclose(f);
}

static int make_sources(void **state) {
    (void)state;
    static const char *const synth[] = {"synth", "--preset", "tiny-llama", "--quant",
                                        "f16",   model,      NULL};
    static const char *const adapter[] = {"synth", "--lora", "2", "--base", model, lora, NULL};
    static const char *const importance[] = {"imatrix", "-m", model,  "-f",
                                             text,      "-o", matrix, NULL};
    if (!mkdtemp(dir)) return -1;
    snprintf(folder, sizeof folder, "%s/folder", dir);
    snprintf(model, sizeof model, "%s/model.gguf", dir);
    snprintf(lora, sizeof lora, "%s/lora.gguf", dir);
    snprintf(matrix, sizeof matrix, "%s/matrix.gguf", dir);
    snprintf(text, sizeof text, "%s/text", dir);
    snprintf(target, sizeof target, "%s/out.gguf", dir);
    snprintf(said, sizeof said, "%s/said", dir);
    cf_folder(folder, CF_VOCAB);
    write_text();
    if (run_quietly(kt__cmd_synth, synth) != 0 || run_quietly(kt__cmd_synth, adapter) != 0)
        return -1;
    return run_quietly(kt__cmd_imatrix, importance);
}

static int remove_sources(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes_fail),
        cmocka_unit_test(test_allocations_fail),
        cmocka_unit_test(test_output_on_an_input),
    };
    return cmocka_run_group_tests(tests, make_sources, remove_sources);
}
