/* Damaged model files through the whole engine: cut at every byte, every bit of the metadata
 * flipped, random bytes anywhere; open, encode, render, evaluate and sample. No crash, no hang, no
 * allocation beyond a small multiple of the file, and every refusal has words. And files that are
 * cut while a model is open. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "context/types.h"
#include "damaged_models.h"
#include "heap_watch.h"
#include "model_fixture.h"
#include "support.h"

#if defined(__SANITIZE_ADDRESS__)
enum { SLOW = 8 }; /* a sanitizer's build tries one case in this many, every byte still once */
#else
enum { SLOW = 1 };
#endif

enum { MAX_FILE = 8 << 20, CASE_S = 30 };

static kt_ctx *ctx;
static char path[300];
static uint8_t *file, *copy;
static size_t file_size;

static int set_up(void **state) {
    (void)state;
    kt_ctx_params cp = kt_ctx_params_default();
    cp.n_threads = 1;
    cp.mem_bytes = 64 << 20;
    snprintf(path, sizeof path, "%s/corrupt-%d.gguf", KT_BINARY_DIR, (int)getpid());
    file = aligned_alloc(64, MAX_FILE);
    copy = aligned_alloc(64, MAX_FILE);
    tzset(); /* the C library keeps the zone's name */
    return file && copy && kt_ctx_open(&cp, &ctx, NULL) == KT_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    kt_ctx_close(ctx);
    free(file);
    free(copy);
    unlink(path);
    return 0;
}

static void read_file(void) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    file_size = fread(file, 1, MAX_FILE, f);
    fclose(f);
    assert_true(file_size > 0 && file_size < MAX_FILE);
}

enum { N_SPECS = sizeof specs / sizeof specs[0] };

static void write_spec(int i) {
    kt_error err;
    if (fixture_write(&specs[i], path, &err) != KT_OK) fail_msg("%s", err.message);
    read_file();
}

static void write_synth(const char *preset, const char *quant) {
    char command[1024];
    snprintf(command, sizeof command,
             "'%s/kentang' synth --preset %s --quant %s '%s' >/dev/null 2>&1", KT_BINARY_DIR,
             preset, quant, path);
    assert_int_equal(system(command), 0);
    read_file();
}

/* Where the tensors' data begin. */
static size_t data_offset(void) {
    kt__gguf *gguf;
    size_t first = file_size;
    assert_int_equal(kt__gguf_open_memory(file, file_size, false, &gguf, NULL), KT_OK);
    for (size_t i = 0; i < kt__gguf_n_tensors(gguf); i++) {
        const kt__gguf_tensor *t = kt__gguf_tensor_at(gguf, i);
        if (t->file_offset < first) first = (size_t)t->file_offset;
    }
    kt__gguf_close(gguf);
    return first;
}

/* ---- one damaged file ---- */

static kt_status expect_words(kt_status status, const kt_error *err) {
    if (status != KT_OK) {
        assert_int_equal(err->code, status);
        assert_true(err->message[0] != '\0');
        assert_true(status != KT_E_INTERNAL && status != KT_E_STATE);
    }
    return status;
}

static void use_text(const kt_model *model) {
    static const kt_message message = {"user", "ab c"};
    int32_t ids[64], *encoded = NULL;
    char *rendered = NULL, text[256];
    size_t n, len;
    kt_error err;
    if (expect_words(kt_tokenize(model, "abc A ab", 8, 3, ids, 64, &n, &err), &err) == KT_OK)
        (void)expect_words(kt_detokenize(model, ids, n, 4, text, sizeof text, &len, &err), &err);
    (void)expect_words(kt_chat_render(model, &message, 1, true, &rendered, &len, &err), &err);
    (void)expect_words(kt_chat_encode(model, &message, 1, true, &encoded, &n, &err), &err);
    kt_free(rendered);
    kt_free(encoded);
}

static kt_status use_engine(kt_model *model) {
    static const int32_t ids[] = {1, 4, 7};
    const kt_engine_params ep = {.n_ctx = 32, .n_seq_max = 1, .n_ubatch = 4};
    kt_gen_params gp = kt_gen_params_default();
    kt_engine *engine = NULL;
    kt_seq *seq = NULL;
    kt_error err;
    gp.n_predict = 2;
    gp.sampling.seed = 1;
    kt_status status = expect_words(kt_engine_open(model, &ep, &engine, &err), &err);
    if (status == KT_OK) status = expect_words(kt_seq_open(engine, &seq, &err), &err);
    if (status == KT_OK) status = expect_words(kt_seq_eval(seq, ids, 3, &err), &err);
    if (status == KT_OK)
        status = expect_words(kt_generate(seq, ids, 1, &gp, NULL, NULL, NULL, &err), &err);
    kt_seq_close(seq);
    kt_engine_close(engine);
    return status;
}

/* Everything a program does with a model; data[size] has this very length for the sanitizer. */
static kt_status try_memory(const uint8_t *data, size_t size) {
    kt_model *model = NULL;
    kt_error err;
    kt_status status = KT_OK;
    alarm(CASE_S); /* a hang ends the program */
    heap_begin(0, 0);
    status = expect_words(kt_model_open_memory(ctx, data, size, NULL, &model, &err), &err);
    if (status == KT_OK) {
        use_text(model);
        status = use_engine(model);
    }
    kt_model_close(model);
    heap_end();
    alarm(0);
    if (heap.n_live != 0) heap_print_live(0);
    assert_int_equal(heap.n_live, 0);
    assert_true(heap.peak_bytes < (1 << 20) + 24 * size);
    return status;
}

static void test_undamaged(void **state) {
    (void)state;
    for (int i = 0; i < N_SPECS; i++) {
        write_spec(i);
        assert_int_equal(try_memory(file, file_size), KT_OK);
    }
}

static void test_cut_at_every_byte(void **state) {
    (void)state;
    for (int i = 0; i < N_SPECS; i++) {
        write_spec(i);
        size_t head = data_offset(), n = 0;
        for (size_t size = 0; size < file_size; size += size <= head ? 1 : 61, n++) {
            uint8_t *cut = malloc(size ? size : 1);
            assert_non_null(cut);
            memcpy(cut, file, size);
            kt_status status = try_memory(cut, size);
            free(cut);
            /* padding after the last tensor may be missing */
            if (status == KT_OK && size + 32 < file_size) fail_msg("accepted %zu bytes", size);
        }
        print_message("%s: %zu cuts, metadata of %zu bytes\n", specs[i].arch, n, head);
    }
}

static void test_bits_of_every_byte_of_the_metadata(void **state) {
    (void)state;
    for (int i = 0; i < N_SPECS; i++) {
        write_spec(i);
        size_t bits = data_offset() * 8, n_ok = 0, n = 0;
        memcpy(copy, file, file_size);
        /* two or three bits of each byte, all eight over eight bytes */
        for (size_t bit = 0; bit<bits; bit += SLOW> 1 ? SLOW - 1 : 3, n++) {
            copy[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            n_ok += try_memory(copy, file_size) == KT_OK;
            copy[bit / 8] = file[bit / 8];
        }
        print_message("%s: %zu flips, %zu still computed\n", specs[i].arch, n, n_ok);
    }
}

static uint32_t next_random(uint32_t *state) {
    return lcg(state) >> 8;
}

/* From 1 to 8 bytes of [from, to) take random values. */
static size_t damage_at_random(size_t from, size_t to, uint32_t seed, int n_cases) {
    size_t n_ok = 0;
    memcpy(copy, file, file_size);
    for (int i = 0; i < n_cases; i++) {
        uint32_t state = seed + (uint32_t)i * 2654435761u, saved = state;
        for (int pass = 0; pass < 2; pass++, state = saved) {
            for (uint32_t k = 1 + next_random(&state) % 8; k > 0; k--) {
                size_t at = from + next_random(&state) % (to - from);
                uint8_t value = (uint8_t)next_random(&state);
                copy[at] = pass == 0 ? value : file[at];
            }
            if (pass == 0) n_ok += try_memory(copy, file_size) == KT_OK;
        }
    }
    return n_ok;
}

static void test_random_bytes_of_the_metadata(void **state) {
    (void)state;
    for (int i = 0; i < N_SPECS; i++) {
        write_spec(i);
        damage_at_random(0, data_offset(), (uint32_t)i, 3000 / SLOW);
    }
}

/* Damaged weights compute something, or end in a number that is not finite: they name the layer. */
static void test_random_bytes_of_the_data(void **state) {
    static const char *const models[][2] = {
        {"tiny-llama", "q4_k_m"}, {"tiny-qwen2", "q4_0"},   {"tiny-qwen2", "q5_1"},
        {"tiny-qwen3", "q2_k"},   {"tiny-gemma2", "q6_k"},  {"tiny-gemma3", "iq4_xs"},
        {"tiny-phi3", "q8_0"},    {"tiny-llama", "q3_k_m"}, {"tiny-llama", "bf16"},
        {"tiny-phi3", "f16"},
    };
    (void)state;
    for (int i = 0; i < N_SPECS; i++) {
        write_spec(i);
        damage_at_random(data_offset(), file_size, 7, 1000 / SLOW);
    }
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        write_synth(models[i][0], models[i][1]);
        size_t n_ok = damage_at_random(data_offset(), file_size, 11, 40 / SLOW);
        print_message("%s %s: %zu computed\n", models[i][0], models[i][1], n_ok);
    }
}

/* Blocks of nothing but 0xff (scales that are NaN), 0x7f, 0x00. */
static void test_data_of_one_byte(void **state) {
    static const char *const quants[] = {"q4_k_m", "q5_k_m", "q6_k", "q2_k", "q3_k_m",
                                         "q4_0",   "q4_1",   "q5_0", "q5_1", "q8_0",
                                         "iq4_nl", "iq4_xs", "f16",  "bf16", "f32"};
    static const uint8_t bytes[] = {0xff, 0x7f, 0x00, 0x80};
    (void)state;
    for (size_t i = 0; i<sizeof quants / sizeof quants[0]; i += SLOW> 1 ? 2 : 1) {
        write_synth("tiny-qwen2", quants[i]);
        size_t head = data_offset();
        for (size_t b = 0; b < sizeof bytes; b++) {
            memcpy(copy, file, head);
            memset(copy + head, bytes[b], file_size - head);
            (void)try_memory(copy, file_size);
        }
    }
}

/* ---- cut while open ---- */

/* This program's fstat cuts the file just after the engine has looked at its size. */
static bool cut_after_check;
static int (*real_fstat)(int, struct stat *);

__attribute__((visibility("default"))) int fstat(int fd, struct stat *st) {
    if (!real_fstat) {
        void *symbol = dlsym(RTLD_NEXT, "fstat");
        memcpy(&real_fstat, &symbol, sizeof symbol);
    }
    int rc = real_fstat(fd, st);
    if (cut_after_check) {
        cut_after_check = false;
        if (truncate(path, 0) != 0) rc = -1;
    }
    return rc;
}

typedef struct opened {
    kt_model *model;
    kt_engine *engine;
    kt_seq *seq;
} opened;

static opened open_file(bool use_mmap) {
    opened o = {0};
    kt_error err;
    kt_model_params mp = kt_model_params_default();
    const kt_engine_params ep = {.n_ctx = 32, .n_seq_max = 1, .n_ubatch = 4};
    mp.use_mmap = use_mmap;
    if (kt_model_open(ctx, path, &mp, &o.model, &err) != KT_OK ||
        kt_engine_open(o.model, &ep, &o.engine, &err) != KT_OK ||
        kt_seq_open(o.engine, &o.seq, &err) != KT_OK)
        fail_msg("%s", err.message);
    return o;
}

static void close_file(opened *o) {
    kt_seq_close(o->seq);
    kt_engine_close(o->engine);
    kt_model_close(o->model);
}

static const int32_t three[] = {1, 4, 7};

static void test_cut_between_steps(void **state) {
    (void)state;
    kt_error err;
    for (size_t keep = 0; keep < 3; keep++) {
        write_synth("tiny-qwen2", "q4_0");
        opened o = open_file(true);
        assert_int_equal(kt_seq_eval(o.seq, three, 3, &err), KT_OK);
        assert_int_equal(truncate(path, (off_t)(keep * (file_size - 1) / 2)), 0);
        assert_int_equal(kt_seq_eval(o.seq, three, 3, &err), KT_E_TRUNCATED);
        assert_non_null(strstr(err.where, path));
        assert_int_equal(kt_seq_len(o.seq), 3);
        use_text(o.model);
        kt_model_info info; /* nothing of it lies in the file */
        kt_model_get_info(o.model, &info);
        assert_string_equal(info.arch, "qwen2");
        kt_request_report result;
        assert_int_equal(kt_generate(o.seq, three, 3, NULL, NULL, NULL, &result, &err),
                         KT_E_TRUNCATED);
        assert_int_equal(result.finish, KT_FINISH_ERROR);
        close_file(&o);
    }
}

static void test_a_copy_does_not_mind(void **state) {
    (void)state;
    kt_error err;
    write_synth("tiny-qwen2", "q4_0");
    opened o = open_file(false);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(kt_seq_eval(o.seq, three, 3, &err), KT_OK);
    close_file(&o);
}

static void test_cut_behind_the_check(void **state) {
    (void)state;
    kt_error err;
    assert_int_equal(kt_install_fault_guard(&err), KT_OK);
    for (int i = 0; i < 3; i++) {
        write_synth("tiny-qwen2", "q4_0");
        opened o = open_file(true);
        assert_int_equal(kt_seq_eval(o.seq, three, 3, &err), KT_OK);
        cut_after_check = true;
        assert_int_equal(kt_seq_eval(o.seq, three, 3, &err), KT_E_TRUNCATED);
        assert_false(cut_after_check);
        assert_true(err.message[0] != '\0');
        assert_int_equal(kt_seq_len(o.seq), 3);
        assert_int_equal(kt_seq_eval(o.seq, three, 3, &err), KT_E_TRUNCATED);
        close_file(&o);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_undamaged),
        cmocka_unit_test(test_cut_at_every_byte),
        cmocka_unit_test(test_bits_of_every_byte_of_the_metadata),
        cmocka_unit_test(test_random_bytes_of_the_metadata),
        cmocka_unit_test(test_random_bytes_of_the_data),
        cmocka_unit_test(test_data_of_one_byte),
        cmocka_unit_test(test_cut_between_steps),
        cmocka_unit_test(test_a_copy_does_not_mind),
        cmocka_unit_test(test_cut_behind_the_check),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
