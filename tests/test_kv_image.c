/* kv: session files. What is saved comes back bit for bit; cut at any byte, with any byte changed,
 * or made for something else, a file is refused with a reason; a failed save leaves what was there;
 * every allocation may fail. */
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

#include "heap_watch.h"
#include "kv/image.h"
#include "support.h"

static kt__kv_shape shape = {.n_layer = 2,
                             .n_head_kv = 2,
                             .head_dim_k = 8,
                             .head_dim_v = 4}; /* main goes through the forms */
static const struct {
    kt__kv_form k, v;
    int n_tail;
    bool two;     /* the second layer has other heads, */
    int n_window; /* or a window */
} forms[] = {{KT__KV_F16, KT__KV_F16, 0, false, 0}, {KT__KV_Q8, KT__KV_F16, 0, false, 0},
             {KT__KV_F16, KT__KV_Q8, 0, false, 0},  {KT__KV_Q8, KT__KV_Q8, 0, false, 0},
             {KT__KV_Q4, KT__KV_Q4, 0, false, 0},   {KT__KV_Q8, KT__KV_Q4, 3, false, 0},
             {KT__KV_F16, KT__KV_F16, 0, true, 0},  {KT__KV_Q8, KT__KV_Q4, 3, true, 0},
             {KT__KV_F16, KT__KV_F16, 0, false, 1}, {KT__KV_Q8, KT__KV_Q8, 0, true, 1}};
enum { N_FORMS = sizeof forms / sizeof *forms };
enum { N_POS = 21, N_LOGITS = 5, N_PAGES = 8 };

typedef struct world {
    kt__kv *kv;
    kt__kv_table table;
    kt__kv_image image;
    int32_t ids[N_POS];
    float logits[N_LOGITS];
    char dir[64], path[96];
    uint8_t *file;
    size_t size;
} world;

static void ok(kt_status status, const kt_error *err) {
    if (status != KT_OK) fail_msg("%s: %s", kt_status_name(status), err->message);
}

static void fill(void *p, size_t n, uint32_t seed) {
    uint8_t *bytes = p;
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)(lcg(&seed) >> 24);
}

static uint8_t *slurp(const char *path, size_t *size) {
    FILE *in = fopen(path, "rb");
    uint8_t *data = malloc(1 << 20);
    if (!in) fail_msg("no file %s", path);
    *size = fread(data, 1, 1 << 20, in);
    fclose(in);
    return data;
}

static void spill(const char *path, const void *data, size_t size) {
    FILE *out = fopen(path, "wb");
    if (!out || fwrite(data, 1, size, out) != size) fail_msg("cannot write %s", path);
    fclose(out);
}

static int setup(void **state) {
    kt_error err;
    world *w = calloc(1, sizeof *w);
    ok(kt__kv_create(&shape, N_PAGES, &w->kv, &err), &err);
    ok(kt__kv_table_init(&w->table, N_PAGES * KT__PAGE_POS, &err), &err);
    ok(kt__kv_table_grow(w->kv, &w->table, 0, N_POS, &err), &err);
    size_t bytes = kt__kv_block_bytes(&shape);
    void *block = malloc(bytes);
    for (int i = 0; i < w->table.n_pages; i++) {
        fill(block, bytes, (uint32_t)i + 1);
        kt__kv_block_write(w->kv, w->table.pages[i], block);
    }
    free(block);
    if (kt__kv_is_quantised(&shape)) {
        uint8_t f16[4096];
        assert_true(kt__kv_f16_copy_bytes(&shape) <= sizeof f16);
        for (uint32_t i = 0; i < 2; i++) {
            fill(f16, sizeof f16, 55 + i);
            kt__kv_f16_copy_write(w->kv, w->table.pages[i], f16);
        }
    }
    for (int i = 0; i < N_POS; i++) w->ids[i] = i * i;
    for (int i = 0; i < N_LOGITS; i++) w->logits[i] = (float)i / 3.0f;
    w->image = (kt__kv_image){.n_pos = N_POS, .n_logits = N_LOGITS};
    fill(w->image.binding, sizeof w->image.binding, 99);
    fill(w->image.full_hash, sizeof w->image.full_hash, 98);
    strcpy(w->dir, "/tmp/kentang-image-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    snprintf(w->path, sizeof w->path, "%s/s.kv", w->dir);
    ok(kt__kv_image_save(w->path, &w->image, w->ids, w->logits, w->kv, &w->table, &err), &err);
    w->file = slurp(w->path, &w->size);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world *w = *state;
    unlink(w->path);
    assert_int_equal(rmdir(w->dir), 0); /* no temporary files are left */
    kt__kv_table_free(w->kv, &w->table);
    kt__kv_destroy(w->kv);
    free(w->file);
    free(w);
    return 0;
}

/* Opens and loads into another table. */
static kt_status restore(world *w, const kt__kv_shape *of, kt__kv_table *table, int32_t *ids,
                         float *logits, kt_error *err) {
    kt__kv_image_file *file = NULL;
    kt_status status = kt__kv_image_open(w->path, of, &file, err);
    if (status != KT_OK) return status;
    const kt__kv_image *info = kt__kv_image_info(file);
    if (info->n_pos != N_POS || info->n_logits != N_LOGITS) fail_msg("another length was let in");
    status = kt__kv_image_load(file, ids, logits, w->kv, table, err);
    if (status == KT_OK) kt__kv_image_drop_missing(file, w->kv, table);
    if (status == KT_OK) assert_memory_equal(info->binding, w->image.binding, KT__KV_IMAGE_BINDING);
    assert_memory_equal(info->full_hash, w->image.full_hash, KT__KV_IMAGE_HASH);
    kt__kv_image_close(file);
    return status;
}

static kt__kv_table second_table(world *w) {
    kt_error err;
    kt__kv_table table;
    ok(kt__kv_table_init(&table, N_PAGES * KT__PAGE_POS, &err), &err);
    ok(kt__kv_table_grow_as(w->kv, &table, 0, N_POS, KT__GROW_QUANTISED, &err), &err);
    return table;
}

/* The used positions of the last page's f16 copy, and what is read in f16 before it. */
static void expect_same_f16(world *w, const kt__kv_table *table) {
    int32_t a = w->table.pages[1], b = table->pages[1];
    uint8_t want[4096], got[4096];
    if (kt__kv_is_quantised(&shape) && kt__kv_n_end_pages(&shape, N_POS) > 1) {
        kt__kv_f16_copy_read(w->kv, w->table.pages[0], want);
        kt__kv_f16_copy_read(w->kv, table->pages[0], got);
        assert_memory_equal(want, got, kt__kv_f16_copy_bytes(&shape));
    }
    for (int layer = 0; kt__kv_is_quantised(&shape) && layer < 2; layer++) {
        kt__kv_heads heads = kt__kv_heads_of(&shape, layer);
        for (int head = 0; head < heads.n; head++) {
            const kt__f16 *k = kt__kv_k(w->kv, a, layer, head),
                          *v = kt__kv_v(w->kv, a, layer, head);
            const kt__f16 *k2 = kt__kv_k(w->kv, b, layer, head),
                          *v2 = kt__kv_v(w->kv, b, layer, head);
            int nk = heads.dim_k * 16, nv = heads.dim_v * 16;
            for (int i = 0; i < nk; i++) assert_int_equal(k2[i], i % 16 < 5 ? k[i] : 0);
            for (int i = 0; i < nv; i++) assert_int_equal(v2[i], i < 5 * nv / 16 ? v[i] : 0);
        }
    }
}

/* Where the f16 copy is gone, the file says so, and what is read has none. */
static void test_without_its_f16_copy(void **state) {
    world *w = *state;
    kt_error err;
    int32_t ids[N_POS];
    float logits[N_LOGITS];
    kt__kv_table table = second_table(w);
    if (kt__kv_is_quantised(&shape)) {
        kt__kv_f16_copy_drop(w->kv, w->table.pages[1]);
        ok(kt__kv_image_save(w->path, &w->image, w->ids, w->logits, w->kv, &w->table, &err), &err);
        ok(restore(w, &shape, &table, ids, logits, &err), &err);
        assert_false(kt__kv_page_has_f16(w->kv, table.pages[1]));
        int64_t from = kt__kv_n_end_pages(&shape, N_POS) > 1 ? 0 : 16;
        assert_int_equal(kt__kv_table_own_end(w->kv, &table, N_POS), from);
    }
    kt__kv_table_free(w->kv, &table);
}

static void test_of_another_form(void **state) {
    world *w = *state;
    kt_error err;
    kt__kv_image_file *file;
    for (int form = 0; form < N_FORMS; form++) {
        kt__kv_shape other = shape;
        other.k_form = forms[form].k;
        other.v_form = forms[form].v;
        if (other.k_form == shape.k_form && other.v_form == shape.v_form) continue;
        assert_int_equal(kt__kv_image_open(w->path, &other, &file, &err), KT_E_STATE);
        assert_non_null(strstr(err.message, "-ctk, -ctv"));
    }
}

static void test_round_trip(void **state) {
    world *w = *state;
    kt_error err;
    int32_t ids[N_POS];
    float logits[N_LOGITS];
    kt__kv_table table = second_table(w);
    struct stat st;
    assert_int_equal(stat(w->path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    ok(restore(w, &shape, &table, ids, logits, &err), &err);
    assert_memory_equal(ids, w->ids, sizeof ids);
    assert_memory_equal(logits, w->logits, sizeof logits);
    size_t bytes = kt__kv_block_bytes(&shape);
    uint8_t *a = malloc(bytes), *b = malloc(bytes);
    for (int i = 0; i < table.n_pages; i++) {
        kt__kv_block_read(w->kv, w->table.pages[i], a);
        kt__kv_block_read(w->kv, table.pages[i], b);
        if (i + 1 == table.n_pages) {
            /* what lay in unused slots was somebody else's; where all is quantised, there is none
             * yet */
            if (shape.k_form == KT__KV_F16 || shape.v_form == KT__KV_F16)
                assert_memory_not_equal(a, b, bytes);
            kt__kv_block_clear_tail(&shape, a, N_POS % KT__PAGE_POS);
        }
        assert_memory_equal(a, b, bytes);
    }
    free(a);
    free(b);
    expect_same_f16(w, &table);
    kt__kv_table_free(w->kv, &table);
}

static void test_cut_at_each_byte(void **state) {
    world *w = *state;
    int32_t ids[N_POS];
    float logits[N_LOGITS];
    kt__kv_table table = second_table(w);
    for (size_t size = w->size; size-- > 0;) { /* shorter and shorter */
        kt_error err;
        assert_int_equal(truncate(w->path, (off_t)size), 0);
        kt_status status = restore(w, &shape, &table, ids, logits, &err);
        if (status != KT_E_FORMAT || !err.message[0])
            fail_msg("cut at %zu of %zu: %s", size, w->size, kt_status_name(status));
    }
    uint8_t *longer = malloc(w->size + 1);
    memcpy(longer, w->file, w->size);
    longer[w->size] = 0;
    kt_error err;
    spill(w->path, longer, w->size + 1);
    assert_int_equal(restore(w, &shape, &table, ids, logits, &err), KT_E_FORMAT);
    assert_non_null(strstr(err.message, "too long"));
    free(longer);
    kt__kv_table_free(w->kv, &table);
}

static void change_byte(const char *path, size_t at, uint8_t to) {
    FILE *out = fopen(path, "r+b");
    if (!out || fseek(out, (long)at, SEEK_SET) != 0 || fputc(to, out) == EOF)
        fail_msg("cannot change %s", path);
    fclose(out);
}

static void test_a_bit_of_each_byte(void **state) {
    world *w = *state;
    int32_t ids[N_POS];
    float logits[N_LOGITS];
    kt__kv_table table = second_table(w);
    size_t padding = 0;
    for (size_t i = 0; i < w->size; i++) {
        kt_error err;
        change_byte(w->path, i, (uint8_t)(w->file[i] ^ 1u << i % 8));
        kt_status status = restore(w, &shape, &table, ids, logits, &err);
        change_byte(w->path, i, w->file[i]);
        if (status == KT_OK) { /* between sections nothing is read */
            padding++;
            assert_memory_equal(ids, w->ids, sizeof ids);
            continue;
        }
        if ((status != KT_E_FORMAT && status != KT_E_STATE) || !err.message[0])
            fail_msg("byte %zu: %s", i, kt_status_name(status));
    }
    assert_int_equal(padding, 4096 - 512 - 4 * N_POS - 4 * N_LOGITS);
    kt__kv_table_free(w->kv, &table);
}

static void test_other_files(void **state) {
    world *w = *state;
    kt_error err;
    kt__kv_image_file *file;
    const kt__kv_shape others[] = {{.n_layer = 1, .n_head_kv = 2, .head_dim_k = 8, .head_dim_v = 4},
                                   {.n_layer = 2, .n_head_kv = 1, .head_dim_k = 8, .head_dim_v = 4},
                                   {.n_layer = 2, .n_head_kv = 2, .head_dim_k = 4, .head_dim_v = 4},
                                   {.n_layer = 2, .n_head_kv = 2, .head_dim_k = 8, .head_dim_v = 8},
                                   {.n_layer = 2,
                                    .n_head_kv = 2,
                                    .head_dim_k = 8,
                                    .head_dim_v = 4,
                                    .other = {2, 8, 8},
                                    .others = {1}}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        assert_int_equal(kt__kv_image_open(w->path, &others[i], &file, &err), KT_E_STATE);
        assert_null(file);
    }
    assert_int_equal(kt__kv_image_open(w->dir, &shape, &file, &err), KT_E_IO);
    assert_int_equal(kt__kv_image_open("/nonexistent/x", &shape, &file, &err), KT_E_IO);
    memcpy(w->file, "GGUF", 4);
    spill(w->path, w->file, w->size);
    assert_int_equal(kt__kv_image_open(w->path, &shape, &file, &err), KT_E_FORMAT);
    assert_non_null(strstr(err.message, "not a session file"));
    unlink(w->path);
    assert_int_equal(mkfifo(w->path, 0600), 0);
    assert_int_equal(kt__kv_image_open(w->path, &shape, &file, &err), KT_E_IO);
}

/* A directory that is gone: the error names the file. And the old file stays when the new one
 * fails. */
static void test_failed_saves(void **state) {
    world *w = *state;
    kt_error err;
    assert_int_equal(
        kt__kv_image_save("/nonexistent/x", &w->image, w->ids, w->logits, w->kv, &w->table, &err),
        KT_E_IO);
    assert_string_equal(err.where, "/nonexistent/x");
    kt__kv_image none = {.n_pos = 0};
    assert_int_equal(kt__kv_image_save(w->path, &none, NULL, NULL, w->kv, &w->table, &err),
                     KT_E_ARG);
    size_t size;
    uint8_t *now = slurp(w->path, &size);
    assert_int_equal(size, w->size);
    assert_memory_equal(now, w->file, size);
    free(now);
}

#if HEAP_WATCHED
static void test_failing_allocations(void **state) {
    world *w = *state;
    kt__kv_table table = second_table(w);
    for (long n = 1; n < 100; n++) {
        int32_t ids[N_POS];
        float logits[N_LOGITS];
        kt_error err;
        heap_begin(n, n);
        kt_status status = kt__kv_image_save(w->path, &w->image, w->ids, w->logits, w->kv,
                                             &w->table, &err);
        if (status == KT_OK) status = restore(w, &shape, &table, ids, logits, &err);
        bool failed = heap.n_failed > 0;
        heap_end();
        assert_int_equal(heap.n_live, 0);
        heap_sweep();
        assert_int_equal(status, failed ? KT_E_NOMEM : KT_OK);
        if (!failed) break;
        assert_true(n < 99);
    }
    kt__kv_table_free(w->kv, &table);
}
#endif

int main(void) {
    const struct CMUnitTest of_each_form[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_its_f16_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_of_another_form, setup, teardown),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_its_f16_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_of_another_form, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_at_each_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_bit_of_each_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_saves, setup, teardown),
#if HEAP_WATCHED
        cmocka_unit_test_setup_teardown(test_failing_allocations, setup, teardown),
#endif
    };
    int n_failed = 0;
    for (int form = 0; form < N_FORMS; form++) {
        shape.k_form = forms[form].k;
        shape.v_form = forms[form].v;
        shape.n_tail = forms[form].n_tail;
        shape.n_window = forms[form].n_window;
        shape.locals[0] = shape.n_window ? 2 : 0;
        shape.others[0] = forms[form].two ? 2 : 0;
        shape.other = forms[form].two ? (kt__kv_heads){3, 4, 8} : (kt__kv_heads){0};
        shape.first_f16 = shape.k_form == KT__KV_Q4 || shape.v_form == KT__KV_Q4;
        n_failed += form == 0 || form >= 3 ? cmocka_run_group_tests(tests, NULL, NULL)
                                           : cmocka_run_group_tests(of_each_form, NULL, NULL);
    }
    return n_failed;
}
