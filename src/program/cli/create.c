/* kentang create: a model made of another one and settings, as a Modelfile says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "setup/made.h"
#include "setup/model_file.h"
#include "term/cli.h"
#include "term/options.h"

enum { MAX_PATH = 4096 };

typedef struct create_opts {
    const char *file;
} create_opts;

static const kt__opt table[] = {
    {.name = "file",
     .brief = "f",
     .kind = KT__OPT_TEXT,
     .at = offsetof(create_opts, file),
     .arg = "FILE",
     .help = "the Modelfile; - is standard input (default: Modelfile in this folder)"},
};

/* A path in a Modelfile begins where that lies. *out is NULL where there is no such file. */
static char *whole_path(const char *from, const char *path) {
    char joined[MAX_PATH];
    const char *slash = strrchr(from, '/');
    int dir = kt__files_is_absolute(path) || !slash ? 0 : (int)(slash - from) + 1;
    int n = snprintf(joined, sizeof joined, "%.*s%s", dir, from, path);
    char *real = n > 0 && n < MAX_PATH ? realpath(joined, NULL) : NULL;
    char *own = real ? kt__strdup(real) : NULL;
    free(real);
    return own;
}

/* FROM may be a file, and ADAPTER is one: both are kept with their whole paths. */
static kt_status make_whole(kt__modelfile *file, kt__modelfile_kind kind, const char *from,
                            kt_error *err) {
    size_t n = file->n;
    const char *word = kt__modelfile_word(kind);
    kt_status status = KT_OK;
    kt__modelfile_line *lines = file->lines;
    for (size_t i = 0; i < n && status == KT_OK; i++) {
        if (lines[i].kind != kind) continue;
        bool names_file = kind == KT__MODELFILE_ADAPTER || strchr("./~", lines[i].value[0]);
        char *whole = whole_path(from, lines[i].value);
        if (whole) {
            lines[i].value = kt__arena_strndup(&file->arena, whole, strlen(whole));
            if (!lines[i].value) status = kt__fail_nomem(err, "a path", strlen(whole));
        } else if (names_file) {
            status = kt__fail(err, KT_E_ARG, "line %d: %s: no file %.200s", lines[i].at, word,
                              lines[i].value);
        }
        kt__free(whole);
    }
    return status;
}

static kt_status read_modelfile(const char *path, kt__modelfile *file, kt_error *err) {
    char *text;
    size_t len;
    KT__STEP(kt__cli_read_file(path, KT__MODELFILE_MAX_BYTES, &text, &len, err));
    kt_status status = kt__modelfile_read(file, text, len, err);
    kt__free(text);
    if (status == KT_OK) status = make_whole(file, KT__MODELFILE_FROM, path, err);
    return status == KT_OK ? make_whole(file, KT__MODELFILE_ADAPTER, path, err) : status;
}

static int run_create(const create_opts *o, const char *name) {
    char own[512];
    kt__config *config = NULL;
    kt__modelfile file;
    kt__store store;
    kt_error err = {0};
    kt_status status;
    kt__modelfile_init(&file);
    KT__TRY(kt__model_name_config(&config, &err));
    store = kt__model_name_store(config);
    KT__TRY(kt__made_name(name, own, sizeof own, &err));
    KT__TRY(read_modelfile(o->file ? o->file : "Modelfile", &file, &err));
    status = kt__made_create(&store, config, own, &file, &err);
out:
    kt__modelfile_free(&file);
    kt__config_free(config);
    if (status == KT_OK) puts(own);
    return status == KT_OK ? 0 : kt__cli_fail("create", &err);
}

int kt__cmd_create(int argc, char **argv) {
    create_opts opts = {0};
    const kt__opt_group groups[] = {{"Options", table, KT__COUNT(table), &opts}};
    const kt__syntax syntax = {
        .command = "create",
        .usage = "[OPTIONS] NAME",
        .about =
            "Makes a model that has the weights of another one and settings of its own, and keeps it "
            "in\n"
            "the folder of models as NAME.modelfile. The Modelfile is Ollama's: FROM (a model that\n"
            "`kentang list` shows, a GGUF file, or demo), PARAMETER, TEMPLATE (a Go template), "
            "SYSTEM,\n"
            "ADAPTER, MESSAGE, LICENSE. `kentang serve -m NAME` answers as it says.",
        .groups = groups,
        .n_groups = 1,
        .min_words = 1,
        .max_words = 1,
        .word = "NAME",
        .notes = "Example:\n"
                 "  printf 'FROM qwen\\nSYSTEM Answer in one sentence.\\nPARAMETER temperature "
                 "0.2\\n' |\n"
                 "      kentang create brief -f -\n",
    };
    const char *word = NULL;
    size_t n_words = 0;
    int code = kt__cli_parse(&syntax, argc, argv, &word, &n_words);
    return code >= 0 ? code : run_create(&opts, word);
}
