/* A configuration as TOML, and what is different between two. */
#include <string.h>

#include "setup/config_set.h"

static void print_quoted(kt__buf *out, const char *text) {
    (void)kt__buf_putc(out, '"');
    for (; text && *text; text++) {
        unsigned char ch = (unsigned char)*text;
        if (ch == '"' || ch == '\\') (void)kt__buf_putc(out, '\\');
        if (ch < 0x20 || ch == 0x7f) {
            (void)kt__buf_printf(out, "\\u%04x", ch);
        } else {
            (void)kt__buf_putc(out, (char)ch);
        }
    }
    (void)kt__buf_putc(out, '"');
}

void kt__config_print_value(const kt__config *c, const kt__setting *s, kt__buf *out) {
    const void *at = (const char *)c + s->at;
    switch (s->kind) {
    case KT__SET_BOOL: (void)kt__buf_puts(out, *(const bool *)at ? "true" : "false"); break;
    case KT__SET_INT: (void)kt__buf_printf(out, "%lld", (long long)*(const int64_t *)at); break;
    case KT__SET_FLOAT: (void)kt__buf_printf(out, "%g", *(const double *)at); break;
    case KT__SET_SIZE:
        (void)kt__buf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case KT__SET_MODE: (void)kt__buf_printf(out, "\"%04o\"", (unsigned)*(const int64_t *)at); break;
    case KT__SET_TEXT:
    case KT__SET_PATH: print_quoted(out, *(const char *const *)at); break;
    case KT__SET_TEXTS: {
        const kt__texts *list = at;
        (void)kt__buf_putc(out, '[');
        for (size_t i = 0; i < list->n; i++) {
            if (i) (void)kt__buf_puts(out, ", ");
            print_quoted(out, list->items[i]);
        }
        (void)kt__buf_putc(out, ']');
    }
    }
}

static bool same_text(const char *a, const char *b) {
    return !strcmp(a ? a : "", b ? b : "");
}

static bool same_texts(const kt__texts *a, const kt__texts *b) {
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++) same = same_text(a->items[i], b->items[i]);
    return same;
}

bool kt__config_same(const kt__config *a, const kt__config *b, const kt__setting *s) {
    const void *x = (const char *)a + s->at, *y = (const char *)b + s->at;
    switch (s->kind) {
    case KT__SET_BOOL: return *(const bool *)x == *(const bool *)y;
    case KT__SET_FLOAT: return !memcmp(x, y, sizeof(double));
    case KT__SET_TEXT:
    case KT__SET_PATH: return same_text(*(const char *const *)x, *(const char *const *)y);
    case KT__SET_TEXTS: return same_texts(x, y);
    default: return *(const int64_t *)x == *(const int64_t *)y; /* INT, MODE; SIZE is as wide */
    }
}

/* Characters of the table's name in a setting's key: those before the dot, or none. */
static size_t table_len(const kt__setting *s) {
    const char *dot = strchr(s->key, '.');
    return dot ? (size_t)(dot - s->key) : 0;
}

static bool in_table(const kt__setting *s, const char *table, size_t len) {
    return table_len(s) == len && memcmp(s->key, table, len) == 0;
}

static void print_setting(const kt__config *c, const kt__setting *s, kt__buf *out) {
    const char *dot = strchr(s->key, '.');
    bool absent = (s->at == offsetof(kt__config, model) && !c->model) ||
                  (s->at == offsetof(kt__config, alias) && !c->alias) ||
                  (s->at == offsetof(kt__config, draft_model) && !c->draft_model);
    if (*s->help) (void)kt__buf_printf(out, "# %s\n", s->help);
    (void)kt__buf_printf(out, "%s%s = ", absent ? "# " : "", dot ? dot + 1 : s->key);
    kt__config_print_value(c, s, out);
    (void)kt__buf_putc(out, '\n');
}

/* The settings of one table of settings.def; table[len] is its name. */
static void print_table(const kt__config *c, const char *table, size_t len, kt__buf *out) {
    size_t n;
    const kt__setting *settings = kt__config_settings(&n);
    if (len) (void)kt__buf_printf(out, "\n[%.*s]\n", (int)len, table);
    for (size_t i = 0; i < n; i++) {
        if (in_table(&settings[i], table, len)) print_setting(c, &settings[i], out);
    }
}

/* A line for each setting that is the model's own. */
static void print_own(const kt__model_config *m, kt__buf *out) {
    for (const kt__override *o = m->overrides; o; o = o->next) {
        kt__config shown;
        memcpy((char *)&shown + o->setting->at, o->value, kt__setting_size(o->setting->kind));
        (void)kt__buf_printf(out, "\n%s = ", o->setting->key);
        kt__config_print_value(&shown, o->setting, out);
    }
}

void kt__config_print(const kt__config *c, kt__buf *out) {
    size_t n;
    const kt__setting *settings = kt__config_settings(&n);
    print_table(c, "", 0, out);
    for (size_t i = 0; i < n; i++) {
        size_t len = table_len(&settings[i]), before = 0;
        while (before < i && !in_table(&settings[before], settings[i].key, len)) before++;
        if (len && before == i) print_table(c, settings[i].key, len, out);
    }
    for (size_t i = 0; !c->model && i < c->n_models; i++) {
        (void)kt__buf_puts(out, "\n[[models]]\nname = ");
        print_quoted(out, c->models[i].name);
        if (c->models[i].path)
            (void)kt__buf_puts(out, "\npath = "), print_quoted(out, c->models[i].path);
        if (c->models[i].draft_path)
            (void)kt__buf_puts(out, "\ndraft_model = "), print_quoted(out, c->models[i].draft_path);
        if (c->models[i].load_in)
            (void)kt__buf_puts(out, "\nload_in = "), print_quoted(out, c->models[i].load_in);
        print_own(&c->models[i], out);
        (void)kt__buf_putc(out, '\n');
    }
}
