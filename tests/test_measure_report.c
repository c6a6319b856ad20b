/* Reports: escaping, round ticks, plots of all kinds of figures, and the file. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "measure/html.h"
#include "measure/plot.h"
#include "measure/report.h"
#include "xml_check.h"

static const char hostile[] = "a<script>alert(\"1\")</script>&amp;'\x1b[31m\xff\xc0\x80\xe2\x80\xae"
                              "\xef\xbf\xbf\x01\x7f\n\t\\x"
                              "\xed\xa0\x80 the end";

/* ---- texts ---- */

static const char *text_of(const char *s, int cells) {
    static char kept[8192];
    kt__buf out;
    kt__buf_init(&out, sizeof kept - 1);
    if (cells)
        kt__html_short(&out, s, cells);
    else
        kt__html_text(&out, s);
    assert_false(out.failed);
    memcpy(kept, out.data ? out.data : "", out.len + 1);
    kt__buf_free(&out);
    return kept;
}

static void test_every_byte_is_escaped(void **state) {
    (void)state;
    char page[16384] = "<p>";
    for (int byte = 1; byte < 256; byte++) {
        char s[4] = {'x', (char)byte, 'y', '\0'};
        strcat(page, text_of(s, 0));
        s[2] = (char)0x80; /* a first byte and one that continues it */
        strcat(page, text_of(s, 0));
    }
    strcat(page, text_of(hostile, 0));
    strcat(page, "</p>");
    xml_check(page, strlen(page));
    assert_string_equal(text_of("<&>\"'", 0), "&lt;&amp;&gt;&quot;&#39;");
    assert_string_equal(text_of("\xff\x1b", 0), "\\xff\\x1b");
    assert_string_equal(text_of("Kartoffel \xc3\xbc \xe2\x80\xae", 0),
                        "Kartoffel \xc3\xbc \\u{202e}");
}

static void test_long_texts_are_cut(void **state) {
    (void)state;
    assert_string_equal(text_of("potato", 6), "potato");
    assert_string_equal(text_of("potatoes", 6), "potat\xe2\x80\xa6");
    assert_string_equal(text_of("<<<<", 3), "&lt;&lt;\xe2\x80\xa6");
    assert_string_equal(text_of("\xe9\xa6\xac\xe9\x88\xb4\xe8\x96\xaf", 5),
                        "\xe9\xa6\xac\xe9\x88\xb4\xe2\x80\xa6"); /* two cells each */
    assert_string_equal(text_of("x", 1), "x");
}

static void test_numbers(void **state) {
    (void)state;
    static const struct {
        double value;
        int digits;
        const char *text;
    } cases[] = {
        {0, 3, "0.00"},        {1234.56, 4, "1235"},      {12.3456, 4, "12.35"},
        {0.05, 3, "0.0500"},   {0.000123, 3, "0.000123"}, {1e-7, 3, "1.00e-07"},
        {3.2e9, 2, "3.2e+09"}, {-4.5, 2, "-4.5"},         {NAN, 3, "-"},
        {INFINITY, 3, "-"},    {-INFINITY, 3, "-"},       {99999, 3, "99999"},
    };
    char out[KT__NUMBER_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(kt__html_number(cases[i].value, cases[i].digits, out), cases[i].text);
}

/* ---- scales ---- */

static void expect_ticks(bool log, double low, double high, const char *expected) {
    kt__scale scale;
    char all[512] = "", text[KT__NUMBER_BYTES];
    kt__scale_make(log, low, high, true, 5, &scale);
    for (int i = 0; i < scale.n_ticks; i++) {
        if (i) strcat(all, " ");
        strcat(all, kt__scale_text(&scale, i, text));
    }
    if (strcmp(all, expected) != 0)
        fail_msg("%g to %g: \"%s\", expected \"%s\"", low, high, all, expected);
}

static void test_ticks_are_round(void **state) {
    (void)state;
    expect_ticks(false, 0, 100, "0 20 40 60 80 100");
    expect_ticks(false, 0, 14432, "0 5000 10000 15000");
    expect_ticks(false, 0, 0.0037, "0.000 0.001 0.002 0.003 0.004");
    expect_ticks(false, -3, 7, "-4 -2 0 2 4 6 8");
    expect_ticks(false, 8.61, 8.75, "8.60 8.65 8.70 8.75");
    expect_ticks(false, 0, 2600000, "0 1M 2M 3M");
    expect_ticks(false, 7, 7, "6.0 6.5 7.0 7.5 8.0");
    expect_ticks(false, 0, 0, "0.0 0.1 0.2 0.3 0.4 0.5");
    expect_ticks(false, INFINITY, -INFINITY, "0.0 0.2 0.4 0.6 0.8 1.0");
    expect_ticks(true, 0.003, 40, "0.001 0.01 0.1 1 10 100");
    expect_ticks(true, 1e-9, 1, "1e-09 1e-07 1e-05 0.001 0.1");
    expect_ticks(true, 5, 5, "1 10 100");
}

/* ---- plots ---- */

/* Well-formed, no figure that is none, and nothing far outside of the drawing. */
static void check_drawing(kt__buf *out) {
    assert_false(out->failed);
    xml_check(out->data, out->len);
    static const char *const never[] = {"nan", "inf", "NaN", "<script"};
    const char *drawing = strstr(out->data, "</desc>");
    assert_non_null(drawing);
    for (size_t i = 0; i < 4; i++)
        if (strstr(i < 3 ? drawing : out->data, never[i])) fail_msg("%s in %s", never[i], drawing);
    int height = 0;
    assert_int_equal(sscanf(strstr(out->data, "viewBox"), "viewBox=\"0 0 440 %d", &height), 1);
    for (const char *at = drawing; (at = strstr(at, " d=\"M")); at++) {
        double x, y;
        assert_int_equal(sscanf(at, " d=\"M%lf %lf", &x, &y), 2);
        if (x < -6 || x > 446 || y < -6 || y > height + 6) fail_msg("outside: %.60s", at);
    }
    kt__buf_free(out);
}

static void draw(const kt__plot_series *series, size_t n, bool log) {
    kt__buf out;
    kt__buf_init(&out, 1 << 22);
    const kt__plot plot = {.title = hostile,
                           .x = {.name = hostile, .log = log, .at_values = !log},
                           .y = {.name = "y", .from_zero = !log, .log = log},
                           .series = series,
                           .n_series = n,
                           .dashed = hostile};
    kt__plot_draw(&out, &plot, 1);
    if (!n && !strstr(out.data, "There are no figures")) fail_msg("silent: %s", out.data);
    check_drawing(&out);
}

static void test_odd_figures(void **state) {
    (void)state;
    const double odd[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1, 1e300, -1e300, 1e-300, 5e29, 1e9};
    enum { N = sizeof odd / sizeof *odd };
    kt__plot_point points[N * N];
    for (int i = 0; i < N * N; i++)
        points[i] = (kt__plot_point){.x = odd[i / N],
                                     .y = odd[i % N],
                                     .low = odd[(i + 3) % N],
                                     .high = odd[(i + 7) % N],
                                     .label = i % 2 ? hostile : NULL};
    for (int log = 0; log < 2; log++) {
        const kt__plot_series all = {hostile, points, N * N, true, false, 0};
        draw(&all, 1, log);
        draw(NULL, 0, log);
        for (int i = 0; i < N * N; i++) {
            const kt__plot_series one = {"one", points + i, 1, i % 2, false, i};
            draw(&one, 1, log);
        }
    }
}

static void test_many_points_and_series(void **state) {
    (void)state;
    enum { N = 1000 };
    static kt__plot_point points[N];
    static char names[40][300];
    kt__plot_series series[40];
    for (int i = 0; i < N; i++)
        points[i] = (kt__plot_point){
            .x = i, .y = 50 + 40 * sin(i * 0.01), .label = "a long name of a point"};
    for (int s = 0; s < 40; s++) {
        memset(names[s], 'm', sizeof names[s] - 1);
        series[s] = (kt__plot_series){names[s], points, s == 39 ? N : 100, s % 2, s % 3 == 2, s};
    }
    draw(series, 40, false);
    draw(series + 39, 1, true);
}

/* Labels of points that lie together do not cover each other. */
static void test_labels_do_not_meet(void **state) {
    (void)state;
    kt__plot_point points[5];
    for (int i = 0; i < 5; i++)
        points[i] = (kt__plot_point){.x = 10 + 0.01 * i, .y = 5, .label = "Q4_K_M"};
    points[4] = (kt__plot_point){.x = 30, .y = 9, .label = "F16"};
    const kt__plot_series series = {"files", points, 5, false, false, 0};
    const kt__plot plot = {
        .title = "t", .x = {.name = "x"}, .y = {.name = "y"}, .series = &series, .n_series = 1};
    kt__buf out;
    kt__buf_init(&out, 1 << 20);
    kt__plot_draw(&out, &plot, 1);
    double x[8], y[8];
    int n = 0;
    for (const char *at = out.data; n < 8 && (at = strstr(at, "class=\"label\"")); at++, n++)
        assert_int_equal(sscanf(at, "class=\"label\" x=\"%lf\" y=\"%lf\"", &x[n], &y[n]), 2);
    assert_true(n >= 3 && n <= 5);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) assert_true(fabs(x[i] - x[k]) >= 42 || fabs(y[i] - y[k]) >= 14);
    check_drawing(&out);
}

static void test_bars(void **state) {
    (void)state;
    const double odd[] = {3, NAN, INFINITY, 0, -7, 1e300, 1e9};
    kt__plot_bar bars[100];
    for (int i = 0; i < 100; i++)
        bars[i] = (kt__plot_bar){
            .name = i % 3 ? "a name that is too long for its line by far, as names of models are"
                          : hostile,
            .text = i % 2 ? "12.3 tokens/s" : NULL,
            .value = odd[i % 7],
            .low = odd[(i + 1) % 7],
            .high = odd[(i + 2) % 7],
            .mark = odd[(i + 3) % 7],
            .first = i % 2};
    for (size_t n = 0; n <= 100; n = n < 8 ? n + 1 : n + 23) {
        kt__buf out;
        const kt__bar_plot plot = {hostile, hostile, bars,    n,  "first",
                                   hostile, "marks", "spans", 100};
        kt__buf_init(&out, 1 << 20);
        kt__plot_draw_bars(&out, &plot, (int)n);
        if (!n) assert_non_null(strstr(out.data, "There are no figures"));
        if (n > KT__PLOT_MAX_BARS) assert_non_null(strstr(out.data, "bars are drawn"));
        check_drawing(&out);
    }
}

/* ---- the page and its file ---- */

static char folder[64];

static void path_in(const char *name, char out[256]) {
    snprintf(out, 256, "%s/%s", folder, name);
}

static size_t read_whole(const char *path, char *out, size_t size) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t n = fread(out, 1, size - 1, f);
    out[n] = '\0';
    fclose(f);
    return n;
}

static void test_a_page(void **state) {
    (void)state;
    static char text[1 << 18];
    char path[256], *argv[] = {"bench", "-m",       (char *)(uintptr_t)hostile,
                               "--key", "secret-1", "--key=secret-2",
                               "it's",  "",         NULL};
    static const char *const columns[] = {"<what", "n", "<word"};
    const kt__plot_point point = {.x = 1, .y = NAN};
    const kt__plot_series series = {"s", &point, 1, true, false, 0};
    const kt__plot plot = {.title = "a plot",
                           .x = {.name = "x"},
                           .y = {.name = "y"},
                           .series = &series,
                           .n_series = 1};
    kt__report r;
    kt_error err = {0};
    path_in("page.html", path);
    kt__report_opts opts = kt__report_opts_of(8, argv);
    opts.path = path;
    assert_int_equal(kt__report_check(&opts, &err), KT_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    kt__report_begin(&r, &opts, hostile, "What came of it.");
    kt__report_plot(&r, &plot);
    kt__report_plot(&r, &plot);
    kt__report_table(&r, hostile, columns, 3);
    for (int i = 0; i < 3; i++) {
        kt__report_text(&r, hostile);
        kt__report_number(&r, i ? NAN : 12.5, 3);
        kt__report_cell(&r, "%d of %d", i, 3);
    }
    kt__report_table_end(&r);
    assert_int_equal(kt__report_finish(&r, "ref", &err), KT_OK);
    size_t len = read_whole(path, text, sizeof text);
    xml_check(text, len);
    static const char *const has[] = {
        "<html lang=\"en\">",
        "prefers-color-scheme:dark",
        "@media print",
        "<caption id=\"t1\">",
        "scope=\"row\"",
        "scope=\"col\"",
        "role=\"img\" aria-labelledby=\"p2t p2d\"",
        "--key KEY --key KEY &#39;it&#39;\\&#39;&#39;s&#39; &#39;&#39;",
        "<dt>Processor</dt>",
        "<dt>Date</dt>",
        "<dt>Revision</dt>",
        "<dd>ref</dd>",
        "default-src 'none'"};
    for (size_t i = 0; i < sizeof has / sizeof *has; i++)
        if (!strstr(text, has[i])) fail_msg("no %s", has[i]);
    static const char *const never[] = {"secret", "<script", "http://", "https://",
                                        "src=",   "url(",    "@import"};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (strstr(text, never[i])) fail_msg("%s in the page", never[i]);
}

static kt_status check_path(const char *path, kt_error *err) {
    char *argv[] = {"bench", NULL};
    kt__report_opts opts = kt__report_opts_of(1, argv);
    opts.path = path;
    *err = (kt_error){0};
    return kt__report_check(&opts, err);
}

static void test_what_cannot_be_written(void **state) {
    (void)state;
    kt_error err;
    char path[256];
    assert_int_equal(check_path(NULL, &err), KT_OK);
    assert_int_equal(check_path("", &err), KT_E_ARG);
    assert_int_equal(check_path("-", &err), KT_E_ARG);
    path_in("no-such-folder/r.html", path);
    assert_int_equal(check_path(path, &err), KT_E_IO);
    assert_non_null(strstr(err.where, "no-such-folder"));
    assert_int_equal(check_path(folder, &err), KT_E_IO);
    assert_non_null(strstr(err.message, "directory"));
    assert_int_equal(check_path("/dev/null", &err), KT_E_ARG); /* is not replaced by a file */
    path_in("r.html", path);
    assert_int_equal(check_path(path, &err), KT_OK);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* A write that fails leaves the file that was there, and nothing else. */
static void test_the_file_before_stays(void **state) {
    (void)state;
    char path[256], text[64], *argv[] = {"bench", NULL};
    kt_error err = {0};
    kt__buf bytes;
    kt__report_opts opts = kt__report_opts_of(1, argv);
    path_in("kept.html", path);
    opts.path = path;
    kt__buf_init(&bytes, 1 << 10);
    kt__buf_puts(&bytes, "first");
    assert_int_equal(kt__report_write(&opts, &bytes, &err), KT_OK);
    char temp[300];
    snprintf(temp, sizeof temp, "%s.%ld.tmp", path, (long)getpid());
    assert_int_equal(mkdir(temp, 0700), 0); /* its name for the new one is taken */
    kt__buf_puts(&bytes, " and second");
    assert_int_equal(kt__report_write(&opts, &bytes, &err), KT_E_IO);
    assert_int_equal(rmdir(temp), 0);
    (void)read_whole(path, text, sizeof text);
    assert_string_equal(text, "first");
    assert_int_equal(kt__report_write(&opts, &bytes, &err), KT_OK);
    (void)read_whole(path, text, sizeof text);
    assert_string_equal(text, "first and second");
    kt__buf_free(&bytes);
}

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/kentang-report-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_is_escaped),
        cmocka_unit_test(test_long_texts_are_cut),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_ticks_are_round),
        cmocka_unit_test(test_odd_figures),
        cmocka_unit_test(test_many_points_and_series),
        cmocka_unit_test(test_labels_do_not_meet),
        cmocka_unit_test(test_bars),
        cmocka_unit_test(test_a_page),
        cmocka_unit_test(test_what_cannot_be_written),
        cmocka_unit_test(test_the_file_before_stays),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
