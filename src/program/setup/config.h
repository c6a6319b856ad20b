/* The server's configuration.
 *
 * Owns: the list of settings (settings.def), reading them from a TOML file, a .env file, the
 * environment and the command line, in this order, the last wins; the checks of what they say
 * together; and printing the result. Opens no model and no socket. One thread; a configuration is
 * constant once read. */
#ifndef KT_SETUP_CONFIG_H
#define KT_SETUP_CONFIG_H

#include <kentang.h>

#include "base/alloc.h"
#include "base/buf.h"

typedef enum kt__setting_kind {
    KT__SET_BOOL,
    KT__SET_INT,   /* int64_t in [low, high] */
    KT__SET_FLOAT, /* double in [low, high] */
    KT__SET_SIZE,  /* uint64_t: a number of bytes or a text with K, M, G, T */
    KT__SET_TEXT,  /* const char *; empty: NULL */
    KT__SET_PATH,  /* const char *: TEXT that names a file; ~ is the home directory */
    KT__SET_TEXTS, /* kt__texts: an array; from the environment separated by commas */
    KT__SET_MODE   /* int64_t: octal, as text "0600" or number */
} kt__setting_kind;

/* A number of each setting, in the order of settings.def. */
enum {
#define SETTING(member, kind, value, ...) KT__SETTING_##member,
#include "setup/settings.def"
#undef SETTING
    KT__N_SETTINGS
};

/* Which commands take its option: setting_opts.h. */
typedef enum kt__option_group {
    KT__OPTIONS_NONE,
    KT__OPTIONS_MODEL,
    KT__OPTIONS_SIZES,
    KT__OPTIONS_CORES,
    KT__OPTIONS_DRAFT,
    KT__OPTIONS_CACHE,
    KT__OPTIONS_MANY,
    KT__OPTIONS_LEARN,
    KT__OPTIONS_SERVER,
    KT__OPTIONS_LISTEN
} kt__option_group;

typedef struct kt__texts {
    const char **items;
    size_t n;
} kt__texts;

typedef struct kt__config kt__config;
typedef struct kt__override kt__override;

typedef struct kt__model_config {
    const char *name;       /* how requests call it; NULL: from the file */
    const char *path;       /* NULL: the demo model */
    const char *draft_path; /* of a model that proposes tokens; NULL: none */
    const char *load_in; /* what its weights are quantised to; NULL: as kt__config.load_in says */
    kt__override *overrides; /* settings that are its own, as they were given; or NULL */
    const kt__config *own;   /* all settings as they hold for it, after kt__config_finish */
} kt__model_config;

/* From a file or a name that a person wrote to the path that is opened (for kt__free), for a program
 * that keeps models by name and quantises what it loads. load_in: as the setting, or NULL. prepare:
 * it may take long, and get or make a file; without, one that is still to come gives NULL. */
typedef kt_status kt__find_model_fn(const kt__config *config, const char *name, const char *load_in,
                                    bool prepare, char **path, kt_error *err);

struct kt__config {
#define SET_BOOL(name) bool name;
#define SET_INT(name) int64_t name;
#define SET_FLOAT(name) double name;
#define SET_SIZE(name) uint64_t name;
#define SET_TEXT(name) const char *name;
#define SET_PATH(name) const char *name;
#define SET_TEXTS(name) kt__texts name;
#define SET_MODE(name) int64_t name;
#define SETTING(member, kind, value, ...) SET_##kind(member)
#include "setup/settings.def"
#undef SETTING
#undef SET_BOOL
#undef SET_INT
#undef SET_FLOAT
#undef SET_SIZE
#undef SET_TEXT
#undef SET_PATH
#undef SET_TEXTS
#undef SET_MODE
    kt__model_config *models;
    size_t n_models;               /* at least 1 after kt__config_finish */
    kt__find_model_fn *find_model; /* or NULL */
    bool other_transport;          /* requests come another way: it need not listen */
    bool replica;                  /* a whole model, though a launcher started several processes */
    bool chat_fallback;            /* models without a chat template get ChatML: a server's */
    bool lora_scales;              /* adapters came by --lora: clients may set their scales */
    bool no_run_dir;               /* a socket was not refused, but nothing says where */
    kt__arena arena;
    const char *file;           /* that was read, or NULL */
    bool given[KT__N_SETTINGS]; /* by an option */
};

typedef struct kt__setting {
    const char *key; /* "http.listen" */
    kt__setting_kind kind;
    size_t at;
    double low, high;
    bool live;     /* a reload applies it */
    bool of_model; /* a model may have its own; the rest sizes the server, or is said by requests */
    const char *help;
    kt__option_group group;
    const char *option, *also, *brief, *argument; /* NULL: none */
} kt__setting;

/* Every setting, in the order of settings.def. */
const kt__setting *kt__config_settings(size_t *n);

kt_status KT_CHECKED kt__config_create(kt__config **out, kt_error *err); /* the defaults */
void kt__config_free(kt__config *config);

/* One setting from text, as the environment and the command line give it: plain ("3G", "a, b") or
 * as in the file ("\"a\"", "[\"a\", \"b\"]" for a list). from: what to blame in errors
 * ("--listen", "KENTANG_HTTP_LISTEN"). */
kt_status KT_CHECKED kt__config_set(kt__config *config, const char *key, const char *value,
                                    const char *from, kt_error *err);
kt_status KT_CHECKED kt__config_read_toml(kt__config *config, const char *text, size_t len,
                                          const char *name, kt_error *err);
kt_status KT_CHECKED kt__config_read_file(kt__config *config, const char *path, kt_error *err);
/* NAME=VALUE lines. KENTANG_ names must be known; others belong to other programs. strange (or NULL):
 * as below. */
kt_status KT_CHECKED kt__config_read_dotenv(kt__config *config, const char *path, kt__buf *strange,
                                            kt_error *err);
/* Known KENTANG_ names; unknown ones are appended to `strange`, a line each: something else may
 * have set them. So are names that other servers know and that have no effect here. */
kt_status KT_CHECKED kt__config_read_environment(kt__config *config, char *const *environment,
                                                 kt__buf *strange, kt_error *err);
/* $XDG_CONFIG_HOME/kentang/kentang.toml, ~/.config/kentang/kentang.toml or
 * /etc/kentang/kentang.toml, the first that is there; false: none. */
bool kt__config_find_file(char *path, size_t size);
/* Adds a model, or names its file: from -m. */
kt_status KT_CHECKED kt__config_set_model(kt__config *config, const char *path, kt_error *err);
/* Fills what follows from the rest (the socket's path, the models' names) and checks what belongs
 * together. */
kt_status KT_CHECKED kt__config_finish(kt__config *config, kt_error *err);
/* The settings of one model: words are checked, and what its preset says is filled in. */
kt_status KT_CHECKED kt__config_finish_own(kt__config *own, kt_error *err);
/* kv_type: "TYPE", or "KEYS/VALUES"; NULL or "" changes nothing. KT_E_ARG names what is wrong. */
kt_status KT_CHECKED kt__kv_types_read(const char *text, kt_engine_params *params, kt_error *err);
/* The model that a person's name means: by the names and aliases of the configuration, less "*".
 * NULL: none of them. */
const kt__model_config *kt__config_find_model(const kt__config *config, const char *name);
/* Whether a setting says the same in both; and its value as TOML. */
bool kt__config_same(const kt__config *a, const kt__config *b, const kt__setting *setting);
void kt__config_print_value(const kt__config *config, const kt__setting *setting, kt__buf *out);
/* The whole configuration as TOML, each setting with its help. */
void kt__config_print(const kt__config *config, kt__buf *out);
/* Sampling and length of requests that do not say. */
kt_request_params kt__config_request(const kt__config *config);

enum { KT__LISTEN_BYTES = 512 };
/* Copies the next address of http.listen, several of which have commas between them (a path, unix:PATH, is the last), and
 * moves *list past it; false: there is none. Longer ones are cut, and then found to be none. */
bool kt__config_next_listen(const char **list, char out[KT__LISTEN_BYTES]);

#endif
