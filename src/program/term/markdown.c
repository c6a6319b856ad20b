#include "term/screen.h"

#include <ctype.h>
#include <string.h>

#include "base/text.h"
#include "term/safe_text.h"

enum {
    MAX_PENDING = 1 << 20, /* never reached: what is longer than the next two is decided */
    MAX_WORD = 1024,
    MAX_LINE = 8192,
    MAX_TABLE = 64 << 10,
    MAX_ROWS = 200,
    MAX_COLUMNS = 24
};

enum { BLOCK_OPEN, BLOCK_TEXT, BLOCK_CODE }; /* OPEN: a line whose kind is not known yet */

enum { BOLD = 1, ITALIC = 2, CODE = 4, HEADING = 8, DIM = 16 };

/* What the start of a line says. */
typedef enum line_kind {
    KIND_UNDECIDED,
    KIND_TEXT,
    KIND_BLANK,
    KIND_HEADING,
    KIND_BULLET,
    KIND_NUMBER,
    KIND_QUOTE,
    KIND_RULE,
    KIND_ROW,
    KIND_FENCE,
    KIND_CODE,
    KIND_FENCE_END
} line_kind;

/* The undecided part of a line. */
typedef struct head {
    const char *s;
    size_t len;    /* up to the newline, if it is there */
    bool complete; /* the line ends after it */
    size_t lead;   /* blanks before the first other character */
} head;

void kt__markdown_init(kt__markdown *md, int width, bool styled) {
    *md = (kt__markdown){.width = width, .styled = styled};
    kt__buf_init(&md->pending, MAX_PENDING);
    kt__buf_init(&md->table, MAX_TABLE);
}

void kt__markdown_free(kt__markdown *md) {
    kt__buf_free(&md->pending);
    kt__buf_free(&md->table);
}

/* ---- styles ---- */

static void show_style(kt__markdown *md, kt__buf *out, unsigned style) {
    static const struct {
        unsigned bit;
        const char *code;
    } codes[] = {{BOLD, ";1"}, {ITALIC, ";3"}, {CODE, ";36"}, {HEADING, ";1;4"}, {DIM, ";2"}};
    if (!md->styled || md->shown == style) return;
    kt__buf_puts(out, "\033[0");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (style & codes[i].bit) kt__buf_puts(out, codes[i].code);
    }
    kt__buf_puts(out, "m");
    md->shown = style;
}

/* ---- what a line is ---- */

static size_t run_length(const head *h, size_t at, char c) {
    size_t n = 0;
    while (at + n < h->len && h->s[at + n] == c) n++;
    return n;
}

static bool all_blank(const head *h, size_t at) {
    while (at < h->len && (h->s[at] == ' ' || h->s[at] == '\t')) at++;
    return at == h->len;
}

static bool is_blank_at(const head *h, size_t at) {
    return at < h->len ? h->s[at] == ' ' || h->s[at] == '\t' : h->complete;
}

/* KIND_UNDECIDED while the line may still become of that kind; a line too long for it is text. */
static line_kind when_complete(const head *h, bool fits, line_kind kind) {
    if (!fits) return KIND_TEXT;
    if (h->complete) return kind;
    return h->len < MAX_LINE ? KIND_UNDECIDED : KIND_TEXT;
}

static line_kind heading_kind(const head *h, size_t *skip) {
    size_t n = run_length(h, h->lead, '#');
    if (n > 6) return KIND_TEXT;
    *skip = h->lead + n + 1;
    if (h->lead + n == h->len && !h->complete) return KIND_UNDECIDED;
    return is_blank_at(h, h->lead + n) ? KIND_HEADING : KIND_TEXT;
}

/* "- item", or "---" */
static line_kind dash_kind(const head *h, char c, size_t *skip) {
    size_t n = run_length(h, h->lead, c);
    *skip = h->lead + 2;
    if (h->lead + n == h->len && !h->complete) return when_complete(h, true, KIND_RULE);
    if (n == 1 && c != '_' && is_blank_at(h, h->lead + 1)) return KIND_BULLET;
    if (n >= 3 && c != '+') {
        line_kind kind = when_complete(h, all_blank(h, h->lead + n), KIND_RULE);
        if (kind != KIND_TEXT) return kind;
    }
    return KIND_TEXT;
}

static line_kind number_kind(const head *h, size_t *skip) {
    size_t at = h->lead;
    while (at < h->len && isdigit((unsigned char)h->s[at])) at++;
    if (at - h->lead > 9) return KIND_TEXT;
    if (at == h->len) return h->complete ? KIND_TEXT : KIND_UNDECIDED;
    if (h->s[at] != '.' && h->s[at] != ')') return KIND_TEXT;
    if (++at == h->len && !h->complete) return KIND_UNDECIDED;
    *skip = at + 1;
    return is_blank_at(h, at) ? KIND_NUMBER : KIND_TEXT;
}

static line_kind fence_kind(const head *h, char c) {
    size_t n = run_length(h, h->lead, c);
    if (n < 3) return h->lead + n == h->len && !h->complete ? KIND_UNDECIDED : KIND_TEXT;
    bool more_ticks = c == '`' && memchr(h->s + h->lead + n, '`', h->len - h->lead - n);
    return when_complete(h, !more_ticks, KIND_FENCE);
}

static line_kind code_kind(const kt__markdown *md, const head *h) {
    size_t n = run_length(h, h->lead, md->fence);
    bool open = h->lead + n == h->len && !h->complete;
    if (open && n < md->fence_len) return KIND_UNDECIDED;
    if (n < md->fence_len) return KIND_CODE;
    line_kind kind = when_complete(h, all_blank(h, h->lead + n), KIND_FENCE_END);
    return kind == KIND_TEXT ? KIND_CODE : kind;
}

/* *skip: bytes of the mark, which the text follows */
static line_kind kind_of(const kt__markdown *md, const head *h, size_t *skip) {
    *skip = 0;
    if (h->lead == h->len) {
        if (h->complete) return md->fence ? KIND_CODE : KIND_BLANK;
        return h->len < MAX_WORD ? KIND_UNDECIDED : md->fence ? KIND_CODE : KIND_TEXT;
    }
    char c = h->s[h->lead];
    if (md->fence) return c == md->fence ? code_kind(md, h) : KIND_CODE;
    switch (c) {
    case '#': return heading_kind(h, skip);
    case '-':
    case '+':
    case '_':
    case '*': return dash_kind(h, c, skip);
    case '`':
    case '~': return fence_kind(h, c);
    case '|': return when_complete(h, true, KIND_ROW);
    case '>':
        *skip = h->lead + 1;
        if (*skip == h->len && !h->complete) return KIND_UNDECIDED;
        *skip += is_blank_at(h, *skip);
        return KIND_QUOTE;
    default: return isdigit((unsigned char)c) ? number_kind(h, skip) : KIND_TEXT;
    }
}

/* ---- words ---- */

typedef struct word {
    const char *s;
    size_t len;
    char before, after; /* 0: the line's start and end */
} word;

static bool is_word_byte(char c) {
    return isalnum((unsigned char)c) || (unsigned char)c >= 0x80;
}

static bool is_space_or_end(char c) {
    return c == 0 || c == ' ' || c == '\t' || c == '\n';
}

static size_t same_run(const word *w, size_t at) {
    size_t n = 1;
    while (at + n < w->len && w->s[at + n] == w->s[at]) n++;
    return n;
}

/* Whether the run of n at `at` switches emphasis; the style is changed then. */
static bool switch_emphasis(kt__markdown *md, const word *w, size_t at, size_t n) {
    char c = w->s[at];
    char before = at ? w->s[at - 1] : w->before;
    char after = at + n < w->len ? w->s[at + n] : w->after;
    unsigned bits = n == 1 ? ITALIC : n == 2 ? BOLD : BOLD | ITALIC;
    if (n > 3) return false;
    if (md->style & bits) {
        if (is_space_or_end(before) || (c == '_' && is_word_byte(after))) return false;
        md->style &= ~bits;
        return true;
    }
    if (is_space_or_end(after)) return false;
    if ((c == '_' || n == 1) && is_word_byte(before)) return false;
    md->style |= bits;
    return true;
}

/* The same for backticks. */
static bool switch_code(kt__markdown *md, size_t n) {
    if (md->code_ticks && md->code_ticks != n) return false;
    md->code_ticks = md->code_ticks ? 0 : n;
    md->style ^= CODE;
    return true;
}

/* Bytes of markup at `at`, which are not shown; 0: none, show. */
static size_t take_markup(kt__markdown *md, const word *w, size_t at) {
    char c = w->s[at];
    if (c == '`') {
        size_t n = same_run(w, at);
        return switch_code(md, n) ? n : 0;
    }
    if (md->code_ticks) return 0;
    if (c == '\\' && at + 1 < w->len && ispunct((unsigned char)w->s[at + 1])) return 1;
    if (c != '*' && c != '_') return 0;
    size_t n = same_run(w, at);
    return switch_emphasis(md, w, at, n) ? n : 0;
}

/* The word as it is shown, and its cells. */
static int render_word(kt__markdown *md, const word *w, kt__buf *out) {
    int cells = 0;
    for (size_t i = 0; i < w->len;) {
        size_t skip = take_markup(md, w, i);
        bool escaped = skip && w->s[i] == '\\';
        i += skip;
        if (skip && !escaped) continue;
        size_t n = kt__cell_length(w->s + i, w->len - i);
        if (!skip && (w->s[i] == '*' || w->s[i] == '_' || w->s[i] == '`')) n = same_run(w, i);
        show_style(md, out, md->style);
        cells += kt__cells_width(w->s + i, n);
        kt__cells_append(out, w->s + i, n);
        i += n;
    }
    if (md->shown & ~md->style) show_style(md, out, md->style);
    return cells;
}

static void break_row(kt__markdown *md, kt__buf *out) {
    kt__buf_putc(out, '\n');
    for (int i = 0; i < md->indent; i++) kt__buf_putc(out, ' ');
    md->column = md->indent;
}

static void put_word(kt__markdown *md, const word *w, kt__buf *out) {
    kt__buf piece;
    kt__buf_init(&piece, 64 * MAX_WORD);
    int cells = render_word(md, w, &piece);
    if (md->column > md->indent && md->column + md->n_blanks + cells > md->width) {
        break_row(md, out);
    } else {
        for (int i = 0; i < md->n_blanks; i++) kt__buf_putc(out, ' ');
        md->column += md->n_blanks;
    }
    md->n_blanks = 0;
    if (piece.len) kt__buf_append(out, piece.data, piece.len);
    md->column += cells;
    kt__buf_free(&piece);
}

/* The length of the word at s[len], which is not blank; 0: its end has not come. A wide character
 * is a word of its own. */
static size_t word_length(const char *s, size_t len, bool complete) {
    for (size_t i = 0; i < len;) {
        if (is_space_or_end(s[i]) || i >= MAX_WORD) return i;
        size_t n = kt__cell_length(s + i, len - i);
        if (!complete && kt__utf8_incomplete_tail(s + i, len - i) == len - i) return 0;
        if (kt__cells_width(s + i, n) == 2 && (unsigned char)s[i] >= 0x80) {
            if (i) return i;
            return i + n < len || complete ? n : 0;
        }
        i += n;
    }
    return complete ? len : 0;
}

/* ---- lines ---- */

static void end_line(kt__markdown *md, kt__buf *out) {
    md->style = 0;
    show_style(md, out, 0);
    kt__buf_putc(out, '\n');
    md->block = BLOCK_OPEN;
    md->column = md->indent = md->n_blanks = 0;
    md->code_ticks = 0;
    md->before = 0;
}

static void put_blanks(kt__markdown *md, size_t n, kt__buf *out) {
    if (n > (size_t)md->width / 2) n = (size_t)md->width / 2;
    for (size_t i = 0; i < n; i++) kt__buf_putc(out, ' ');
    md->column += (int)n;
}

/* The mark of a list or a quotation; what follows is indented as far. */
static void put_mark(kt__markdown *md, size_t lead, const char *mark, size_t len, kt__buf *out) {
    put_blanks(md, lead, out);
    kt__buf_append(out, mark, len);
    md->column += kt__cells_width(mark, len);
    kt__buf_putc(out, ' ');
    md->indent = ++md->column;
}

static void put_rule(kt__markdown *md, kt__buf *out) {
    show_style(md, out, DIM);
    for (int i = 0; i < md->width && i < 40; i++) kt__buf_puts(out, "\u2500");
    end_line(md, out);
}

/* A fence as it was written, so that code can be told from text without colours, too. */
static void put_fence(kt__markdown *md, const head *h, bool opens, kt__buf *out) {
    show_style(md, out, DIM);
    kt__cells_append(out, h->s, h->len);
    md->fence = opens ? h->s[h->lead] : 0;
    md->fence_len = opens ? run_length(h, h->lead, md->fence) : 0;
    end_line(md, out);
}

/* ---- tables ---- */

typedef struct cells {
    const char *s[MAX_COLUMNS];
    size_t len[MAX_COLUMNS];
    int n;
} cells;

static void trim_blanks(const char **s, size_t *len) {
    while (*len && is_space_or_end(**s)) (*s)++, (*len)--;
    while (*len && is_space_or_end((*s)[*len - 1])) (*len)--;
}

/* The cells of "| a | b |"; what is beyond MAX_COLUMNS belongs to the last. */
static cells split_row(const char *s, size_t len) {
    cells row = {.n = 0};
    trim_blanks(&s, &len);
    if (len && *s == '|') s++, len--;
    if (len && s[len - 1] == '|' && (len < 2 || s[len - 2] != '\\')) len--;
    for (size_t from = 0, i = 0; i <= len; i++) {
        bool last = i == len;
        if (!last && (s[i] != '|' || (i && s[i - 1] == '\\') || row.n + 1 == MAX_COLUMNS)) continue;
        row.s[row.n] = s + from;
        row.len[row.n] = i - from;
        trim_blanks(&row.s[row.n], &row.len[row.n]);
        row.n++;
        from = i + 1;
    }
    return row;
}

static bool is_delimiter_row(const char *s, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (!strchr("|-: \t", s[i])) return false;
    }
    return memchr(s, '-', len) != NULL;
}

static int render_cell(kt__markdown *md, const char *s, size_t len, kt__buf *out) {
    unsigned around = md->style;
    word w = {s, len, 0, 0};
    int width = render_word(md, &w, out);
    md->style = around;
    md->code_ticks = 0;
    show_style(md, out, around);
    return width;
}

static size_t row_end(const kt__buf *table, size_t at) {
    const char *end = memchr(table->data + at, '\n', table->len - at);
    return end ? (size_t)(end - table->data) : table->len;
}

/* The widths of the columns; their number, or 0 where the table is none or too wide. */
static int measure_table(kt__markdown *md, int widths[MAX_COLUMNS]) {
    int n = 0, total = 0, row_number = 0;
    bool has_delimiter = false;
    kt__buf scratch;
    kt__buf_init(&scratch, 64 * MAX_LINE);
    memset(widths, 0, MAX_COLUMNS * sizeof *widths);
    for (size_t at = 0; at < md->table.len; row_number++) {
        size_t end = row_end(&md->table, at);
        bool delimiter = row_number == 1 && is_delimiter_row(md->table.data + at, end - at);
        cells row = split_row(md->table.data + at, end - at);
        has_delimiter = has_delimiter || delimiter;
        if (row.n > n) n = row.n;
        for (int i = 0; i < row.n && !delimiter; i++) {
            kt__buf_clear(&scratch);
            int width = render_cell(md, row.s[i], row.len[i], &scratch);
            if (width > widths[i]) widths[i] = width;
        }
        at = end + 1;
    }
    kt__buf_free(&scratch);
    for (int i = 0; i < n; i++) total += widths[i] + 3;
    return has_delimiter && total - 3 <= md->width ? n : 0;
}

static void put_row(kt__markdown *md, const cells *row, const int *widths, int n, kt__buf *out) {
    for (int i = 0; i < n; i++) {
        int width = i < row->n ? render_cell(md, row->s[i], row->len[i], out) : 0;
        if (i + 1 == n) break;
        for (; width < widths[i]; width++) kt__buf_putc(out, ' ');
        kt__buf_puts(out, " \u2502 ");
    }
    end_line(md, out);
}

static void put_delimiter(kt__markdown *md, const int *widths, int n, kt__buf *out) {
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < widths[i]; k++) kt__buf_puts(out, "\u2500");
        if (i + 1 < n) kt__buf_puts(out, "\u2500\u253c\u2500");
    }
    end_line(md, out);
}

/* The rows that were kept: as a table, or as they are. */
static void put_table(kt__markdown *md, kt__buf *out) {
    int widths[MAX_COLUMNS], row_number = 0;
    if (!md->table.len) return;
    int n = measure_table(md, widths);
    for (size_t at = 0; at < md->table.len; row_number++) {
        size_t end = row_end(&md->table, at);
        const char *s = md->table.data + at;
        if (!n) {
            kt__cells_append(out, s, end - at);
            end_line(md, out);
        } else if (row_number == 1) {
            put_delimiter(md, widths, n, out);
        } else {
            cells row = split_row(s, end - at);
            md->style = row_number ? 0 : BOLD;
            put_row(md, &row, widths, n, out);
        }
        at = end + 1;
    }
    kt__buf_clear(&md->table);
    md->n_rows = 0;
}

static void keep_row(kt__markdown *md, const head *h, kt__buf *out) {
    if (md->n_rows >= MAX_ROWS || md->table.len + h->len + 1 > MAX_TABLE) put_table(md, out);
    kt__buf_append(&md->table, h->s, h->len);
    kt__buf_putc(&md->table, '\n');
    md->n_rows++;
}

/* ---- the walk ---- */

static head head_of(const kt__markdown *md, bool ends) {
    head h = {.s = md->pending.data + md->at, .len = md->pending.len - md->at};
    const char *newline = memchr(h.s, '\n', h.len);
    h.complete = newline || ends;
    if (newline) h.len = (size_t)(newline - h.s);
    while (h.lead < h.len && (h.s[h.lead] == ' ' || h.s[h.lead] == '\t')) h.lead++;
    return h;
}

/* Steps over a line that was taken whole. */
static void skip_line(kt__markdown *md, const head *h) {
    size_t at = md->at + h->len;
    md->at = at < md->pending.len ? at + 1 : at;
}

/* What begins a line that is then read word by word. */
static void open_text(kt__markdown *md, const head *h, line_kind kind, size_t skip, kt__buf *out) {
    md->block = BLOCK_TEXT;
    if (kind != KIND_TEXT) md->at += skip < h->len ? skip : h->len;
    if (kind == KIND_HEADING) {
        md->style = HEADING;
    } else if (kind == KIND_BULLET) {
        put_mark(md, h->lead, "\u2022", strlen("\u2022"), out);
    } else if (kind == KIND_NUMBER) {
        put_mark(md, h->lead, h->s + h->lead, skip - 1 - h->lead, out);
    } else if (kind == KIND_QUOTE) {
        put_mark(md, h->lead, "\u2502", strlen("\u2502"), out);
        md->style = DIM;
    } else {
        put_blanks(md, h->lead, out);
        md->indent = md->column;
        md->at += h->lead;
    }
}

/* Decides the line that begins; false: more text is needed. */
static bool open_line(kt__markdown *md, bool ends, kt__buf *out) {
    size_t skip;
    head h = head_of(md, ends);
    line_kind kind = kind_of(md, &h, &skip);
    if (kind == KIND_UNDECIDED) return false;
    if (kind != KIND_ROW) put_table(md, out);
    switch (kind) {
    case KIND_ROW: keep_row(md, &h, out); break;
    case KIND_RULE: put_rule(md, out); break;
    case KIND_BLANK: end_line(md, out); break;
    case KIND_FENCE:
    case KIND_FENCE_END: put_fence(md, &h, kind == KIND_FENCE, out); break;
    case KIND_CODE: md->block = BLOCK_CODE; return true;
    default: open_text(md, &h, kind, skip, out); return true;
    }
    skip_line(md, &h);
    return true;
}

/* Code as far as it has come; false: more text is needed. */
static bool put_code(kt__markdown *md, bool ends, kt__buf *out) {
    const char *s = md->pending.data + md->at;
    size_t len = md->pending.len - md->at;
    const char *newline = memchr(s, '\n', len);
    size_t n = newline ? (size_t)(newline - s) : len;
    if (!newline && !ends) n -= kt__utf8_incomplete_tail(s, n);
    if (n) show_style(md, out, CODE);
    for (size_t i = 0, to; i < n; i = to) { /* tabs are kept here */
        const char *tab = memchr(s + i, '\t', n - i);
        to = tab ? (size_t)(tab - s) : n;
        kt__cells_append(out, s + i, to - i);
        if (tab) kt__buf_puts(out, "    ");
        to += tab != NULL;
    }
    md->column += (int)n;
    md->at += n;
    if (!newline) return false;
    md->at++;
    end_line(md, out);
    return true;
}

/* One word or blank; false: more text is needed. */
static bool put_text(kt__markdown *md, bool ends, kt__buf *out) {
    const char *s = md->pending.data + md->at;
    size_t len = md->pending.len - md->at;
    if (*s == '\n') {
        md->at++;
        end_line(md, out);
        return true;
    }
    if (*s == ' ' || *s == '\t' || *s == '\0') {
        if (*s == '\0') kt__cells_append(out, s, 1);
        if (*s != '\0') md->n_blanks++;
        md->before = ' ';
        md->at++;
        return true;
    }
    size_t n = word_length(s, len, ends);
    if (!n) return false;
    word w = {s, n, md->before, n < len ? s[n] : 0};
    put_word(md, &w, out);
    md->before = s[n - 1];
    md->at += n;
    return true;
}

static void put_decided(kt__markdown *md, bool ends, kt__buf *out) {
    bool more = true;
    while (more && md->at < md->pending.len) {
        if (md->block == BLOCK_OPEN) {
            more = open_line(md, ends, out);
        } else {
            more = md->block == BLOCK_CODE ? put_code(md, ends, out) : put_text(md, ends, out);
        }
    }
    size_t left = md->pending.len - md->at;
    if (left) memmove(md->pending.data, md->pending.data + md->at, left);
    md->pending.len = left;
    md->at = 0;
}

/* Carriage returns are dropped: with a newline they say nothing, and alone they would steer. */
static void append_pending(kt__markdown *md, const char *text, size_t len) {
    for (size_t i = 0, to; i < len; i = to + 1) {
        const char *at = memchr(text + i, '\r', len - i);
        to = at ? (size_t)(at - text) : len;
        kt__buf_append(&md->pending, text + i, to - i);
    }
}

void kt__markdown_feed(kt__markdown *md, const char *text, size_t len, kt__buf *out) {
    while (len) {
        size_t n = len < MAX_LINE ? len : MAX_LINE;
        append_pending(md, text, n);
        put_decided(md, false, out);
        text += n;
        len -= n;
    }
}

void kt__markdown_end(kt__markdown *md, kt__buf *out) {
    put_decided(md, true, out);
    put_table(md, out);
    if (md->column || md->block != BLOCK_OPEN) end_line(md, out);
    md->fence = 0;
    kt__buf_clear(&md->pending);
}
