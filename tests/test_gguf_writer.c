/* gguf: what the writer writes the reader reads; refusals of the writer; split sets. */
#include <dirent.h>
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

#include "gguf/gguf.h"
#include "gguf_scalar.h"

static char dir[] = "/tmp/kt_gguf_XXXXXX";

static const char *in_dir(const char *name) {
    static char paths[4][320];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(paths[turn], sizeof paths[turn], "%s/%s", dir, name);
    return paths[turn];
}

static int files_in_dir(void) {
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static int make_dir(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') unlink(in_dir(e->d_name));
    closedir(d);
    return rmdir(dir);
}

static kt_status open_file(const char *path, kt__gguf **g, kt_error *err) {
    const kt__gguf_open_params params = {.use_mmap = true};
    return kt__gguf_open(path, &params, g, err);
}

#define OK(call) assert_int_equal((call), KT_OK)

static const uint64_t ne_f32[] = {5, 3}, ne_q8[] = {32, 2, 2};

static void write_sample(const char *path) {
    kt__gguf_writer *w;
    kt_error err;
    const kt__str strs[] = {{"one", 3}, {"", 0}, {"t\0wo", 4}};
    const float f32s[] = {0.5f, -1e30f};
    const int32_t i32s[] = {-1, 2};
    float a[15];
    uint8_t b[34 * 4];
    for (int i = 0; i < 15; i++) a[i] = (float)i;
    memset(b, 7, sizeof b);
    OK(kt__gguf_writer_open(path, &w, &err));
    kt__gguf_put_str(w, "general.architecture", "test");
    kt__gguf_put_u32(w, "u32", 0xfffffffe);
    gguf_put_scalar(w, "i32", KT__GGUF_I32, -3);
    gguf_put_scalar(w, "u64", KT__GGUF_U64, 1LL << 40);
    kt__gguf_put_f32(w, "f32", 1.25f);
    kt__gguf_put_bool(w, "bool", true);
    kt__gguf_put_strs(w, "strs", strs, 3);
    kt__gguf_put_f32s(w, "f32s", f32s, 2);
    kt__gguf_put_i32s(w, "i32s", i32s, 2);
    kt__gguf_put_strs(w, "empty", NULL, 0);
    kt__gguf_declare_tensor(w, "a", 0, 2, ne_f32);
    kt__gguf_declare_tensor(w, "b", 8, 3, ne_q8);
    OK(kt__gguf_finish_header(w, &err));
    OK(kt__gguf_write_data(w, a, 8, &err)); /* in pieces */
    OK(kt__gguf_write_data(w, (char *)a + 8, sizeof a - 8, &err));
    OK(kt__gguf_write_data(w, b, sizeof b, &err));
    assert_int_equal(access(path, F_OK), -1); /* nothing under the final name yet */
    OK(kt__gguf_writer_close(w, &err));
}

static void check_sample(const kt__gguf *g) {
    uint32_t u32 = 0;
    uint64_t u64 = 0;
    float f32 = 0;
    bool flag = false;
    const kt__gguf_kv *kv;
    OK(kt__gguf_get_u32(g, "u32", true, &u32, NULL));
    kv = kt__gguf_find(g, "i32");
    assert_true(kv && kv->type == KT__GGUF_I32);
    assert_memory_equal(kv->data, "\xfd\xff\xff\xff", 4);
    OK(kt__gguf_get_u64(g, "u64", true, &u64, NULL));
    OK(kt__gguf_get_f32(g, "f32", true, &f32, NULL));
    OK(kt__gguf_get_bool(g, "bool", true, &flag, NULL));
    assert_true(u32 == 0xfffffffe && u64 == 1ULL << 40 && f32 == 1.25f && flag);
    OK(kt__gguf_get_array(g, "strs", true, KT__GGUF_STRING, &kv, NULL));
    assert_int_equal(kv->count, 3);
    assert_int_equal(kt__gguf_array_str(kv, 1).len, 0);
    assert_memory_equal(kt__gguf_array_str(kv, 2).s, "t\0wo", 4);
    OK(kt__gguf_get_array(g, "f32s", true, KT__GGUF_F32, &kv, NULL));
    assert_true(kt__gguf_array_f32(kv, 1) == -1e30f);
    OK(kt__gguf_get_array(g, "i32s", true, KT__GGUF_I32, &kv, NULL));
    assert_int_equal(kt__gguf_array_i64(kv, 0), -1);
    OK(kt__gguf_get_array(g, "empty", true, KT__GGUF_STRING, &kv, NULL));
    assert_int_equal(kv->count, 0);
    const kt__gguf_tensor *a = kt__gguf_find_tensor(g, "a"), *b = kt__gguf_find_tensor(g, "b");
    assert_int_equal(a->ne[0] * a->ne[1], 15);
    assert_int_equal(((const float *)(const void *)a->data)[14], 14);
    assert_int_equal((uintptr_t)b->data % 32, 0);
    assert_int_equal(b->size, 34 * 4);
    assert_int_equal(b->data[b->size - 1], 7);
}

static void test_round_trip(void **state) {
    (void)state;
    kt__gguf *g;
    kt_error err;
    const char *path = in_dir("round.gguf");
    write_sample(path);
    for (int use_mmap = 0; use_mmap < 2; use_mmap++) {
        const kt__gguf_open_params params = {.use_mmap = use_mmap};
        OK(kt__gguf_open(path, &params, &g, &err));
        assert_string_equal(kt__gguf_path(g), path);
        check_sample(g);
        OK(kt__gguf_check(g, &err));
        kt__gguf_close(g);
    }
}

static void test_metadata_copies_verbatim(void **state) {
    (void)state;
    kt__gguf *from, *to;
    kt__gguf_writer *w;
    kt_error err;
    char path[320];
    snprintf(path, sizeof path, "%s", in_dir("copy.gguf"));
    OK(open_file(in_dir("round.gguf"), &from, &err));
    OK(kt__gguf_writer_open(path, &w, &err));
    for (size_t i = 0; i < kt__gguf_n_kv(from); i++) kt__gguf_put_kv(w, kt__gguf_kv_at(from, i));
    for (size_t i = 0; i < kt__gguf_n_tensors(from); i++) {
        const kt__gguf_tensor *t = kt__gguf_tensor_at(from, i);
        kt__gguf_declare_tensor(w, t->name.s, t->type, t->n_dims, t->ne);
    }
    OK(kt__gguf_finish_header(w, &err));
    for (size_t i = 0; i < kt__gguf_n_tensors(from); i++)
        OK(kt__gguf_write_data(w, kt__gguf_tensor_at(from, i)->data,
                               kt__gguf_tensor_at(from, i)->size, &err));
    OK(kt__gguf_writer_close(w, &err));
    OK(open_file(path, &to, &err));
    check_sample(to);
    kt__gguf_close(to);
    kt__gguf_close(from);
}

static void test_writer_refuses(void **state) {
    (void)state;
    kt__gguf_writer *w;
    kt_error err;
    const uint64_t ne_part[] = {48}, ne_one[] = {32}, ne_zero[] = {0}, ne_huge[] = {1ULL << 62, 8};
    int before = files_in_dir();
    assert_int_equal(kt__gguf_writer_open("/nonexistent/x.gguf", &w, &err), KT_E_IO);
    assert_null(w);
    const struct {
        uint32_t type, n_dims;
        const uint64_t *ne;
    } bad[] = {{8, 1, ne_part}, {0, 1, ne_zero}, {0, 2, ne_huge},
               {34, 1, ne_one}, {0, 5, ne_one},  {0, 0, ne_one}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        OK(kt__gguf_writer_open(in_dir("bad.gguf"), &w, &err));
        kt__gguf_declare_tensor(w, "t", bad[i].type, bad[i].n_dims, bad[i].ne);
        assert_int_equal(kt__gguf_finish_header(w, &err), KT_E_ARG);
        kt__gguf_writer_abort(w);
    }
    OK(kt__gguf_writer_open(in_dir("bad.gguf"), &w, &err));
    kt__gguf_declare_tensor(w, "t", 0, 1, ne_one);
    assert_int_equal(kt__gguf_write_data(w, "x", 1, &err), KT_E_STATE); /* before the header */
    OK(kt__gguf_finish_header(w, &err));
    static const char zeros[129];
    assert_int_equal(kt__gguf_write_data(w, zeros, 129, &err), KT_E_STATE);
    OK(kt__gguf_write_data(w, zeros, 127, &err));
    assert_int_equal(kt__gguf_writer_close(w, &err), KT_E_STATE); /* one byte is missing */
    assert_int_equal(files_in_dir(), before);                     /* and nothing is left behind */
}

static void write_small(const char *path) {
    static const char zeros[128];
    const uint64_t ne[] = {32};
    kt__gguf_writer *w;
    kt_error err;
    OK(kt__gguf_writer_open(path, &w, &err));
    kt__gguf_declare_tensor(w, "t", 0, 1, ne);
    OK(kt__gguf_finish_header(w, &err));
    OK(kt__gguf_write_data(w, zeros, sizeof zeros, &err));
    OK(kt__gguf_writer_close(w, &err));
}

/* Only regular files are replaced; a symbolic link stays one. */
static void test_what_may_be_replaced(void **state) {
    (void)state;
    struct stat st;
    kt__gguf *g;
    kt__gguf_writer *w;
    kt_error err;
    char link[320], target[320], fifo[320];
    snprintf(link, sizeof link, "%s", in_dir("link.gguf"));
    snprintf(target, sizeof target, "%s", in_dir("target.gguf"));
    snprintf(fifo, sizeof fifo, "%s", in_dir("fifo"));
    write_small(target);
    assert_int_equal(truncate(target, 1), 0);
    assert_int_equal(symlink("target.gguf", link), 0);
    write_small(link);
    assert_true(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    OK(open_file(target, &g, &err));
    kt__gguf_close(g);
    assert_int_equal(unlink(target), 0);
    assert_int_equal(kt__gguf_writer_open(link, &w, &err), KT_E_IO);
    assert_non_null(strstr(err.message, "leads nowhere"));
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("/dev/null", link), 0);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    const char *const refused[] = {link, fifo, "/dev/null", "/tmp"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(kt__gguf_writer_open(refused[i], &w, &err), KT_E_ARG);
        assert_non_null(strstr(err.message, "not a regular file"));
        assert_null(w);
    }
    assert_true(lstat(fifo, &st) == 0 && S_ISFIFO(st.st_mode));
    unlink(fifo);
    unlink(link);
}

/* ---- split sets ---- */

typedef struct split_part {
    const char *file, *tensor;
    uint32_t no, count;
    int32_t total;
} split_part;

static void write_part(const split_part *p) {
    kt__gguf_writer *w;
    kt_error err;
    const uint64_t ne[] = {4};
    const float data[4] = {(float)p->no};
    OK(kt__gguf_writer_open(in_dir(p->file), &w, &err));
    kt__gguf_put_u32(w, "split.no", p->no);
    kt__gguf_put_u32(w, "split.count", p->count);
    gguf_put_scalar(w, "split.tensors.count", KT__GGUF_I32, p->total);
    kt__gguf_declare_tensor(w, p->tensor, 0, 1, ne);
    OK(kt__gguf_finish_header(w, &err));
    OK(kt__gguf_write_data(w, data, sizeof data, &err));
    OK(kt__gguf_writer_close(w, &err));
}

static void test_split_set(void **state) {
    (void)state;
    const split_part parts[] = {{"m-00001-of-00003.gguf", "x", 0, 3, 3},
                                {"m-00002-of-00003.gguf", "y", 1, 3, 3},
                                {"m-00003-of-00003.gguf", "z", 2, 3, 3}};
    kt__gguf *g;
    kt_error err;
    for (int i = 0; i < 3; i++) write_part(&parts[i]);
    OK(open_file(in_dir(parts[0].file), &g, &err));
    assert_int_equal(kt__gguf_n_parts(g), 3);
    assert_int_equal(kt__gguf_n_tensors(g), 3);
    const kt__gguf_tensor *z = kt__gguf_find_tensor(g, "z");
    assert_int_equal(z->part, 2);
    assert_true(*(const float *)(const void *)z->data == 2.0f);
    OK(kt__gguf_check(g, &err));
    kt__gguf_close(g);
    const kt__gguf_open_params vocab_only = {.use_mmap = true, .vocab_only = true};
    OK(kt__gguf_open(in_dir(parts[0].file), &vocab_only, &g, &err));
    assert_int_equal(kt__gguf_n_parts(g), 1);
    kt__gguf_close(g);
}

static void assert_refused(const char *file, kt_status status, const char *fragment,
                           const char *where) {
    kt__gguf *g;
    kt_error err;
    assert_int_equal(open_file(in_dir(file), &g, &err), status);
    if (!strstr(err.message, fragment) || !strstr(err.where, where))
        fail_msg("\"%s\" in \"%s\" (%s)", fragment, err.message, err.where);
}

static void test_split_set_refusals(void **state) {
    (void)state;
    /* a later part: the message names the first */
    assert_refused("m-00002-of-00003.gguf", KT_E_ARG, "part 2 of 3", "m-00002");
    assert_refused("m-00002-of-00003.gguf", KT_E_ARG, "m-00001-of-00003.gguf", "");
    /* the name does not lead to the others */
    write_part(&(split_part){"lonely.gguf", "x", 0, 2, 2});
    assert_refused("lonely.gguf", KT_E_FORMAT, "-00001-of-00002.gguf", "lonely");
    /* the second is absent */
    write_part(&(split_part){"n-00001-of-00002.gguf", "x", 0, 2, 2});
    assert_refused("n-00001-of-00002.gguf", KT_E_IO, "", "");
    /* the second is another set's, repeats a tensor, or the total is off */
    write_part(&(split_part){"n-00002-of-00002.gguf", "y", 2, 3, 2});
    assert_refused("n-00001-of-00002.gguf", KT_E_FORMAT, "keys say part 3 of 3", "n-00002");
    write_part(&(split_part){"n-00002-of-00002.gguf", "x", 1, 2, 2});
    assert_refused("n-00001-of-00002.gguf", KT_E_FORMAT, "x occurs twice", "n-00002");
    write_part(&(split_part){"n-00002-of-00002.gguf", "y", 1, 2, 2});
    write_part(&(split_part){"n-00001-of-00002.gguf", "x", 0, 2, 5});
    assert_refused("n-00001-of-00002.gguf", KT_E_FORMAT, "split.tensors.count is 5", "n-00001");
    write_part(&(split_part){"n-00001-of-00002.gguf", "x", 0, 5000, 5});
    assert_refused("n-00001-of-00002.gguf", KT_E_LIMIT, "limit is 999", "n-00001");
}

static void test_truncated_while_open(void **state) {
    (void)state;
    kt__gguf *g;
    kt_error err;
    const char *path = in_dir("round.gguf");
    OK(open_file(path, &g, &err));
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(kt__gguf_check(g, &err), KT_E_TRUNCATED);
    kt__gguf_close(g);
    assert_int_equal(truncate(path, 0), 0);
    assert_true(open_file(path, &g, &err) != KT_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_metadata_copies_verbatim),
        cmocka_unit_test(test_writer_refuses),
        cmocka_unit_test(test_what_may_be_replaced),
        cmocka_unit_test(test_split_set),
        cmocka_unit_test(test_split_set_refusals),
        cmocka_unit_test(test_truncated_while_open),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
