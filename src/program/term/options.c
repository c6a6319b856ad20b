#include "term/options.h"

#include "base/alloc.h"
#include "base/text.h"
#include "term/cli.h"
#include "term/safe_text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static bool fail_expected(char *expected, size_t size, const char *what) {
    snprintf(expected, size, "%s", what);
    return false;
}

static bool set_int(const kt__opt *opt, int32_t *out, const char *value, char *expected,
                    size_t size) {
    char *end = NULL;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (end != value && !*end && !errno && (double)number >= opt->min &&
        (double)number <= opt->max) {
        *out = (int32_t)number;
        return true;
    }
    snprintf(expected, size, "a whole number from %.0f to %.0f", opt->min, opt->max);
    return false;
}

/* "3,14" in a locale never matters: the program stays in the C locale. */
static bool set_float(const kt__opt *opt, float *out, const char *value, char *expected,
                      size_t size) {
    char *end = NULL;
    double number = strtod(value, &end);
    if (end != value && !*end && isfinite(number) && number >= opt->min && number <= opt->max) {
        *out = (float)number;
        return true;
    }
    snprintf(expected, size, "a number from %g to %g", opt->min, opt->max);
    return false;
}

static bool set_size(uint64_t *out, const char *value, char *expected, size_t size) {
    static const char what[] = "a number of bytes such as 1500000, 512M or 2G";
    static const char suffixes[] = "KMGT";
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 10);
    if (end == value || errno || !isdigit((unsigned char)value[0]))
        return fail_expected(expected, size, what);
    unsigned shift = 0;
    const char *suffix = *end ? strchr(suffixes, toupper((unsigned char)*end)) : NULL;
    if (suffix) {
        shift = 10 * (unsigned)(suffix - suffixes + 1);
        end++;
        if (*end == 'i') end++;
        if (*end == 'B' || *end == 'b') end++;
    }
    if (*end || number > UINT64_MAX >> shift) return fail_expected(expected, size, what);
    *out = (uint64_t)number << shift;
    return true;
}

static bool set_seed(uint64_t *out, const char *value, char *expected, size_t size) {
    if (!strcmp(value, "-1") || !strcmp(value, "random")) {
        *out = UINT64_MAX;
        return true;
    }
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(value, &end, 0);
    if (end == value || *end || errno || !isdigit((unsigned char)value[0]) || number > INT64_MAX) {
        return fail_expected(expected, size,
                             "a whole number from 0 to 9223372036854775807, or \"random\"");
    }
    *out = number;
    return true;
}

static bool choice_index(const char *choices, const char *value, int *out) {
    size_t len = strlen(value);
    const char *choice = choices;
    for (int index = 0; choice; index++) {
        const char *bar = strchr(choice, '|');
        size_t choice_len = bar ? (size_t)(bar - choice) : strlen(choice);
        if (len == choice_len && !memcmp(choice, value, len)) {
            *out = index;
            return true;
        }
        choice = bar ? bar + 1 : NULL;
    }
    return false;
}

static bool set_enum(const kt__opt *opt, int *out, const char *value, char *expected, size_t size) {
    if (choice_index(opt->choices, value, out)) return true;
    snprintf(expected, size, "one of %s", opt->choices);
    return false;
}

static bool add_text(kt__opt_texts *texts, const char *value, char *expected, size_t size) {
    const char **items = kt__realloc_array(texts->items, texts->n + 1, sizeof *items);
    if (!items) return fail_expected(expected, size, "less: out of memory");
    texts->items = items;
    texts->items[texts->n++] = value;
    return true;
}

void kt__opt_texts_free(kt__opt_texts *texts) {
    kt__free(texts->items);
    texts->items = NULL;
    texts->n = 0;
}

/* Whether it is of the option's kind, without a place for it. */
static bool check_value(const kt__opt *opt, const char *value, char *expected, size_t size) {
    union {
        int32_t whole;
        float real;
        uint64_t bytes;
        int choice;
    } unused;
    switch (opt->kind) {
    case KT__OPT_INT: return set_int(opt, &unused.whole, value, expected, size);
    case KT__OPT_FLOAT: return set_float(opt, &unused.real, value, expected, size);
    case KT__OPT_SIZE: return set_size(&unused.bytes, value, expected, size);
    case KT__OPT_ENUM: return set_enum(opt, &unused.choice, value, expected, size);
    default: return true;
    }
}

bool kt__opt_set(const kt__opt *opt, void *base, const char *value, char *expected, size_t size) {
    char *bytes = base;
    if (opt->keep)
        return check_value(opt, value, expected, size) &&
               opt->keep(base, opt, value ? value : "true", expected, size);
    void *at = bytes + opt->at;
    bool ok = true;
    switch (opt->kind) {
    case KT__OPT_ON: *(bool *)at = true; break;
    case KT__OPT_OFF: *(bool *)at = false; break;
    case KT__OPT_INT: ok = set_int(opt, at, value, expected, size); break;
    case KT__OPT_FLOAT: ok = set_float(opt, at, value, expected, size); break;
    case KT__OPT_SIZE: ok = set_size(at, value, expected, size); break;
    case KT__OPT_SEED: ok = set_seed(at, value, expected, size); break;
    case KT__OPT_ENUM: ok = set_enum(opt, at, value, expected, size); break;
    case KT__OPT_TEXT: *(const char **)at = value; break;
    case KT__OPT_TEXTS: ok = add_text(at, value, expected, size); break;
    }
    if (ok && opt->given_at) *(bool *)(void *)(bytes + opt->given_at) = true;
    return ok;
}

/* ---- names ---- */

typedef struct parse {
    const kt__syntax *syntax;
    const char *ignored[32]; /* options of other programs, as they were typed */
    size_t n_ignored;
    bool quiet, has_model; /* -q, -m were given */
} parse;

typedef struct found {
    const kt__opt *opt;
    void *base;
    bool negated; /* --no-NAME */
} found;

static bool name_equals(const char *name, const char *s, size_t len) {
    return name && strlen(name) == len && !memcmp(name, s, len);
}

static bool is_negated(const kt__opt *opt, const char *name, size_t len) {
    return kt__opt_negatable(opt) && len > 3 && !memcmp(name, "no-", 3) &&
           name_equals(opt->name, name + 3, len - 3);
}

/* word[len] with its dashes, without a value */
static found find_option(const kt__syntax *syntax, const char *word, size_t len) {
    bool is_long = len > 2 && word[0] == '-' && word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    size_t name_len = len - (is_long ? 2 : 1);
    for (size_t g = 0; g < syntax->n_groups; g++) {
        const kt__opt_group *group = &syntax->groups[g];
        for (size_t i = 0; i < group->n_opts; i++) {
            const kt__opt *opt = &group->opts[i];
            bool match = is_long ? name_equals(opt->name, name, name_len) ||
                                       name_equals(opt->also, name, name_len)
                                 : name_equals(opt->brief, name, name_len);
            bool negated = !match && is_long && is_negated(opt, name, name_len);
            if (match || negated) return (found){opt, group->base, negated};
        }
    }
    return (found){NULL, NULL, false};
}

static size_t option_len(const char *word) {
    const char *equal = !strncmp(word, "--", 2) ? strchr(word, '=') : NULL;
    return equal ? (size_t)(equal - word) : strlen(word);
}

static bool is_option(const char *word) {
    return word[0] == '-' && word[1] != '\0';
}

/* ---- options of other programs ---- */

typedef struct other_name {
    const char *command, *name, *text; /* what to type instead; NULL: it is ignored */
    int value;
    const char *key; /* of the setting that gets its value, perhaps with =VALUE; or NULL */
} other_name;

/* NULL: it is none that people bring along. */
static const other_name *find_other(const char *command, const char *name, size_t len) {
    static const other_name rows[] = {
#define SETS(command, name, key) {command, name, NULL, 0, key},
#define IGNORED(command, name, value, why) {command, name, NULL, value, NULL},
#define INSTEAD(command, name, what) {command, name, what, 0, NULL},
#include "term/other_names.def"
    };
    for (size_t i = 0; i < KT__COUNT(rows); i++) {
        if (!name_equals(rows[i].name, name, len)) continue;
        if (!*rows[i].command || !strcmp(rows[i].command, command)) return &rows[i];
    }
    return NULL;
}

static bool is_switch_word(const char *word) {
    return !strcmp(word, "on") || !strcmp(word, "off") || !strcmp(word, "auto");
}

/* Passes over argv[*i], which means nothing here, and over its value; -1: fine. */
static int ignore_option(parse *p, const other_name *other, int argc, char **argv, int *i) {
    const char *word = argv[*i], *next = *i + 1 < argc ? argv[*i + 1] : NULL;
    size_t len = option_len(word);
    if (p->n_ignored < KT__COUNT(p->ignored)) p->ignored[p->n_ignored++] = word;
    if (word[len] == '=' || !other->value || (other->value == 2 && !(next && is_switch_word(next))))
        return -1;
    if (!next) return kt__cli_usage_error(p->syntax->command, "option %s needs a value", word);
    ++*i;
    return -1;
}

/* Gives argv[*i]'s value to the setting that it is here; -1: fine. */
static int set_other(parse *p, const other_name *other, int argc, char **argv, int *i) {
    const char *word = argv[*i], *equal = strchr(other->key, '=');
    size_t len = option_len(word), key_len = strcspn(other->key, "=");
    const char *fixed = equal ? equal + 1 : "", *open = strchr(fixed, '%');
    const char *value = equal && !open ? fixed : word[len] == '=' ? word + len + 1 : NULL;
    char key[64], expected[256], whole[1024];
    snprintf(key, sizeof key, "%.*s", (int)key_len, other->key);
    if (!value && *i + 1 < argc) value = argv[++*i];
    if (!value) return kt__cli_usage_error(p->syntax->command, "option %s needs a value", word);
    if (open) {
        snprintf(whole, sizeof whole, "%.*s%s", (int)(open - fixed), fixed, value);
        value = whole;
    }
    p->has_model |= !strcmp(key, "model");
    if (p->syntax->set(p->syntax->set_base, key, value, word, expected, sizeof expected)) return -1;
    return kt__cli_usage_error(p->syntax->command, "option %.*s: expected %s, got \"%.80s\"",
                               (int)len, word, expected, value);
}

static void name_ignored(const parse *p) {
    if (!p->n_ignored || p->quiet) return;
    fputs("kentang: without effect here:", stderr);
    for (size_t i = 0; i < p->n_ignored; i++) {
        fputc(' ', stderr);
        kt__safe_line(stderr, p->ignored[i]);
    }
    fputc('\n', stderr);
}

/* other: what it is here if another program's, or NULL. */
static int unknown_option(const kt__syntax *syntax, const other_name *other, const char *word,
                          size_t len) {
    enum { MAX_NAMES = 256 };
    const char *names[MAX_NAMES];
    size_t n = 0, dashes = word[1] == '-' ? 2 : 1;
    for (size_t g = 0; g < syntax->n_groups; g++) {
        for (size_t i = 0; i < syntax->groups[g].n_opts && n + 2 < MAX_NAMES; i++) {
            names[n++] = syntax->groups[g].opts[i].name;
            if (syntax->groups[g].opts[i].also) names[n++] = syntax->groups[g].opts[i].also;
        }
    }
    names[n++] = "help";
    if (other)
        return kt__cli_usage_error(syntax->command, "unknown option %.*s; here it is %s", (int)len,
                                   word, other->text);
    const char *near = kt__nearest_name(word + dashes, len - dashes, names, n);
    if (!near) return kt__cli_usage_error(syntax->command, "unknown option %.*s", (int)len, word);
    return kt__cli_usage_error(syntax->command, "unknown option %.*s; did you mean --%s?", (int)len,
                               word, near);
}

/* ---- the walk over argv ---- */

/* Is this an option that can be switched on by its name alone, and none of its words follows it? */
static bool is_bare(const kt__opt *opt, const char *next) {
    int choice;
    return opt->kind == KT__OPT_ENUM && !strncmp(opt->choices, "on|", 3) &&
           !(next && choice_index(opt->choices, next, &choice));
}

/* Takes argv[*i], an option, and the value after it if it has one. -1: fine. */
static int take_option(parse *p, int argc, char **argv, int *i) {
    const kt__syntax *syntax = p->syntax;
    const char *word = argv[*i];
    size_t len = option_len(word), dashes = word[1] == '-' ? 2 : 1;
    found it = find_option(syntax, word, len);
    if (!it.opt) {
        const other_name *other = find_other(syntax->command, word + dashes, len - dashes);
        if (other && other->key && syntax->set) return set_other(p, other, argc, argv, i);
        if (other && !other->text) return ignore_option(p, other, argc, argv, i);
        return unknown_option(syntax, other, word, len);
    }
    p->quiet |= name_equals(it.opt->name, "quiet", 5);
    p->has_model |= name_equals(it.opt->name, "model", 5);
    const char *value = word[len] == '=' ? word + len + 1 : NULL;
    if (!kt__opt_takes_value(it.opt)) {
        int choice;
        if (it.opt->choices && *i + 1 < argc &&
            choice_index(it.opt->choices, argv[*i + 1], &choice))
            ++*i;
        if (value) {
            return kt__cli_usage_error(syntax->command, "option %.*s takes no value", (int)len,
                                       word);
        }
        if (it.negated) value = "false";
    } else if (!value) {
        const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
        bool none = !next || (is_option(next) && find_option(syntax, next, option_len(next)).opt);
        bool bare = is_bare(it.opt, next);
        if (none && !bare) {
            return kt__cli_usage_error(syntax->command, "option %s needs a value%s%s", word,
                                       it.opt->arg ? ": " : "", it.opt->arg ? it.opt->arg : "");
        }
        value = bare ? "on" : next;
        *i += !bare;
    }
    char expected[256];
    if (kt__opt_set(it.opt, it.base, value, expected, sizeof expected)) return -1;
    return kt__cli_usage_error(syntax->command, "option %.*s: expected %s, got \"%.80s\"", (int)len,
                               word, expected, value);
}

/* A word of a command that takes no words: its model, as -m names it. */
static int take_model(parse *p, const char *word) {
    found it = find_option(p->syntax, "-m", 2);
    char expected[256];
    if (!it.opt) return kt__cli_usage_error(p->syntax->command, "unexpected word \"%.80s\"", word);
    if (p->has_model)
        return kt__cli_usage_error(p->syntax->command,
                                   "unexpected word \"%.80s\": the model is named already", word);
    p->has_model = true;
    if (kt__opt_set(it.opt, it.base, word, expected, sizeof expected)) return -1;
    return kt__cli_usage_error(p->syntax->command, "expected %s, got \"%.80s\"", expected, word);
}

static int take_word(parse *p, const char *word, const char **words, size_t *n) {
    if (!p->syntax->max_words) return take_model(p, word);
    if (*n == p->syntax->max_words)
        return kt__cli_usage_error(p->syntax->command, "unexpected word \"%.80s\" after \"%.80s\"",
                                   word, words[*n - 1]);
    words[(*n)++] = word;
    return -1;
}

int kt__cli_parse(const kt__syntax *syntax, int argc, char **argv, const char **words,
                  size_t *n_words) {
    parse p = {.syntax = syntax};
    size_t n = 0;
    bool only_words = false;
    for (int i = 1; i < argc; i++) {
        int code = -1;
        if (!only_words && !strcmp(argv[i], "--")) {
            only_words = true;
        } else if (!only_words && (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))) {
            kt__cli_print_help(syntax);
            return 0;
        } else if (!only_words && is_option(argv[i])) {
            code = take_option(&p, argc, argv, &i);
        } else {
            code = take_word(&p, argv[i], words, &n);
        }
        if (code >= 0) return code;
    }
    if (n_words) *n_words = n;
    if (n >= syntax->min_words) {
        name_ignored(&p);
        return -1;
    }
    return kt__cli_usage_error(syntax->command, "%s is missing",
                               syntax->word ? syntax->word : "a word");
}
