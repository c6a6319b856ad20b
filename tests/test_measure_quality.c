/* measure/quality, measure/kld_file, measure/text_score, measure/choices: figures against plain sums with libm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "measure/quality.h"

enum { VOCAB = 5 };
static const float base_logits[VOCAB] = {0.5f, 2.0f, -1.0f, 2.0f, -200.0f};
static const float own_logits[VOCAB] = {0.25f, 1.0f, -1.5f, 3.0f, -4.0f};

static double naive_log_prob(const float *logits, size_t n, size_t id) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += exp((double)logits[i]);
    return (double)logits[id] - log(sum);
}

static void test_row(void **state) {
    (void)state;
    float weights[VOCAB], bad[VOCAB] = {0.0f, NAN, 0.0f, 0.0f, 0.0f};
    kt__log_row row;
    assert_int_equal(kt__log_row_make(base_logits, VOCAB, weights, &row, NULL), KT_OK);
    assert_int_equal(row.best, 1); /* the lowest of equals */
    for (int32_t i = 0; i < VOCAB; i++) {
        double expected = naive_log_prob(base_logits, VOCAB, (size_t)i);
        assert_true(fabs(kt__log_row_at(&row, i) - expected) < 1e-6);
    }
    assert_int_equal(kt__log_row_make(bad, VOCAB, weights, &row, NULL), KT_E_NUMERIC);
}

static void test_divergence(void **state) {
    (void)state;
    float weights[VOCAB];
    kt__log_row base, own;
    kt__quality q = {0};
    kt__quality_figures f;
    double kl = 0.0;
    assert_int_equal(kt__log_row_make(base_logits, VOCAB, weights, &base, NULL), KT_OK);
    assert_int_equal(kt__log_row_make(own_logits, VOCAB, weights, &own, NULL), KT_OK);
    for (size_t i = 0; i < VOCAB; i++) {
        double b = naive_log_prob(base_logits, VOCAB, i), o = naive_log_prob(own_logits, VOCAB, i);
        kl += exp(b) * (b - o);
    }
    kt__base_row as_base = kt__log_row_as_base(&base), itself = kt__log_row_as_base(&own);
    assert_int_equal(kt__quality_add_beside(&q, &own, 0, &as_base, VOCAB, NULL), KT_OK);
    assert_true(fabs(q.kl[0] - kl) < 1e-6);
    assert_int_equal(kt__quality_add_beside(&q, &own, 2, &itself, VOCAB, NULL), KT_OK);
    assert_true(fabs(q.kl[1]) < 1e-7);
    kt__quality_figures_of(&q, &f);
    assert_true(f.same == 0.5 && f.n == 2);
    assert_true(fabs(f.kl_median - kl / 2.0) < 1e-6);
    assert_true(fabs(f.ln_ratio - (naive_log_prob(base_logits, VOCAB, 0) -
                                   naive_log_prob(own_logits, VOCAB, 0)) /
                                      2.0) < 1e-6);
    kt__quality_free(&q);
}

static void test_wilson(void **state) {
    (void)state;
    double low, high;
    kt__wilson(8, 10, &low, &high); /* Wilson 1927 by hand: 0.4902 to 0.9433 */
    assert_true(fabs(low - 0.4902) < 1e-4 && fabs(high - 0.9433) < 1e-4);
    kt__wilson(0, 10, &low, &high);
    assert_true(fabs(low) < 1e-12 && fabs(high - 0.2775) < 1e-4);
}

/* ---- files of log-probabilities ---- */

static void temporary(char path[64]) {
    snprintf(path, 64, "/tmp/kentang-kld-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
}

static void write_two_rows(const char *path) {
    static const int32_t tokens[4] = {1, 2, 3, 4};
    float weights[VOCAB];
    kt__kld_file f;
    kt__log_row row;
    assert_int_equal(kt__log_row_make(base_logits, VOCAB, weights, &row, NULL), KT_OK);
    assert_int_equal(kt__kld_create(path, 4, VOCAB, 1, tokens, &f, NULL), KT_OK);
    assert_int_equal(kt__kld_put(&f, &row, NULL), KT_OK);
    assert_int_equal(kt__kld_finish(&f, NULL), KT_OK);
    kt__kld_close(&f);
}

static void test_kld_round_trip(void **state) {
    (void)state;
    char path[64];
    kt__kld_file f;
    kt__base_row row;
    temporary(path);
    write_two_rows(path);
    assert_int_equal(kt__kld_open(path, &f, NULL), KT_OK);
    assert_true(f.n_ctx == 4 && f.n_vocab == VOCAB && f.n_chunk == 1 && f.tokens[3] == 4);
    assert_int_equal(kt__kld_next(&f, &row, NULL), KT_OK);
    assert_int_equal(row.best, 1);
    for (int32_t i = 0; i < VOCAB - 1; i++) {
        double expected = naive_log_prob(base_logits, VOCAB, (size_t)i);
        assert_true(fabs(row.log_prob(row.row, i) - expected) < 1e-3);
    }
    assert_true(row.log_prob(row.row, VOCAB - 1) <= row.floor); /* 200 below the greatest */
    assert_int_equal(kt__kld_next(&f, &row, NULL), KT_E_TRUNCATED);
    kt__kld_close(&f);
    unlink(path);
}

/* One byte after another is changed, and the file is cut at every length: an error or an answer. */
static void test_kld_hostile(void **state) {
    (void)state;
    char path[64];
    unsigned char bytes[256];
    temporary(path);
    write_two_rows(path);
    FILE *in = fopen(path, "rb");
    size_t n = fread(bytes, 1, sizeof bytes, in);
    fclose(in);
    assert_true(n > 40 && n < sizeof bytes);
    for (size_t i = 0; i < 2 * n; i++) {
        kt__kld_file f;
        kt__base_row row;
        unsigned char old = bytes[i % n];
        size_t length = i < n ? i : n;
        if (i >= n) bytes[i % n] = 0xff;
        FILE *out = fopen(path, "wb");
        assert_int_equal(fwrite(bytes, 1, length, out), length);
        fclose(out);
        kt_status status = kt__kld_open(path, &f, NULL);
        if (status == KT_OK) status = kt__kld_next(&f, &row, NULL);
        if (i < n) assert_int_not_equal(status, KT_OK);
        kt__kld_close(&f);
        bytes[i % n] = old;
    }
    unlink(path);
}

/* ---- a text, by the demo model ---- */

static const char story[] =
    "Once upon a time there was a small potato that lived in a garden. Every day the potato looked "
    "at the sky and asked the clouds where they were going. The clouds said that they did not "
    "know. "
    "One day the rain came, and the potato grew, and the children who lived in the house found it.";

static void open_demo(kt__session *s) {
    kt__session_opts opts = {0};
    kt_error err;
    assert_int_equal(kt__config_create(&opts.config, &err), KT_OK);
    opts.config->ctx = 64;
    if (kt__session_open(&opts, s, &err) != KT_OK) fail_msg("%s", err.message);
    kt__config_free(opts.config);
}

/* The mean of -log p over the second half of each chunk, token by token. */
static double naive_nll(kt__session *s, const int32_t *ids, size_t n_ids, size_t n_ctx) {
    double sum = 0.0;
    size_t n = 0;
    for (size_t c = 0; c + n_ctx <= n_ids; c += n_ctx) {
        assert_int_equal(kt_seq_truncate(s->seq, 0, NULL), KT_OK);
        for (size_t i = 0; i + 1 < n_ctx; i++) {
            int32_t id = i == 0 && s->info.add_bos ? s->info.bos_id : ids[c + i];
            assert_int_equal(kt_seq_eval(s->seq, &id, 1, NULL), KT_OK);
            if (i < n_ctx / 2) continue;
            sum -= naive_log_prob(kt_seq_logits(s->seq), (size_t)s->info.n_vocab,
                                  (size_t)ids[c + i + 1]);
            n++;
        }
    }
    return sum / (double)n;
}

static void test_text(void **state) {
    (void)state;
    kt__session s;
    kt__quality q = {0};
    kt__quality_figures f;
    kt__text_score_cost cost;
    int32_t *ids;
    size_t n_ids;
    open_demo(&s);
    assert_int_equal(kt__text_ids(s.model, story, strlen(story), 0, &ids, &n_ids, NULL), KT_OK);
    kt__text_score t = {.n_ctx = 16, .tokens = ids, .n_tokens = n_ids};
    assert_int_equal(kt__text_score_chunks(&t), n_ids / 16);
    assert_int_equal(kt__text_score_run(&t, &s, &q, &cost, NULL), KT_OK);
    assert_int_equal(q.n, n_ids / 16 * 7);
    kt__quality_figures_of(&q, &f);
    assert_true(fabs(f.nll - naive_nll(&s, ids, n_ids, 16)) < 1e-6);
    assert_true(cost.bytes > 0 && cost.bytes < sizeof story);
    kt__quality_free(&q);
    kt__free(ids);
    kt__session_close(&s);
}

static void test_stride(void **state) {
    (void)state;
    static const int32_t none[100] = {0};
    kt__text_score t = {.n_ctx = 30, .stride = 20, .tokens = none, .n_tokens = 100};
    assert_int_equal(kt__text_score_ctx(&t), 40);
    assert_int_equal(kt__text_score_chunks(&t), 3); /* begin at 0, 20, 40 */
    t.n_tokens = 40;
    assert_int_equal(kt__text_score_chunks(&t), 0);
    t.n_tokens = 41;
    assert_int_equal(kt__text_score_chunks(&t), 1);
}

/* ---- choices ---- */

static void write_text(const char *path, const char *text) {
    FILE *out = fopen(path, "wb");
    assert_int_equal(fwrite(text, 1, strlen(text), out), strlen(text));
    fclose(out);
}

static void test_choices_read(void **state) {
    (void)state;
    static const struct {
        const char *text;
        kt_status status;
        size_t right;
    } cases[] = {
        {"A cat\n1\nis blue\nis an animal\nruns\nflies\n", KT_OK, 1},
        {"{\"ctx\":\"A cat\",\"endings\":[\"a\",\"b\"],\"label\":\"1\"}\n", KT_OK, 1},
        {"{\"question\":\"Q\",\"choices\":{\"text\":[\"a\",\"b\"],\"label\":[\"A\",\"B\"]},"
         "\"answerKey\":\"B\"}",
         KT_OK, 1},
        {"{\"question\":\"Q\",\"choices\":[\"a\",\"b\"],\"answer\":0}", KT_OK, 0},
        {"A cat\n4\na\nb\nc\nd\n", KT_E_FORMAT, 0},
        {"A cat\n1\na\nb\nc\n", KT_E_FORMAT, 0},
        {"{\"ctx\":\"A cat\",\"endings\":[\"a\",2],\"label\":0}", KT_E_FORMAT, 0},
        {"{\"ctx\":\"A cat\",\"endings\":[\"a\",\"b\"],\"label\":2}", KT_E_FORMAT, 0},
        {"{\"ctx\":\"A cat\",\"endings\":[\"a\",\"b\"],\"label\":-1}", KT_E_FORMAT, 0},
        {"{", KT_E_FORMAT, 0},
        {"", KT_E_FORMAT, 0},
    };
    char path[64];
    temporary(path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__choice_tasks tasks;
        write_text(path, cases[i].text);
        assert_int_equal(kt__choice_tasks_read(path, &tasks, NULL), cases[i].status);
        if (cases[i].status == KT_OK) {
            assert_int_equal(tasks.n, 1);
            assert_int_equal(tasks.items[0].right, cases[i].right);
        }
        kt__choice_tasks_free(&tasks);
    }
    unlink(path);
}

/* The same by hand: the mean over the ending's tokens, one at a time. */
static double naive_ending(kt__session *s, const char *text, size_t n_context) {
    int32_t *ids;
    size_t n;
    double sum = 0.0;
    assert_int_equal(kt__text_ids(s->model, text, strlen(text), 0, &ids, &n, NULL), KT_OK);
    assert_int_equal(kt_seq_truncate(s->seq, 0, NULL), KT_OK);
    for (size_t i = 0; i + 1 < n; i++) {
        assert_int_equal(kt_seq_eval(s->seq, ids + i, 1, NULL), KT_OK);
        if (i + 1 >= n_context)
            sum += naive_log_prob(kt_seq_logits(s->seq), (size_t)s->info.n_vocab,
                                  (size_t)ids[i + 1]);
    }
    kt__free(ids);
    return sum / (double)(n - n_context);
}

static void test_choice(void **state) {
    (void)state;
    char *endings[2] = {"there was a little girl", "qzx vvw 7 7 7"};
    kt__choice_task task = {"Once upon a time", endings, 2, 0};
    kt__session s;
    bool right = false;
    size_t n_context;
    int32_t *ids;
    open_demo(&s);
    assert_int_equal(kt__choice_score(&task, &s, &right, NULL), KT_OK);
    assert_true(right);
    assert_int_equal(kt__text_ids(s.model, "Once upon a time", 16, 0, &ids, &n_context, NULL),
                     KT_OK);
    kt__free(ids);
    assert_true(naive_ending(&s, "Once upon a time there was a little girl", n_context) >
                naive_ending(&s, "Once upon a time qzx vvw 7 7 7", n_context));
    task.right = 1;
    assert_int_equal(kt__choice_score(&task, &s, &right, NULL), KT_OK);
    assert_false(right);
    kt__session_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row),         cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_wilson),      cmocka_unit_test(test_kld_round_trip),
        cmocka_unit_test(test_kld_hostile), cmocka_unit_test(test_text),
        cmocka_unit_test(test_stride),      cmocka_unit_test(test_choices_read),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
