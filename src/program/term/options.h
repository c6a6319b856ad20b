/* The command line's option tables.
 *
 * Owns: parsing argv against tables of options, the errors for what does not fit, and the --help
 * text made from the same tables. Knows nothing of any command. A table is static const data;
 * values land in a struct of the command by offset, so that several commands can share a table (see
 * model_opts.h).
 *
 *     struct my_opts { int32_t n; const char *file; bool quick; };
 *     static const kt__opt my_table[] = {
 *         {.name = "count", .brief = "n", .kind = KT__OPT_INT, .at = offsetof(struct my_opts, n),
 *          .min = 1, .max = 100, .arg = "N", .help = "how many (default 10)"},
 *     };
 *     struct my_opts o = {.n = 10};
 *     const kt__opt_group groups[] = {{"Options", my_table, KT__COUNT(my_table), &o}};
 *     const kt__syntax syntax = {.command = "mine", .usage = "[OPTIONS] FILE", .groups = groups,
 *                                .n_groups = 1, .max_words = 1};
 *     int code = kt__cli_parse(&syntax, argc, argv, &words, &n_words);
 *     if (code >= 0) return code;
 *
 * Spellings: --name VALUE, --name=VALUE, -x VALUE (a short name may have two letters: -ub); "--"
 * ends the options; "-" alone is a word. One thread. */
#ifndef KT_TERM_OPTIONS_H
#define KT_TERM_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KT__COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef enum kt__opt_kind {
    KT__OPT_ON,    /* bool: set true; takes no value; a word of choices after it is skipped */
    KT__OPT_OFF,   /* bool: set false; takes no value */
    KT__OPT_INT,   /* int32_t in [min, max] */
    KT__OPT_FLOAT, /* float in [min, max], finite */
    KT__OPT_SIZE,  /* uint64_t bytes; suffix K, M, G, T (powers of 1024) */
    KT__OPT_SEED,  /* uint64_t; -1 and "random" give UINT64_MAX */
    KT__OPT_ENUM,  /* int: index into choices; without one it is "on", where that is the first */
    KT__OPT_TEXT,  /* const char *, points into argv */
    KT__OPT_TEXTS, /* kt__opt_texts: may be repeated */
} kt__opt_kind;

typedef struct kt__opt_texts {
    const char **items; /* heap, freed with kt__opt_texts_free; the strings point into argv */
    size_t n;
} kt__opt_texts;

typedef struct kt__opt kt__opt;
struct kt__opt {
    const char *name;  /* long name without dashes; required */
    const char *brief; /* short name without dash, one or two letters; or NULL */
    const char *also;  /* a second long name, or NULL */
    kt__opt_kind kind;
    size_t at;       /* offset of the value in the group's struct */
    size_t given_at; /* offset of a bool set when the option is present; 0: none (see KT__GIVEN) */
    double min, max; /* INT and FLOAT */
    const char *choices; /* ENUM, ON: "none|linear|yarn" */
    const char *arg;     /* how the value is called in --help: "N" */
    const char *help;    /* one sentence; the default in it */
    /* Takes the checked text ("true" or "false" of ON) instead of `at`, which is the row's own
     * number then; false: it cannot, why is in expected[]. ON may be negated: --no-NAME. */
    bool (*keep)(void *base, const kt__opt *opt, const char *value, char *expected, size_t size);
};

/* A given flag may not be the struct's first member: its offset would read as "none". */
#define KT__GIVEN(type, member) (offsetof(type, member))

typedef struct kt__opt_group {
    const char *title;
    const kt__opt *opts;
    size_t n_opts;
    void *base; /* the struct that at and given_at are offsets into */
} kt__opt_group;

typedef struct kt__syntax {
    const char *command; /* "run" */
    const char *usage;   /* "[OPTIONS] FILE": what follows "kentang run" */
    const char *about;   /* a few lines, or NULL */
    const kt__opt_group *groups;
    size_t n_groups;
    size_t min_words, max_words; /* words that are no options */
    const char *word;            /* what a word is: "MODEL"; for errors */
    const char *notes; /* printed after the options, or NULL: examples, exit codes of its own */
    /* Gives a value to the setting of a key, for options of other programs that mean one
     * (other_names.def); false: it is not of its kind, and expected[] says what is. NULL: the
     * command has no settings. from: the option, for errors. */
    bool (*set)(void *base, const char *key, const char *value, const char *from, char *expected,
                size_t size);
    void *set_base;
} kt__syntax;

/* argv[0] is the command's name. Returns -1 to continue; otherwise the exit code: 0 after --help
 * was printed, 2 after an error was. words (NULL if max_words is 0) receives at most max_words
 * words, pointing into argv. */
int kt__cli_parse(const kt__syntax *syntax, int argc, char **argv, const char **words,
                  size_t *n_words);
void kt__cli_print_help(const kt__syntax *syntax); /* in help.c */
static inline bool kt__opt_takes_value(const kt__opt *opt) {
    return opt->kind != KT__OPT_ON && opt->kind != KT__OPT_OFF;
}
static inline bool kt__opt_negatable(const kt__opt *opt) { /* --no-NAME is its opposite */
    return opt->kind == KT__OPT_ON && opt->keep;
}
void kt__opt_texts_free(kt__opt_texts *texts);

/* One value of an option as the parser reads it; false: not of that kind or out of range, with what
 * was expected in expected[]. Used by the parser and by the thread that reads such values from
 * elsewhere. / */
bool kt__opt_set(const kt__opt *opt, void *base, const char *value, char *expected,
                 size_t expected_size);

#endif
