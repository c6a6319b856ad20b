/* serve: the framer, TOML, configuration, keys and the guard, each alone. */
#include <fcntl.h>
#include <math.h>
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

#include "base/buf.h"
#include "heap_watch.h"
#include "services/access.h"
#include "setup/config.h"
#include "setup/toml.h"

/* ---- framer ---- */

/* Lines as "a|b|", dropped ones as "!", in pieces of `step` bytes. */
static void frame(const char *data, size_t len, size_t step, size_t max, char *out) {
    kt__framer f;
    kt__framer_init(&f, max);
    *out = '\0';
    for (size_t at = 0; at < len; at += step) {
        size_t n = len - at < step ? len - at : step, used;
        for (size_t i = 0; i < n; i += used) {
            const char *line;
            size_t line_len;
            kt__frame got = kt__framer_next(&f, data + at + i, n - i, &used, &line, &line_len);
            assert_true(used > 0);
            if (got == KT__FRAME_LINE) strncat(out, line, line_len), strcat(out, "|");
            if (got == KT__FRAME_TOO_LONG) strcat(out, "!");
        }
    }
    const char *line;
    size_t line_len;
    if (kt__framer_end(&f, &line, &line_len) == KT__FRAME_LINE)
        strncat(out, line, line_len), strcat(out, "$");
    kt__framer_free(&f);
}

static void test_frames(void **state) {
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"", ""},
        {"a\nb\n", "a|b|"},
        {"\n\n", "||"},
        {"a\r\n\rb\n", "a|\rb|"},
        {"tail", "tail$"},
        {"12345678\n1\n", "12345678|1|"},
        {"123456789\nok\n", "!ok|"},
        {"1234567890123456789012345\n\nok", "!|ok$"},
        {"12345678901234", "!"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t step = 1; step < 30; step++) {
            char out[256];
            frame(cases[i].in, strlen(cases[i].in), step, 8, out);
            assert_string_equal(out, cases[i].out);
        }
    }
}

/* ---- TOML ---- */

static kt__toml *toml(kt__arena *arena, const char *text, kt_error *err) {
    kt__toml *root = NULL;
    kt__arena_init(arena, 1024, 1 << 24);
    kt_status status = kt__toml_parse(text, strlen(text), "t", arena, &root, err);
    assert_true((status == KT_OK) == (root != NULL));
    return root;
}

static void test_toml_values(void **state) {
    (void)state;
    kt__arena arena;
    kt_error err;
    kt__toml *t = toml(&arena,
                       "a = 1_000 # c\nb = -0x0\n'q u' = \"x\\u00e9\\n\"\nlit = 'a\\b'\n"
                       "m = \"\"\"\nl1\nl2 \\\n   l3\"\"\"\nf = 6.5e-1\ninf = -inf\nt = true\n"
                       "[x.y]\nz = [1, [2,\n 3,], {k.l = 'v'}]\n[x]\nw = 0b101\n"
                       "[[p]]\nn = 1\n[[p]]\nn = 2\n[p.s]\nr = 3\n",
                       &err);
    assert_null(t); /* b: no sign before a base */
    kt__arena_free(&arena);
    t = toml(&arena,
             "a = 1_000 # c\nb = 0x1F\n'q u' = \"x\\u00e9\\n\"\nlit = 'a\\b'\n"
             "m = \"\"\"\nl1\nl2 \\\n   l3\"\"\"\nf = 6.5e-1\ninf = -inf\nt = true\n"
             "[x.y]\nz = [1, [2,\n 3,], {k.l = 'v'}]\n[x]\nw = 0b101\n"
             "[[p]]\nn = 1\n[[p]]\nn = 2\n[p.s]\nr = 3\n",
             &err);
    assert_non_null(t);
    assert_int_equal(kt__toml_get(t, "a")->whole, 1000);
    assert_int_equal(kt__toml_get(t, "b")->whole, 31);
    assert_string_equal(kt__toml_get(t, "q u")->text, "x\xc3\xa9\n");
    assert_string_equal(kt__toml_get(t, "lit")->text, "a\\b");
    assert_string_equal(kt__toml_get(t, "m")->text, "l1\nl2 l3");
    assert_true(kt__toml_get(t, "f")->real == 0.65);
    assert_true(isinf(kt__toml_get(t, "inf")->real));
    const kt__toml *x = kt__toml_get(t, "x"), *z = kt__toml_get(kt__toml_get(x, "y"), "z");
    assert_int_equal(z->n, 3);
    assert_int_equal(z->first->next->n, 2);
    assert_string_equal(kt__toml_get(kt__toml_get(z->last, "k"), "l")->text, "v");
    assert_int_equal(kt__toml_get(x, "w")->whole, 5);
    const kt__toml *p = kt__toml_get(t, "p");
    assert_int_equal(p->n, 2);
    assert_int_equal(kt__toml_get(kt__toml_get(p->last, "s"), "r")->whole, 3);
    kt__arena_free(&arena);
}

static void test_toml_refusals(void **state) {
    (void)state;
    static const char *const bad[] = {"a",
                                      "a =",
                                      "a = b",
                                      "= 1",
                                      "a = 1 b = 2",
                                      "a = 1\na = 2",
                                      "a = 01",
                                      "a = 1__0",
                                      "a = 1.",
                                      "a = .5",
                                      "a = 'x",
                                      "a = \"x\ny\"",
                                      "a = \"\\q\"",
                                      "a = \"\\ud800\"",
                                      "[a",
                                      "[a]\n[a]",
                                      "a = [1",
                                      "a = {b = 1,}",
                                      "a = {b = 1}\n[a]\nc = 2",
                                      "a.b = 1\n[a]",
                                      "[[a]]\n[a]",
                                      "a = 1979-05-27",
                                      "a = 07:32:00",
                                      "a = \x01",
                                      "a = \"\xff\"",
                                      "[a.b]\nx=1\n[a]\nb.y=2",
                                      "a = 9223372036854775808",
                                      "a = 0x",
                                      "a = +0x1",
                                      "a = \"a\\u0000b\"",
                                      "[]",
                                      "a = 1e",
                                      "\"\"\"k\"\"\" = 1",
                                      "a = [1 2]",
                                      "a=1\n[a]\n",
                                      "a=[]\n[[a]]\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kt__arena arena;
        kt_error err = {0};
        if (toml(&arena, bad[i], &err)) fail_msg("was taken: %s", bad[i]);
        assert_true(err.code == KT_E_FORMAT && !strncmp(err.message, "t:", 2));
        kt__arena_free(&arena);
    }
    char deep[400];
    memset(deep, '[', sizeof deep);
    memcpy(deep, "a=", 2);
    deep[399] = '\0';
    kt__arena arena;
    kt_error err;
    assert_null(toml(&arena, deep, &err));
    kt__arena_free(&arena);
}

/* ---- configuration ---- */

static kt__config *config(void) {
    kt__config *c;
    kt_error err;
    assert_int_equal(kt__config_create(&c, &err), KT_OK);
    return c;
}

static void test_config_precedence(void **state) {
    (void)state;
    kt__config *c = config();
    kt_error err;
    char path[] = "/tmp/kentang-env-XXXXXX";
    static const char env_file[] =
        "# c\nexport KENTANG_LIMITS_QUEUE=7\nDEFAULT_MAX_NEW_TOKENS='33'\n"
        "OTHER=x\nKENTANG_CTX = 512 \n";
    static const char text[] = "ctx = 256\ndefault_max_new_tokens = 5\n[limits]\nqueue = 3\n"
                               "body = \"2M\"\n[http]\nhosts = [\"a\", \"b\"]\n[socket]\n"
                               "mode = \"0660\"\n[[models]]\nname = \"x\"\npath = \"/m/x.gguf\"\n"
                               "[[models]]\npath = \"/m/big.gguf\"\n";
    char *environment[] = {(char *)(uintptr_t) "KENTANG_CTX=1024", (char *)(uintptr_t) "HOME=/",
                           (char *)(uintptr_t) "KENTANG_CTXX=1", NULL};
    int fd = mkstemp(path);
    assert_int_equal(write(fd, env_file, sizeof env_file - 1), sizeof env_file - 1);
    close(fd);
    assert_int_equal(kt__config_read_toml(c, text, sizeof text - 1, "f", &err), KT_OK);
    assert_int_equal(c->ctx, 256);
    assert_int_equal(c->queue, 3);
    assert_int_equal(c->max_body, 2 << 20);
    assert_int_equal(c->socket_mode, 0660);
    assert_int_equal(c->hosts.n, 2);
    assert_int_equal(kt__config_read_dotenv(c, path, NULL, &err), KT_OK);
    assert_int_equal(c->queue, 7);
    assert_int_equal(c->ctx, 512);
    assert_int_equal(c->default_max_new_tokens, 33);
    kt__buf strange;
    kt__buf_init(&strange, 4096);
    assert_int_equal(kt__config_read_environment(c, environment, &strange, &err), KT_OK);
    assert_int_equal(c->ctx, 1024);
    assert_non_null(strstr(strange.data, "KENTANG_CTXX"));
    assert_non_null(strstr(strange.data, "did you mean \"KENTANG_CTX\""));
    kt__buf_free(&strange);
    assert_int_equal(kt__config_set(c, "ctx", "2048", "--ctx", &err), KT_OK);
    assert_int_equal(c->ctx, 2048);
    assert_int_equal(kt__config_finish(c, &err), KT_OK);
    assert_int_equal(c->n_models, 2);
    assert_string_equal(c->models[1].name, "big");
    unlink(path);
    kt__config_free(c);
}

static void test_config_refusals(void **state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"ctxx = 1", "did you mean \"ctx\""},
        {"[http]\nlisten2 = 1", "did you mean \"http.listen\""},
        {"[nothing_like_it]\nqwertyuiop = 1", "unknown setting"},
        {"ctx = \"many\"", "expected a whole number"},
        {"ctx = -1", "f:1: ctx: expected a whole number from 0 to 16777216, got \"-1\""},
        {"[limits]\nbody = \"3Q\"", "bytes such as"},
        {"preload = 1", "expected true or false"},
        {"[http]\nhosts = [1]", "array of texts"},
        {"[[models]]\nfile = \"x\"", "unknown setting \"file\""},
        {"models = 3", "[[models]]"},
        {"[socket]\nmode = \"9\"", "0600"},
        {"[socket]\nmode = \"1777\"", "from 0000 to 0777"},
        {"[limits]\nqueue = 0",
         "f:2: limits.queue: expected a whole number from 1 to 1048576, got"},
        {"[limits]\nbody = 1", "limits.body: expected a number of bytes from 1024 to 67108864"},
        {"[cache]\ndir = \"~ana/c\"", "another user's ~"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__config *c = config();
        kt_error err = {0};
        kt_status status = kt__config_read_toml(c, cases[i].text, strlen(cases[i].text), "f", &err);
        if (status == KT_OK || !strstr(err.message, cases[i].says))
            fail_msg("%s: %s", cases[i].text, err.message);
        kt__config_free(c);
    }
    kt__config *c = config();
    kt_error err;
    assert_int_equal(kt__config_set(c, "log.format", "xml", "t", &err), KT_OK);
    assert_int_equal(kt__config_finish(c, &err), KT_E_ARG);
    kt__config_free(c);
}

/* Options and the environment may write texts and lists as the file does. */
static void test_config_values_as_in_the_file(void **state) {
    (void)state;
    kt__config *c = config();
    kt_error err;
    assert_int_equal(kt__config_set(c, "http.hosts", "[\"a.lan\", 'b']", "t", &err), KT_OK);
    assert_int_equal(c->hosts.n, 2);
    assert_string_equal(c->hosts.items[0], "a.lan");
    assert_string_equal(c->hosts.items[1], "b");
    assert_int_equal(kt__config_set(c, "http.hosts", "\"a.lan\"", "t", &err), KT_OK);
    assert_int_equal(c->hosts.n, 1);
    assert_string_equal(c->hosts.items[0], "a.lan");
    assert_int_equal(kt__config_set(c, "cache.dir", "\"/x\"", "t", &err), KT_OK);
    assert_string_equal(c->cache_dir, "/x");
    assert_int_equal(kt__config_set(c, "mem", "'3G'", "t", &err), KT_OK);
    assert_int_equal(c->mem, (uint64_t)3 << 30);
    assert_int_equal(kt__config_set(c, "http.listen", "[::1]:8000", "t", &err), KT_OK);
    assert_string_equal(c->listen, "[::1]:8000");
    static const char *const bad[] = {"[\"a\"", "\"a\", \"b\"", "[1]", "\"a\"\nx = 1", "["};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err.message[0] = '\0';
        if (kt__config_set(c, "http.hosts", bad[i], "t", &err) == KT_OK || !err.message[0])
            fail_msg("taken: %s", bad[i]);
    }
    kt__config_free(c);
}

static void test_config_home(void **state) {
    (void)state;
    kt__config *c = config();
    kt_error err;
    static const char text[] =
        "[cache]\ndir = \"~/c\"\n[[models]]\nname = \"~\"\npath = \"~/m.gguf\"";
    setenv("HOME", "/home/ana", 1);
    assert_int_equal(kt__config_read_toml(c, text, sizeof text - 1, "f", &err), KT_OK);
    assert_string_equal(c->cache_dir, "/home/ana/c");
    assert_string_equal(c->models[0].path, "/home/ana/m.gguf");
    assert_string_equal(c->models[0].name, "~");
    assert_int_equal(kt__config_set(c, "socket.path", "~", "t", &err), KT_OK);
    assert_string_equal(c->socket, "/home/ana");
    assert_int_equal(kt__config_set(c, "http.keys", "./~", "t", &err), KT_OK);
    assert_string_equal(c->keys, "./~");
    assert_int_equal(kt__config_set(c, "http.listen", "unix:~/h.sock", "t", &err), KT_OK);
    assert_int_equal(kt__config_finish(c, &err), KT_OK);
    assert_string_equal(c->listen, "unix:/home/ana/h.sock");
    unsetenv("HOME");
    assert_int_equal(kt__config_set(c, "cache.dir", "~/c", "t", &err), KT_E_ARG);
    assert_non_null(strstr(err.message, "HOME is not set"));
    kt__config_free(c);
}

static void test_config_host_names(void **state) {
    (void)state;
    static const struct {
        const char *host;
        bool good;
    } cases[] = {{"box.lan", true}, {"10.0.0.5", true},     {"fe80::1", true},
                 {"*", true},       {"a_b-c", true},        {"https://a/", false},
                 {"a:8000", false}, {"'[::1]'", false},     {"*.lan", false},
                 {"a b", false},    {"b\xc3\xbc.de", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kt__config *c = config();
        kt_error err;
        assert_int_equal(kt__config_set(c, "http.hosts", cases[i].host, "t", &err), KT_OK);
        kt_status status = kt__config_finish(c, &err);
        if ((status == KT_OK) != cases[i].good) fail_msg("%s", cases[i].host);
        if (status != KT_OK) assert_non_null(strstr(err.message, "without scheme"));
        kt__config_free(c);
    }
}

/* ---- files that must not stop a start or a reload ---- */

static void write_file(const char *path, const void *bytes, size_t n) {
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, n, out), n);
    fclose(out);
    chmod(path, 0600);
}

static void expect_unread(const char *path, const char *says) {
    kt__config *c = config();
    kt__keys *keys;
    kt_error err;
    if (kt__config_read_file(c, path, &err) == KT_OK || !strstr(err.message, says))
        fail_msg("%s as configuration: %s", path, err.message);
    if (kt__config_read_dotenv(c, path, NULL, &err) == KT_OK || !strstr(err.message, says))
        fail_msg("%s as .env: %s", path, err.message);
    if (kt__keys_read(path, NULL, KT__KEY_LEAST, &keys, &err) == KT_OK ||
        !strstr(err.message, says))
        fail_msg("%s as keys: %s", path, err.message);
    kt__config_free(c);
}

static void test_files_that_are_none(void **state) {
    (void)state;
    char path[] = "/tmp/kentang-file-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    alarm(20); /* instead of waiting for ever */
    expect_unread("/dev/zero", "it is a device");
    expect_unread("/tmp", "it is a directory");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_unread(path, "it is a pipe");
    alarm(0);
    unlink(path);
    assert_int_equal(truncate((write_file(path, "", 0), path), 1 << 26), 0);
    expect_unread(path, "too long");
    write_file(path,
               "\xff\xfe"
               "a\0=\0",
               6);
    expect_unread(path, "UTF-16");
    write_file(path, "ctx = 3\n\0x", 10);
    expect_unread(path, "NUL");
    unlink(path);
    expect_unread(path, "cannot read");
}

static void test_byte_order_mark(void **state) {
    (void)state;
    static const char toml_text[] = "\xef\xbb\xbf"
                                    "ctx = 300\n";
    static const char env_text[] = "\xef\xbb\xbfKENTANG_CTX=400\n";
    static const char key_text[] = "\xef\xbb\xbf"
                                   "ana:0123456789abcdef\n";
    char path[] = "/tmp/kentang-file-XXXXXX";
    kt__config *c = config();
    kt__keys *keys;
    kt_error err;
    close(mkstemp(path));
    write_file(path, toml_text, sizeof toml_text - 1);
    assert_int_equal(kt__config_read_file(c, path, &err), KT_OK);
    assert_int_equal(c->ctx, 300);
    write_file(path, env_text, sizeof env_text - 1);
    assert_int_equal(kt__config_read_dotenv(c, path, NULL, &err), KT_OK);
    assert_int_equal(c->ctx, 400);
    write_file(path, key_text, sizeof key_text - 1);
    assert_int_equal(kt__keys_read(path, NULL, KT__KEY_LEAST, &keys, &err), KT_OK);
    assert_string_equal(kt__keys_find(keys, "0123456789abcdef", 16), "ana");
    kt__keys_free(keys);
    kt__config_free(c);
    unlink(path);
}

/* What --check prints says the same when it is read. */
static void test_config_round_trip(void **state) {
    (void)state;
    kt__config *a = config(), *b = config();
    kt_error err;
    kt__buf first, second;
    kt__buf_init(&first, 1 << 20);
    kt__buf_init(&second, 1 << 20);
    assert_int_equal(kt__config_set(a, "http.hosts", "x, y.z", "t", &err), KT_OK);
    assert_int_equal(kt__config_set(a, "limits.body", "1M", "t", &err), KT_OK);
    assert_int_equal(kt__config_set(a, "alias", "y\"z", "t", &err), KT_OK);
    assert_int_equal(kt__config_set_model(a, "/m/a.gguf", &err), KT_OK);
    assert_int_equal(kt__config_finish(a, &err), KT_OK);
    kt__config_print(a, &first);
    if (kt__config_read_toml(b, first.data, first.len, "f", &err) != KT_OK)
        fail_msg("%s", err.message);
    assert_int_equal(kt__config_finish(b, &err), KT_OK);
    kt__config_print(b, &second);
    assert_string_equal(first.data, second.data);
    kt__buf_free(&first);
    kt__buf_free(&second);
    kt__config_free(a);
    kt__config_free(b);
}

/* Every row of settings.def is printed, under its table. */
static void test_every_setting_is_printed(void **state) {
    (void)state;
    kt__config *c = config();
    kt__buf text;
    size_t n;
    const kt__setting *settings = kt__config_settings(&n);
    kt__buf_init(&text, 1 << 20);
    kt__config_print(c, &text);
    for (size_t i = 0; i < n; i++) {
        const char *dot = strchr(settings[i].key, '.'), *from = text.data;
        char table[64], line[64], absent[64];
        snprintf(table, sizeof table, "\n[%.*s]\n", dot ? (int)(dot - settings[i].key) : 0,
                 settings[i].key);
        snprintf(line, sizeof line, "\n%s = ", dot ? dot + 1 : settings[i].key);
        snprintf(absent, sizeof absent, "\n# %s = ", settings[i].key);
        if (dot) from = strstr(text.data, table);
        if (!from || !(strstr(from, line) || strstr(from, absent)))
            fail_msg("%s is not printed", settings[i].key);
    }
    kt__buf_free(&text);
    kt__config_free(c);
}

/* The example in the repository names only settings that there are. */
static void test_config_example(void **state) {
    (void)state;
    kt__config *c = config();
    kt_error err;
    if (kt__config_read_file(c, KT_SOURCE_DIR "/examples/kentang.toml", &err) != KT_OK)
        fail_msg("%s", err.message);
    kt__config_free(c);
}

#if HEAP_WATCHED
static void test_failing_allocations(void **state) {
    (void)state;
    static const char text[] = "ctx = 9\n[http]\nhosts = ['a']\n[[models]]\npath = \"p\"\n";
    for (long n = 1;; n++) {
        kt_error err;
        kt__config *c = NULL;
        heap_begin(n, n);
        kt_status status = kt__config_create(&c, &err);
        if (status == KT_OK) status = kt__config_read_toml(c, text, sizeof text - 1, "f", &err);
        if (status == KT_OK) status = kt__config_finish(c, &err);
        bool failed = heap.n_failed > 0;
        kt__config_free(c);
        heap_end();
        assert_int_equal(heap.n_live, 0);
        heap_sweep();
        if (!failed) break;
        assert_int_equal(status, KT_E_NOMEM);
    }
}
#endif

/* ---- keys and the guard ---- */

static kt_status read_keys(const char *text, mode_t mode, kt__keys **keys, kt_error *err) {
    char path[] = "/tmp/kentang-keys-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    fchmod(fd, mode);
    close(fd);
    kt_status status = kt__keys_read(path, NULL, KT__KEY_LEAST, keys, err);
    unlink(path);
    return status;
}

static void test_keys(void **state) {
    (void)state;
    kt__keys *keys;
    kt_error err;
    assert_int_equal(
        read_keys("# c\nana:0123456789abcdef\n\n  fedcba9876543210  \n", 0600, &keys, &err), KT_OK);
    assert_string_equal(kt__keys_find(keys, "0123456789abcdef", 16), "ana");
    assert_string_equal(kt__keys_find(keys, "fedcba9876543210", 16), "key-4");
    assert_null(kt__keys_find(keys, "0123456789abcdeg", 16));
    assert_null(kt__keys_find(keys, "0123456789abcdef0", 17));
    assert_null(kt__keys_find(keys, "0123456789abcde", 15));
    assert_null(kt__keys_find(keys, "", 0));
    assert_string_equal(kt__access_key(keys, "Bearer 0123456789abcdef", NULL), "ana");
    assert_string_equal(kt__access_key(keys, NULL, "0123456789abcdef"), "ana");
    assert_null(kt__access_key(keys, "Basic 0123456789abcdef", NULL));
    assert_null(kt__access_key(keys, NULL, NULL));
    char longer[400];
    memset(longer, 'x', sizeof longer);
    assert_null(kt__keys_find(keys, longer, sizeof longer));
    kt__keys_free(keys);
    assert_int_equal(read_keys("a:0123456789abcdef\n", 0644, &keys, &err), KT_E_ARG);
    assert_int_equal(read_keys("a:short\n", 0600, &keys, &err), KT_E_FORMAT);
    assert_int_equal(read_keys("# none\n", 0600, &keys, &err), KT_E_FORMAT);
    assert_int_equal(kt__keys_read("/nowhere/keys", NULL, KT__KEY_LEAST, &keys, &err), KT_E_IO);
}

static void test_hosts(void **state) {
    (void)state;
    static const struct {
        const char *host;
        bool good;
    } cases[] = {
        {"localhost", true},
        {"LOCALHOST:80", true},
        {"127.0.0.1:8000", true},
        {"[::1]:8000", true},
        {"10.0.0.5:8000", true},
        {"box.lan", true},
        {"evil.example", false},
        {"localhost.evil", false},
        {"localhost:8000x", false},
        {"localhost:", false},
        {"", false},
        {"[::1", false},
        {"127.0.0.1.nip.io", false},
        {"a@localhost", false},
    };
    kt__config *c = config();
    kt_error err;
    assert_int_equal(kt__config_set(c, "http.hosts", "box.lan", "t", &err), KT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (kt__access_host(c, "10.0.0.5", cases[i].host) != cases[i].good)
            fail_msg("%s", cases[i].host);
    }
    assert_false(kt__access_host(c, NULL, NULL));
    assert_true(kt__access_origin(c, NULL, "http://localhost:3000"));
    assert_false(kt__access_origin(c, NULL, "http://evil.example"));
    assert_false(kt__access_origin(c, NULL, "null"));
    assert_true(kt__access_is_json("application/json"));
    assert_true(kt__access_is_json("Application/JSON ; charset=utf-8"));
    assert_false(kt__access_is_json("text/plain"));
    assert_false(kt__access_is_json("application/jsonp"));
    assert_false(kt__access_is_json(NULL));
    kt__config_free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_toml_values),
        cmocka_unit_test(test_toml_refusals),
        cmocka_unit_test(test_config_precedence),
        cmocka_unit_test(test_config_refusals),
        cmocka_unit_test(test_config_values_as_in_the_file),
        cmocka_unit_test(test_config_home),
        cmocka_unit_test(test_config_host_names),
        cmocka_unit_test(test_files_that_are_none),
        cmocka_unit_test(test_byte_order_mark),
        cmocka_unit_test(test_config_round_trip),
        cmocka_unit_test(test_every_setting_is_printed),
        cmocka_unit_test(test_config_example),
#if HEAP_WATCHED
        cmocka_unit_test(test_failing_allocations),
#endif
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
