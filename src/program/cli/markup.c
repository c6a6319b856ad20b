#include "cli/documents.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

typedef enum element_kind { LINE, CELL, BLANK, SILENT, PAGE } element_kind;

/* Names as they are after "<" and "</"; of HTML, WordprocessingML and OpenDocument. */
static const struct {
    const char *name;
    element_kind kind;
} elements[] = {{"p", LINE},
                {"div", LINE},
                {"br", LINE},
                {"li", LINE},
                {"tr", LINE},
                {"h1", LINE},
                {"h2", LINE},
                {"h3", LINE},
                {"h4", LINE},
                {"h5", LINE},
                {"h6", LINE},
                {"section", LINE},
                {"article", LINE},
                {"pre", LINE},
                {"blockquote", LINE},
                {"title", LINE},
                {"td", CELL},
                {"th", CELL},
                {"script", SILENT},
                {"style", SILENT},
                {"noscript", SILENT},
                {"template", SILENT},
                {"svg", SILENT},
                {"w:p", LINE},
                {"w:tr", LINE},
                {"w:tc", CELL},
                {"w:tab", CELL},
                {"w:br", LINE},
                {"w:instrText", SILENT},
                {"w:lastRenderedPageBreak", PAGE},
                {"text:p", LINE},
                {"text:h", LINE},
                {"text:tab", CELL},
                {"text:s", BLANK},
                {"text:line-break", LINE},
                {"table:table-row", LINE},
                {"text:soft-page-break", PAGE}};

typedef struct marked {
    const char *at, *end;
    kt__buf *out;
    bool blank, fresh; /* white space is due; nothing is in the line so far */
} marked;

static void put_piece(marked *m, const char *text, size_t len) {
    if (m->blank && !m->fresh) (void)kt__buf_putc(m->out, ' ');
    m->blank = m->fresh = false;
    (void)kt__buf_append(m->out, text, len);
}

static void end_line(marked *m) {
    if (!m->fresh) (void)kt__buf_putc(m->out, '\n');
    m->fresh = true;
    m->blank = false;
}

static bool is_name(const char *name, size_t len, const char *want) {
    return strlen(want) == len && !kt__strncasecmp(name, want, len);
}

static int kind_of(const char *name, size_t len) {
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (is_name(name, len, elements[i].name)) return (int)elements[i].kind;
    return -1;
}

/* After "<!--" or "<script": the end of what is not looked into. */
static const char *find_after(const marked *m, const char *from, const char *what) {
    size_t n = strlen(what);
    for (const char *p = from; (size_t)(m->end - p) >= n; p++)
        if (!kt__strncasecmp(p, what, n)) return p + n;
    return m->end;
}

static void skip_silent(marked *m, const char *name, size_t len) {
    char close[40];
    size_t n = len < sizeof close - 3 ? len : sizeof close - 3;
    close[0] = '<';
    close[1] = '/';
    memcpy(close + 2, name, n);
    close[n + 2] = '\0';
    m->at = find_after(m, m->at, close);
    while (m->at < m->end && m->at[-1] != '>') m->at++;
}

/* m->at is at "<". */
static void take_tag(marked *m) {
    const char *name = m->at + 1;
    if (m->end - m->at >= 4 && !memcmp(m->at, "<!--", 4)) {
        m->at = find_after(m, m->at + 4, "-->");
        return;
    }
    bool closes = name < m->end && *name == '/';
    name += closes;
    size_t len = 0;
    while (name + len < m->end && !strchr(" \t\r\n/>", name[len]) && name[len]) len++;
    const char *end = memchr(m->at, '>', (size_t)(m->end - m->at));
    bool alone = end && end[-1] == '/';
    m->at = end ? end + 1 : m->end;
    int kind = kind_of(name, len);
    if (kind == LINE) end_line(m);
    if (kind == CELL && !closes && !m->fresh) put_piece(m, "\t", 1);
    if (kind == BLANK) m->blank = true;
    if (kind == PAGE && !closes) put_piece(m, "\f", 1);
    if (kind == SILENT && !closes && !alone) skip_silent(m, name, len);
}

/* A "<" before anything else is text. */
static bool is_tag(const marked *m) {
    char next = m->end - m->at > 1 ? m->at[1] : ' ';
    bool letter = (next | 32) >= 'a' && (next | 32) <= 'z';
    return *m->at == '<' && (letter || next == '/' || next == '!' || next == '?');
}

/* &amp; &#60; &#x3c;: the length of what it is in the text, or 0: it is none. */
static size_t take_entity(marked *m) {
    static const char *const names[][2] = {{"amp;", "&"},   {"lt;", "<"},    {"gt;", ">"},
                                           {"quot;", "\""}, {"apos;", "'"},  {"nbsp;", " "},
                                           {"ndash;", "–"}, {"mdash;", "—"}, {"hellip;", "…"}};
    const char *p = m->at + 1;
    size_t left = (size_t)(m->end - p);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i][0]);
        if (left < n || strncmp(p, names[i][0], n) != 0) continue;
        put_piece(m, names[i][1], strlen(names[i][1]));
        return n + 1;
    }
    if (left < 2 || *p != '#') return 0;
    bool hex = p[1] == 'x' || p[1] == 'X';
    uint32_t code = 0;
    size_t n = hex ? 2 : 1, first = n;
    for (; n < left && n < first + 8 && p[n] != ';'; n++) {
        int digit = p[n] >= '0' && p[n] <= '9'                        ? p[n] - '0'
                    : hex && (p[n] | 32) >= 'a' && (p[n] | 32) <= 'f' ? (p[n] | 32) - 'a' + 10
                                                                      : -1;
        if (digit < 0) return 0;
        code = code * (hex ? 16 : 10) + (uint32_t)digit;
    }
    if (n == first || n >= left || p[n] != ';' || code == 0 || code > 0x10ffff ||
        (code >= 0xd800 && code < 0xe000))
        return 0;
    char bytes[4];
    put_piece(m, bytes, (size_t)kt__utf8_encode(code, bytes));
    return n + 2;
}

void kt__markup_text(const char *data, size_t len, kt__buf *out) {
    marked m = {.at = data, .end = data + len, .out = out, .fresh = true};
    while (m.at < m.end && !out->failed) {
        if (is_tag(&m)) {
            take_tag(&m);
            continue;
        }
        size_t n = *m.at == '&' ? take_entity(&m) : 0;
        if (n) {
            m.at += n;
        } else if (strchr(" \t\r\n", *m.at) && *m.at) {
            m.blank = true;
            m.at++;
        } else {
            n = 1;
            while (m.at + n < m.end && !strchr(" \t\r\n<&", m.at[n])) n++;
            put_piece(&m, m.at, n);
            m.at += n;
        }
    }
    end_line(&m);
}

bool kt__markup_is(const char *data, size_t len) {
    while (len && strchr(" \t\r\n\xef\xbb\xbf", *data)) data++, len--;
    return (len > 9 && !kt__strncasecmp(data, "<!doctype", 9)) ||
           (len > 5 && !kt__strncasecmp(data, "<html", 5));
}
