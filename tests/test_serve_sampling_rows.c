/* Every row of sample/steps.def is known everywhere: in requests, on the command line, in the documentation and in the
 * default chain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "sample/sample.h"
#include "setup/config.h"
#include "wire/wire.h"

typedef struct number {
    const char *member, *option, *also, *help;
    size_t at; /* in kt_sampling */
    bool is_int;
    double value, low, high;
} number;

enum { FLOAT, INT };
static const number numbers[] = {
#define NUMBER(type, member, value, low, high, option, also, help) \
    {#member, option, also, help, offsetof(kt_sampling, member), type, (double)(value), low, high},
#include "sample/steps.def"
};
static const char *const steps[] = {
#define STEP(KIND, name, ...) #name,
#include "sample/steps.def"
};
static const char *const spellings[] = {
#define SPELLING(KIND, name) #name,
#include "sample/steps.def"
};
#define COUNT(list) (sizeof list / sizeof list[0])

static double value_of(const kt_sampling *p, const number *n) {
    const char *at = (const char *)p + n->at;
    int32_t i;
    float f;
    memcpy(&i, at, sizeof i);
    memcpy(&f, at, sizeof f);
    return n->is_int ? (double)i : (double)f;
}

/* ---- requests ---- */

static kt_status read_request(const number *n, double value, kt_sampling *out) {
    static const kt_request_params none;
    kt_request_params defaults = none;
    kt__wire_request *r = NULL;
    char json[128];
    defaults.gen = kt_gen_params_default();
    defaults.n_choices = 1;
    snprintf(json, sizeof json, "{\"prompt\":\"x\",\"%s\":%.10g}", n->member, value);
    kt_status status = kt__wire_read(KT__WIRE_NATIVE, json, strlen(json), &defaults, &r, NULL);
    if (status != KT_OK) return status;
    *out = r->req.gen.sampling;
    kt__wire_request_free(r);
    return KT_OK;
}

static void test_every_number_is_a_field_of_requests(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        const number *n = &numbers[i];
        kt_sampling got = kt_sampling_default();
        double other = n->value == n->high ? n->low : n->high;
        if (value_of(&got, n) != n->value) fail_msg("%s: another default", n->member);
        assert_int_equal(read_request(n, other, &got), KT_OK);
        if (value_of(&got, n) != (n->is_int ? other : (double)(float)other))
            fail_msg("%s: %g became %g", n->member, other, value_of(&got, n));
        assert_int_equal(read_request(n, n->low - 1, &got), KT_E_ARG);
        assert_int_equal(read_request(n, n->high * 2 + 1, &got), KT_E_ARG);
    }
}

/* ---- settings ---- */

static const number *number_of_setting(const char *key) {
    for (size_t i = 0; i < COUNT(numbers); i++)
        if (!strcmp(numbers[i].member, key + strlen("sampling."))) return &numbers[i];
    fail_msg("%s: no row of steps.def", key);
    return NULL;
}

static void test_settings_have_the_rows_values(void **state) {
    (void)state;
    kt__config *c;
    size_t n_settings, n_found = 0;
    const kt__setting *settings = kt__config_settings(&n_settings);
    assert_int_equal(kt__config_create(&c, NULL), KT_OK);
    for (size_t i = 0; i < n_settings; i++) {
        const kt__setting *s = &settings[i];
        if (strncmp(s->key, "sampling.", strlen("sampling.")) != 0) continue;
        const number *n = number_of_setting(s->key);
        int64_t whole;
        double value;
        memcpy(&whole, (const char *)c + s->at, sizeof whole);
        memcpy(&value, (const char *)c + s->at, sizeof value);
        if (s->low != n->low || s->high != n->high || n->is_int != (s->kind == KT__SET_INT) ||
            (float)(n->is_int ? (double)whole : value) != (float)n->value)
            fail_msg("%s: other limits, or another default", s->key);
        n_found++;
    }
    assert_int_equal(n_found, 22);
    kt__config_free(c);
}

/* ---- texts ---- */

static char *slurp(FILE *f) {
    char *text = calloc(1, 1 << 20);
    assert_non_null(f);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    return text;
}

/* The file's text without what a comment's layout puts between words. */
static char *slurp_squeezed(const char *path) {
    FILE *f = fopen(path, "r");
    char *text = slurp(f), *to = text;
    for (const char *from = text; *from; from++) {
        if (!strchr(" \n*\"", *from)) *to++ = *from;
    }
    *to = 0;
    fclose(f);
    return text;
}

static char *help_of_run(void) {
    FILE *f = popen("'" KT_BINARY_DIR "/kentang' run --help", "r");
    char *text = slurp(f);
    assert_int_equal(pclose(f), 0);
    return text;
}

static bool runs_with(const char *option, const char *value) {
    char command[512];
    snprintf(command, sizeof command, "'%s/kentang' run --%s=%s --help >/dev/null 2>&1",
             KT_BINARY_DIR, option, value);
    return system(command) == 0;
}

static void test_every_number_is_an_option(void **state) {
    (void)state;
    char *help = help_of_run(), wanted[64];
    for (size_t i = 0; i < COUNT(numbers); i++) {
        const number *n = &numbers[i];
        snprintf(wanted, sizeof wanted, "--%s ", n->option);
        if (!strstr(help, wanted)) fail_msg("--help has no --%s", n->option);
        snprintf(wanted, sizeof wanted, "%.6g", n->value);
        if (!runs_with(n->option, wanted)) fail_msg("--%s=%s is refused", n->option, wanted);
        if (n->also && !runs_with(n->also, wanted)) fail_msg("--%s is refused", n->also);
        if (runs_with(n->option, "1e30")) fail_msg("--%s takes 1e30", n->option);
        snprintf(wanted, sizeof wanted, "default %.6g", n->value);
        if (!strstr(n->help, wanted)) fail_msg("%s: its help lacks \"%s\"", n->member, wanted);
    }
    free(help);
}

static void test_every_number_is_documented(void **state) {
    (void)state;
    char *protocol = slurp(fopen(KT_SOURCE_DIR "/docs/PROTOCOL.md", "r")), wanted[64];
    for (size_t i = 0; i < COUNT(numbers); i++) {
        snprintf(wanted, sizeof wanted, "`%s`", numbers[i].member);
        if (!strstr(protocol, wanted)) fail_msg("docs/PROTOCOL.md lacks %s", wanted);
    }
    free(protocol);
}

/* ---- steps ---- */

static void chain_of_all(char *out, size_t size, const char *between) {
    size_t at = 0;
    for (size_t i = 0; i < COUNT(steps); i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? between : "", steps[i]);
}

static void test_every_step_is_in_help_and_header(void **state) {
    (void)state;
    char chain[512], *help = help_of_run(), *to = help;
    for (const char *from = help; *from; from++) {
        bool again = (*from == ' ' || *from == '\n') && to > help && to[-1] == ' ';
        if (!again) *to++ = *from == '\n' ? ' ' : *from;
    }
    *to = 0;
    chain_of_all(chain, sizeof chain, " ");
    assert_non_null(strstr(help, chain));
    free(help);
    char *header = slurp_squeezed(KT_SOURCE_DIR "/include/kentang.h");
    chain_of_all(chain, sizeof chain, ";");
    assert_non_null(strstr(header, chain));
    free(header);
}

static int32_t draw(const char *chain, uint64_t position) {
    enum { N = 300 };
    float logits[N];
    int32_t id;
    kt__sampler *s;
    kt_sampling p = kt_sampling_default();
    const kt__sampler_setup setup = {.n_vocab = N, .n_ctx = 100};
    p.seed = 9;
    p.xtc_probability = 0.5f;
    p.typical_p = 0.9f;
    p.top_n_sigma = 2;
    p.repeat_penalty = 1.2f;
    p.dry_multiplier = 1;
    p.chain = chain;
    for (int i = 0; i < N; i++)
        logits[i] = (float)((uint64_t)i * 7919 * (position + 1) % 1009) / 150;
    assert_int_equal(kt__sampler_create(&p, &setup, &s, NULL), KT_OK);
    for (int i = 0; i < 40; i++) kt__sampler_accept(s, i * 7 % 20);
    assert_int_equal(kt__sampler_sample(s, logits, position, &id, NULL), KT_OK);
    kt__sampler_free(s);
    return id;
}

static void test_the_default_chain_is_all_steps_in_order(void **state) {
    (void)state;
    char chain[512];
    kt_sampling p = kt_sampling_default();
    chain_of_all(chain, sizeof chain, ";");
    for (uint64_t i = 0; i < 200; i++) assert_int_equal(draw(NULL, i), draw(chain, i));
    for (size_t i = 0; i < COUNT(steps) + COUNT(spellings); i++) {
        p.chain = i < COUNT(steps) ? steps[i] : spellings[i - COUNT(steps)];
        assert_int_equal(kt__sampling_check(&p, 100, NULL), KT_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number_is_a_field_of_requests),
        cmocka_unit_test(test_settings_have_the_rows_values),
        cmocka_unit_test(test_every_number_is_an_option),
        cmocka_unit_test(test_every_number_is_documented),
        cmocka_unit_test(test_every_step_is_in_help_and_header),
        cmocka_unit_test(test_the_default_chain_is_all_steps_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
