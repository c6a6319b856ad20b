#include "store/modelfile.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"

static const char *const words[KT__MODELFILE_KINDS] = {"FROM",    "PARAMETER", "TEMPLATE", "SYSTEM",
                                                       "ADAPTER", "MESSAGE",   "LICENSE"};
static const char three[] = "\"\"\"";

void kt__modelfile_init(kt__modelfile *file) {
    *file = (kt__modelfile){0};
    kt__arena_init(&file->arena, 4096, 4 * KT__MODELFILE_MAX_BYTES);
}

void kt__modelfile_free(kt__modelfile *file) {
    kt__free(file->lines);
    kt__arena_free(&file->arena);
    *file = (kt__modelfile){0};
}

const char *kt__modelfile_word(kt__modelfile_kind kind) {
    return words[kind];
}

/* ---- reading ---- */

typedef struct reader {
    kt__modelfile *file;
    const char *at, *end;
    int line;
    kt_error *err;
} reader;

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

static void skip_blanks(reader *r) {
    while (r->at < r->end && is_blank(*r->at)) r->at++;
}

static void skip_line(reader *r) {
    while (r->at < r->end && *r->at != '\n') r->at++;
}

/* The letters, digits and their like that follow; NULL: there are none, or too many. */
static const char *take_word(reader *r) {
    const char *from = r->at;
    while (r->at < r->end && !is_blank(*r->at) && *r->at != '\n') r->at++;
    size_t len = (size_t)(r->at - from);
    return len && len <= 64 ? kt__arena_strndup(&r->file->arena, from, len) : NULL;
}

static bool begins_with(const reader *r, const char *text) {
    size_t len = strlen(text);
    return (size_t)(r->end - r->at) >= len && !memcmp(r->at, text, len);
}

static void take_rest(reader *r, const char **text, size_t *len) {
    *text = r->at;
    skip_line(r);
    *len = (size_t)(r->at - *text);
    while (*len && is_blank((*text)[*len - 1])) --*len;
}

/* What is between two marks, which may be lines apart; *len of it from *text on. */
static kt_status take_quoted(reader *r, const char *mark, const char **text, size_t *len) {
    const reader before = *r;
    size_t n = strlen(mark);
    int began = r->line;
    r->at += n;
    *text = r->at;
    while (r->at < r->end && !begins_with(r, mark)) r->line += *r->at++ == '\n';
    if (r->at == r->end)
        return kt__fail(r->err, KT_E_FORMAT,
                        "line %d: the text that begins here with %s has no end", began, mark);
    while (n > 1 && r->at + n < r->end && r->at[n] == '"')
        r->at++; /* the last three of more are the end */
    *len = (size_t)(r->at - *text);
    r->at += n;
    skip_blanks(r);
    if (r->at == r->end || *r->at == '\n') return KT_OK;
    if (n > 1)
        return kt__fail(r->err, KT_E_FORMAT, "line %d: something follows the closing %s", r->line,
                        mark);
    *r = before; /* a line that only begins with a quotation */
    take_rest(r, text, len);
    if (!memmem(*text, *len, three, sizeof three - 1)) return KT_OK;
    return kt__fail(r->err, KT_E_FORMAT,
                    "line %d: a text that begins with a quotation mark cannot have %s", began,
                    three);
}

/* A quotation, or the rest of the line. */
static kt_status take_value(reader *r, const char **out) {
    const char *text;
    size_t len;
    skip_blanks(r);
    if (begins_with(r, three)) {
        KT__STEP(take_quoted(r, three, &text, &len));
    } else if (begins_with(r, "\"")) {
        KT__STEP(take_quoted(r, "\"", &text, &len));
    } else {
        take_rest(r, &text, &len);
    }
    *out = kt__arena_strndup(&r->file->arena, text, len);
    return *out ? KT_OK : kt__fail_nomem(r->err, "a modelfile", len);
}

static kt_status append_line(kt__modelfile *f, const kt__modelfile_line *line, kt_error *err) {
    if (f->n == KT__MODELFILE_MAX_LINES)
        return kt__fail(err, KT_E_LIMIT, "a modelfile has at most %d commands",
                        (int)KT__MODELFILE_MAX_LINES);
    if (!kt__vec_reserve(f->lines, f->cap, f->n + 1))
        return kt__fail_nomem(err, "a modelfile", f->n);
    f->lines[f->n++] = *line;
    return KT_OK;
}

static kt_status check_role(const char *role, int line, kt_error *err) {
    if (role && (!strcmp(role, "user") || !strcmp(role, "assistant") || !strcmp(role, "system")))
        return KT_OK;
    return kt__fail(err, KT_E_FORMAT, "line %d: MESSAGE says who speaks: user, assistant or system",
                    line);
}

static kt_status unknown_command(const reader *r, const char *word) {
    if (!kt__strcasecmp(word, "RENDERER") || !kt__strcasecmp(word, "PARSER"))
        return kt__fail(
            r->err, KT_E_UNSUPPORTED,
            "line %d: %s names a part of Ollama's own program: leave the line out, and the "
            "template of the model's file holds",
            r->line, word);
    return kt__fail(r->err, KT_E_UNSUPPORTED,
                    "line %d: \"%.40s\" is not known: expected FROM, PARAMETER, TEMPLATE, SYSTEM, "
                    "ADAPTER, MESSAGE or LICENSE",
                    r->line, word);
}

static kt_status read_command(reader *r) {
    kt__modelfile_line line = {.name = "", .at = r->line};
    const char *word = take_word(r);
    if (!word) return kt__fail(r->err, KT_E_FORMAT, "line %d: expected a command", r->line);
    int kind = 0;
    while (kind < KT__MODELFILE_KINDS && kt__strcasecmp(word, words[kind]) != 0) kind++;
    if (!kt__strcasecmp(word, "REQUIRES")) { /* a version of Ollama's */
        skip_line(r);
        return KT_OK;
    }
    if (kind == KT__MODELFILE_KINDS) return unknown_command(r, word);
    line.kind = (kt__modelfile_kind)kind;
    skip_blanks(r);
    if (line.kind == KT__MODELFILE_PARAMETER || line.kind == KT__MODELFILE_MESSAGE) {
        line.name = take_word(r);
        if (!line.name)
            return kt__fail(r->err, KT_E_FORMAT, "line %d: %s of what?", r->line, words[kind]);
        if (line.kind == KT__MODELFILE_MESSAGE) KT__STEP(check_role(line.name, r->line, r->err));
    }
    KT__STEP(take_value(r, &line.value));
    if (!*line.value && line.kind != KT__MODELFILE_SYSTEM && line.kind != KT__MODELFILE_TEMPLATE &&
        line.kind != KT__MODELFILE_LICENSE)
        return kt__fail(r->err, KT_E_FORMAT, "line %d: %s has nothing after it", line.at,
                        words[kind]);
    return append_line(r->file, &line, r->err);
}

kt_status kt__modelfile_read(kt__modelfile *file, const char *text, size_t len, kt_error *err) {
    reader r = {.file = file, .at = text, .end = text + len, .line = 1, .err = err};
    if (len > KT__MODELFILE_MAX_BYTES)
        return kt__fail(err, KT_E_LIMIT, "a modelfile has at most %d bytes, this one %zu",
                        (int)KT__MODELFILE_MAX_BYTES, len);
    if (len && memchr(text, '\0', len))
        return kt__fail(err, KT_E_FORMAT, "a byte of value 0: this is no modelfile");
    if (begins_with(&r, "\xef\xbb\xbf")) r.at += 3;
    while (r.at < r.end) {
        skip_blanks(&r);
        if (r.at < r.end && *r.at == '#') skip_line(&r);
        if (r.at < r.end && *r.at != '\n') KT__STEP(read_command(&r));
        if (r.at < r.end) r.at++;
        r.line++;
    }
    return KT_OK;
}

kt_status kt__modelfile_open(kt__modelfile *file, const char *path, kt_error *err) {
    kt__buf text;
    kt__buf_init(&text, KT__MODELFILE_MAX_BYTES);
    kt_status status = kt__files_read(path, &text, err);
    if (status == KT_OK)
        status = kt__modelfile_read(file, text.data ? text.data : "", text.len, err);
    kt__buf_free(&text);
    return status;
}

/* ---- lines ---- */

/* It needs no quotation. */
static bool is_plain(const char *value) {
    size_t len = strlen(value);
    return len && !strchr(value, '\n') && !is_blank(value[0]) && !is_blank(value[len - 1]) &&
           value[0] != '"';
}

/* There are no escapes: a text that needs quotation must not have the mark that ends it. */
static bool can_be_written(const char *value) {
    return is_plain(value) || !strstr(value, three);
}

kt_status kt__modelfile_add(kt__modelfile *f, kt__modelfile_kind kind, const char *name,
                            const char *value, kt_error *err) {
    kt__modelfile_line line = {.kind = kind, .name = "", .value = value};
    if (kind == KT__MODELFILE_MESSAGE) KT__STEP(check_role(name, 0, err));
    if (!can_be_written(value))
        return kt__fail(err, KT_E_ARG, "%s: a modelfile cannot have a text with \"\"\" in it",
                        words[kind]);
    if (name) line.name = kt__arena_strndup(&f->arena, name, strlen(name));
    line.value = kt__arena_strndup(&f->arena, value, strlen(value));
    if (!line.name || !line.value) return kt__fail_nomem(err, "a modelfile", strlen(value));
    return append_line(f, &line, err);
}

const char *kt__modelfile_get(const kt__modelfile *f, kt__modelfile_kind kind) {
    for (size_t i = f->n; i-- > 0;)
        if (f->lines[i].kind == kind) return f->lines[i].value;
    return NULL;
}

void kt__modelfile_remove(kt__modelfile *f, kt__modelfile_kind kind) {
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++)
        if (f->lines[i].kind != kind) f->lines[n++] = f->lines[i];
    f->n = n;
}

/* Whether it says something else in place of that line: the same parameter, or another text. */
static bool line_replaces(const kt__modelfile *f, size_t n, const kt__modelfile_line *line) {
    for (size_t i = 0; i < n; i++) {
        if (f->lines[i].kind != line->kind) continue;
        if (line->kind != KT__MODELFILE_PARAMETER || !strcmp(f->lines[i].name, line->name))
            return true;
    }
    return false;
}

kt_status kt__modelfile_inherit(kt__modelfile *f, const kt__modelfile *base, kt_error *err) {
    size_t own = f->n;
    for (size_t i = 0; i < base->n; i++) {
        const kt__modelfile_line *line = &base->lines[i];
        if (line->kind == KT__MODELFILE_FROM || line_replaces(f, own, line)) continue;
        KT__STEP(kt__modelfile_add(f, line->kind, line->name, line->value, err));
    }
    return KT_OK;
}

/* ---- writing ---- */

static void write_value(const char *value, kt__buf *out) {
    const char *mark = is_plain(value) ? "" : strchr(value, '"') ? three : "\"";
    (void)kt__buf_printf(out, "%s%s%s\n", mark, value, mark);
}

void kt__modelfile_write(const kt__modelfile *f, kt__buf *out) {
    for (int kind = 0; kind < KT__MODELFILE_KINDS; kind++) {
        for (size_t i = 0; i < f->n; i++) {
            const kt__modelfile_line *line = &f->lines[i];
            if ((int)line->kind != kind) continue;
            (void)kt__buf_printf(out, "%s %s%s", words[kind], line->name, *line->name ? " " : "");
            write_value(line->value, out);
        }
    }
}
