/* cli: the conversation on a terminal: typing, pasting, stopping, the screen and a full context. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "cli_process.h"
#include "cli_pty.h"

#define SLOW "--exact --isa ref -t 1 --ignore-eos"
#define PASTED(text) "\033[200~" text "\033[201~"

static char folder[] = "/tmp/kentang-chat-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    char command[64];
    (void)state;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static const char *in_folder(const char *name) {
    static char path[4][128];
    static int at;
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/%s", folder, name);
    return path[at];
}

static void put_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* The messages after /save. */
static json_t *saved_messages(pty *p) {
    char line[200];
    const char *path = in_folder("saved.json");
    snprintf(line, sizeof line, "/save %s\r", path);
    pty_type(p, line);
    pty_expect(p, "messages are in");
    json_t *saved = json_load_file(path, 0, NULL);
    assert_non_null(saved);
    return saved;
}

static const char *content_of(const json_t *messages, size_t i) {
    const char *text = json_string_value(json_object_get(json_array_get(messages, i), "content"));
    return text ? text : "";
}

static void quit(pty *p) {
    pty_expect(p, "> ");
    pty_type(p, "/quit\r");
    assert_int_equal(pty_end(p), 0);
    pty_free(p);
}

/* Types an entry and waits until it is answered. */
static void ask(pty *p, const char *entry) {
    pty_type(p, entry);
    pty_expect(p, "tokens of the context");
    pty_expect(p, "> ");
}

static void test_characters_are_kept_without_a_locale(void **state) {
    (void)state;
    static const char *const environments[] = {"", "LANG=C", "LC_ALL=POSIX"};
    for (size_t i = 0; i < 3; i++) {
        pty p = pty_start(environments[i], "run --temp 0 -n 4");
        pty_expect(&p, "> ");
        ask(&p, "café 日本\r");
        json_t *saved = saved_messages(&p);
        assert_string_equal(content_of(saved, 0), "café 日本");
        json_decref(saved);
        quit(&p);
    }
}

static void test_a_pasted_text_is_one_message(void **state) {
    (void)state;
    char many[4000] = "", expected[4000] = "";
    for (int i = 0; i < 100; i++) {
        sprintf(many + strlen(many), "line %d\r", i);
        sprintf(expected + strlen(expected), i ? "\nline %d" : "line %d", i);
    }
    pty p = pty_start("", "run --temp 0 -n 4");
    pty_expect(&p, "\033[?2004h");
    pty_expect(&p, "> ");
    ask(&p, PASTED("one\r\n\r\n  two\x1b[31m\x07\r") "\r");
    pty_type(&p, "look: \033[200~");
    pty_type(&p, many);
    pty_type(&p, "\033[201~");
    pty_expect(&p, "[pasted text 1: 100 lines]");
    ask(&p, "\r");
    json_t *saved = saved_messages(&p);
    assert_int_equal(json_array_size(saved), 4);
    assert_string_equal(content_of(saved, 0), "one\n\n  two[31m");
    assert_memory_equal(content_of(saved, 2), "look: ", 6);
    assert_string_equal(content_of(saved, 2) + 6, expected);
    json_decref(saved);
    quit(&p);
}

static void test_blocks_in_quotes(void **state) {
    (void)state;
    char input[300];
    const char *path = in_folder("block.json");
    snprintf(input, sizeof input,
             "\"\"\"first\n\n/clear\n\"\"\"\n\"\"\"alone\"\"\"\n/usr/bin/x is what?\n/save %s\n",
             path);
    process p = cli_run("run -i --temp 0 -n 4 -q", input);
    json_t *saved = json_load_file(path, 0, NULL);
    assert_int_equal(json_array_size(saved), 6);
    assert_string_equal(content_of(saved, 0), "first\n\n/clear\n");
    assert_string_equal(content_of(saved, 2), "alone");
    assert_string_equal(content_of(saved, 4), "/usr/bin/x is what?");
    json_decref(saved);
    cli_free(&p);
}

static void test_typing_meanwhile_is_kept_and_not_shown(void **state) {
    (void)state;
    pty p = pty_start("", "run --temp 0 " SLOW);
    pty_expect(&p, "> ");
    pty_type(&p, "Tell me a story.\r");
    pty_expect(&p, "\n");
    while (p.len < p.looked + 20) (void)pty_read(&p, 100); /* some of the answer */
    pty_type(&p, "XYZZY");
    for (int i = 0; i < 5; i++) (void)pty_read(&p, 100);
    assert_null(strstr(p.seen + p.looked, "XYZZY"));
    pty_type(&p, "\003");
    pty_expect(&p, "(stopped)");
    pty_expect(&p, "XYZZY");                              /* at the prompt now */
    for (int i = 0; i < 10; i++) (void)pty_read(&p, 100); /* until the prompt reads keys */
    pty_type(&p, "\003");
    pty_expect(&p, "once more");
    quit(&p);
}

static void test_ctrl_z_and_back(void **state) {
    (void)state;
    int status = 0;
    pty p = pty_start("", "run --temp 0");
    pty_expect(&p, "> ");
    pty_type(&p, "half a qu");
    pty_expect(&p, "qu");
    pty_type(&p, "\032");
    pty_expect(&p, "\033[?2004l");
    assert_int_equal(waitpid(p.pid, &status, WUNTRACED), p.pid);
    assert_true(WIFSTOPPED(status));
    kill(p.pid, SIGCONT);
    pty_expect(&p, "\033[?2004h");
    pty_expect(&p, "> half a qu");
    pty_type(&p, "\003");
    pty_expect(&p, "once more");
    quit(&p);
}

static void test_another_size_is_drawn(void **state) {
    (void)state;
    struct winsize size = {.ws_row = 24, .ws_col = 40};
    pty p = pty_start("", "run --temp 0");
    pty_expect(&p, "> ");
    pty_type(&p, "0123456789012345678901234567890123456789012345678901234567 end");
    pty_expect(&p, " end");
    ioctl(p.fd, TIOCSWINSZ, &size);
    pty_expect(&p, "\033[1A\r\033[J> 01234567890123456789012345678901234567"); /* 40 cells */
    pty_type(&p, "\003");
    pty_expect(&p, "once more");
    quit(&p);
}

static void test_a_full_context_goes_on(void **state) {
    (void)state;
    pty p = pty_start("", "run --temp 0 -c 160 -n 40");
    pty_expect(&p, "> ");
    bool asked = false;
    for (int i = 0; i < 12 && !asked; i++) {
        pty_type(&p, "Tell me a story about a cat and a dog.\r");
        while (!strstr(p.seen + p.looked, "tokens of the context") &&
               !(asked = strstr(p.seen + p.looked, "Forget the ") != NULL))
            (void)pty_read(&p, 100);
        if (!asked) pty_expect(&p, "tokens of the context");
    }
    assert_true(asked);
    assert_non_null(strstr(p.seen, "of 160 tokens of the context: nearly full"));
    pty_expect(&p, "[Y/n] ");
    pty_type(&p, "\r");
    pty_expect(&p, "tokens of the context");
    pty_expect(&p, "> ");
    json_t *saved = saved_messages(&p);
    assert_string_equal(content_of(saved, json_array_size(saved) - 2),
                        "Tell me a story about a cat and a dog.");
    json_decref(saved);
    quit(&p);
    process piped = cli_run("run -i --temp 0 -c 64 -n 40 -q",
                            "Tell me a story about a cat and a dog.\n"
                            "Tell me a story about a cat and a dog.\n/drop\n");
    assert_non_null(strstr(piped.err, "/drop forgets the oldest exchange"));
    cli_free(&piped);
}

static void test_progress_of_a_long_prompt(void **state) {
    (void)state;
    char arguments[300], text[401];
    const char *path = in_folder("long.txt");
    for (int i = 0; i < 200; i++) memcpy(text + 2 * i, i % 5 ? "a " : "b\n", 2);
    text[400] = '\0';
    put_file(path, text);
    snprintf(arguments, sizeof arguments, "run -f %s -c 8192 -n 3 -ub 16 --exact --isa ref -t 1",
             path);
    pty p = pty_start("", arguments);
    pty_expect(&p, "kentang: prompt ");
    pty_expect(&p, " tok/s, ");
    pty_expect(&p, " s left");
    pty_expect(&p, "\r\033[K");
    assert_int_equal(pty_end(&p), 0);
    pty_free(&p);
}

static void test_history_is_kept(void **state) {
    (void)state;
    char environment[200];
    struct stat info;
    snprintf(environment, sizeof environment, "XDG_STATE_HOME=%s", folder);
    for (int round = 0; round < 2; round++) {
        pty p = pty_start(environment, "run --temp 0 -n 4");
        pty_expect(&p, "> ");
        if (round) {
            pty_type(&p, "\033[A\033[A"); /* past /quit */
            pty_expect(&p, "Who are you");
            pty_type(&p, "\r");
            pty_expect(&p, "tokens of the context");
        } else {
            ask(&p, "Who are you, kentang?\r");
            pty_type(&p, " \b");
        }
        quit(&p);
    }
    assert_int_equal(stat(in_folder("kentang/history"), &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    put_file(in_folder("kentang/history"), "no JSON\n[1]\n\"\\u001b[2J\"\n\n\"half");
    pty p = pty_start(environment, "run --temp 0 -n 4");
    quit(&p);
}

static void test_tab_completes_commands(void **state) {
    (void)state;
    pty p = pty_start("", "run --temp 0");
    pty_expect(&p, "> ");
    pty_type(&p, "/he\t\r");
    pty_expect(&p, "this list");
    pty_expect(&p, "> ");
    pty_type(&p, "/s\t");
    pty_expect(&p, "/system  /set");
    pty_type(&p, "t\t\r");
    quit(&p);
}

static void test_files_and_settings(void **state) {
    (void)state;
    char input[1000];
    put_file(in_folder("notes.txt"), "the notes");
    put_file(in_folder("latin.txt"), "ok\ncaf\xe9\n");
    put_file(in_folder("bad.json"), "[{\"role\": \"wizard\", \"content\": \"x\"}]");
    snprintf(input, sizeof input,
             "/read %s\nWhat is this?\n/save %s\n/clear\n/load %s\n/load %s\n/stats\n/save %s\n"
             "/read %s\n/set temp 0.5\n/set top_k nine\n/set nothing\n/set\n/image cat.png\n/sav\n"
             "/retry\n/bye\n",
             in_folder("notes.txt"), in_folder("a.json"), in_folder("a.json"), "/nowhere.json", "x",
             in_folder("latin.txt"));
    /* in_folder keeps four names, so the rest is put in by hand */
    char again[1600];
    snprintf(again, sizeof again, "/load %s/bad.json\n/load %s/a.json\n/save %s/b.json\n%s", folder,
             folder, folder, input);
    process p = cli_run("run -i --temp 0 -n 6 --seed 3", again);
    assert_int_equal(p.code, 0);
    static const char *const says[] = {"message 0 needs \"role\"",
                                       "goes before your next message",
                                       "2 messages are loaded",
                                       "nowhere.json",
                                       "not UTF-8: byte 0xe9 in line 2",
                                       "iconv -f LATIN1",
                                       "byte 6",
                                       "temp                 0.5",
                                       "top-k: expected",
                                       "no setting nothing",
                                       "run --image FILE",
                                       "did you mean /save?"};
    for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
        if (!strstr(p.err, says[i])) fail_msg("does not say \"%s\":\n%s", says[i], p.err);
    }
    cli_free(&p);
    json_t *a = json_load_file(in_folder("a.json"), 0, NULL);
    assert_string_equal(content_of(a, 0), "the notes\n\nWhat is this?");
    json_decref(a);
    unlink("x");
}

/* The terminal's bytes with each run of blanks and newlines as one blank, without colours. */
static void flatten(char *text) {
    char *to = text;
    for (const char *s = text; *s; s++) {
        bool blank = *s == ' ' || *s == '\r' || *s == '\n';
        if (!blank || (to > text && to[-1] != ' ')) *to++ = blank ? ' ' : *s;
    }
    while (to > text && to[-1] == ' ') to--;
    *to = '\0';
}

static void test_rendered_on_a_terminal_only(void **state) {
    (void)state;
    static const char arguments[] = "run -p 'xyzzy plugh' --temp 0 -q";
    process piped = cli_run(arguments, NULL);
    assert_true(piped.out_len > 80);
    assert_null(strchr(piped.out, '\n')); /* one line, which the terminal gets wrapped at words */
    static const char *const environments[] = {"NO_COLOR=1", "TERM=xterm", "TERM=dumb"};
    for (size_t i = 0; i < 3; i++) {
        pty p = pty_start(environments[i], arguments);
        assert_int_equal(pty_end(&p), 0);
        const char *first_end = strchr(p.seen, '\r');
        assert_non_null(first_end);
        if (i < 2) assert_in_range(first_end - p.seen, 60, 80);
        if (i == 2) assert_true(first_end - p.seen > 80);
        flatten(p.seen);
        assert_string_equal(p.seen, piped.out);
        pty_free(&p);
    }
    cli_free(&piped);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_characters_are_kept_without_a_locale),
        cmocka_unit_test(test_a_pasted_text_is_one_message),
        cmocka_unit_test(test_blocks_in_quotes),
        cmocka_unit_test(test_typing_meanwhile_is_kept_and_not_shown),
        cmocka_unit_test(test_ctrl_z_and_back),
        cmocka_unit_test(test_another_size_is_drawn),
        cmocka_unit_test(test_a_full_context_goes_on),
        cmocka_unit_test(test_progress_of_a_long_prompt),
        cmocka_unit_test(test_history_is_kept),
        cmocka_unit_test(test_tab_completes_commands),
        cmocka_unit_test(test_files_and_settings),
        cmocka_unit_test(test_rendered_on_a_terminal_only),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
