/* cli: each kind of error with what it advises: the remedy belongs to the cause, and there is none where
 * the message itself says what to do. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "cli_process.h"

static char dir[256];

static void write_file(const char *name, const char *bytes, size_t n) {
    char path[400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static int make_folder(void **state) {
    (void)state;
    static char head[5000];
    snprintf(dir, sizeof dir, "%s/errors-%d", KT_BINARY_DIR, (int)getpid());
    assert_int_equal(mkdir(dir, 0700), 0);
    FILE *demo = fopen(KT_SOURCE_DIR "/src/lib/context/demo.gguf", "rb");
    assert_non_null(demo);
    assert_int_equal(fread(head, 1, sizeof head, demo), sizeof head);
    fclose(demo);
    write_file("cut.gguf", head, sizeof head);
    memset(head, 'x', sizeof head);
    write_file("noise.gguf", head, sizeof head);
    write_file("picture.png", "\x89PNG\r\n\x1a\n\0\0\xff\xfe", 12);
    write_file("keys", "abcdefghijklmnopqrst\n", 21);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    static const char *const names[] = {"cut.gguf", "noise.gguf", "picture.png", "keys"};
    char path[400];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    return rmdir(dir);
}

typedef struct mistake {
    const char *arguments; /* DIR: the folder */
    int code;
    const char *says, *remedy; /* "": none */
} mistake;

#define USAGE(command) "see `kentang " command "--help`"

static const mistake mistakes[] = {
    /* words and options */
    {"frobnicate", 2, "unknown command", USAGE("")},
    {"rum", 2, "did you mean \"run\"?", USAGE("")},
    {"run --modle x", 2, "did you mean --model?", USAGE("run ")},
    {"run --bogus", 2, "unknown option --bogus\n", USAGE("run ")},
    {"run --verbose-promts -p x", 2, "unknown option --verbose-promts\n", USAGE("run ")},
    {"run --simple-oi -p x", 2, "unknown option --simple-oi\n", USAGE("run ")},
    {"run --max-tokens 3 -p x", 2, "here it is -n N", USAGE("run ")},
    {"run -p", 2, "option -p needs a value", USAGE("run ")},
    {"run --keep", 2, "option --keep needs a value", USAGE("run ")},
    {"run -p x --temp -1", 2, "from 0 to", USAGE("run ")},
    {"run -p x --isa avx9000", 2, "avx9000", ""},
    {"serve a b", 2, "the model is named already", USAGE("serve ")},
    {"serve --listen 127.0.0.1:1 --port 2 --check --no-config --no-env", 2, "either --listen or",
     ""},
    {"serve --api-key short --host 0.0.0.0 --check --no-config --no-env", 5, "16 to 256 characters",
     "correct the input at the place named"},
    /* files that are not there, or not what they should be */
    {"run -m /no/such/model.gguf -p x", 4, "cannot open", "check the spelling"},
    {"run -m DIR/cut.gguf/x -p x", 4, "Not a directory", "a part of the path is a file"},
    {"run -m DIR -p x", 4, "the folder is no model", ""},
    {"run -f /no/such/prompt", 4, "cannot open", "check the spelling"},
    {"run -f DIR", 4, "directory", "name a file, not a folder"},
    {"run -m DIR/cut.gguf -p x", 5, "cut.gguf", "fetch or make it again"},
    {"run -m DIR/noise.gguf -p x", 5, "noise.gguf", "fetch or make it again"},
    {"run -f DIR/picture.png", 5, "picture.png", "correct the input"},
    {"run -m nosuchmodel -p x", 2, "`kentang pull`", ""},
    {"serve --keys DIR/keys --check --no-config --no-env", 2, "chmod 600", ""},
    {"serve --config /no/such.toml --check", 4, "/no/such.toml", "check the spelling"},
    /* forms */
    {"run -p x -n 2 --regex '('", 5, "(--regex)", "correct the input"},
    {"run -p x -n 2 --json-schema '{\"type\":\"nothing\"}'", 5, "--json-schema",
     "correct the input"},
    {"run -p x -n 2 --grammar 'root ::= (\"a\"'", 5, "--grammar", "correct the input"},
    {"run -p x -n 2 --json-schema /no/such.json", 4, "cannot open", "check the spelling"},
    {"run -p x --regex a --choice b", 2, "give one of", ""},
    /* memory, size, network */
    {"run -p x --mem 20M", 3, "give more (--mem)", ""},
    {"run -c 8 -p 'a prompt that does not fit into eight positions at all'", 10,
     "exceeds the available context size of 8", "raise the context (-c) or shorten the prompt"},
    {"pull --hub http://127.0.0.1:9 owner/model", 4, "the connection failed", ""},
    {"run -p '' ", 2, "the prompt is empty", ""},
};

/* arguments with the folder in the place of DIR */
static void with_folder(const char *arguments, char *out, size_t size) {
    size_t len = 0;
    for (const char *s = arguments; *s && len + sizeof dir < size;) {
        bool here = !strncmp(s, "DIR", 3);
        len += (size_t)snprintf(out + len, size - len, "%s%.*s", here ? dir : "", here ? 0 : 1, s);
        s += here ? 3 : 1;
    }
}

static void test_remedies(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        const mistake *m = &mistakes[i];
        char arguments[1024];
        with_folder(m->arguments, arguments, sizeof arguments);
        process p = cli_run(arguments, "");
        const char *remedy = strstr(p.err, "  remedy: ");
        bool right = *m->remedy ? remedy && strstr(remedy, m->remedy) : !remedy;
        if (p.code != m->code || !strstr(p.err, m->says) || !right)
            fail_msg("kentang %s: exit %d, and not %d with \"%s\" and the remedy \"%s\":\n%s",
                     arguments, p.code, m->code, m->says, m->remedy, p.err);
        cli_free(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_remedies)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
