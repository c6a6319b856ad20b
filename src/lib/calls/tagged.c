#include "calls/parser_impl.h"

#include "base/json.h"
#include "base/text.h"

static const char cdata_open[] = "<![CDATA[", cdata_close[] = "]]>";

static kt__scan params_broken(kt__call_parser *p, bool complete) {
    if (complete) kt__buf_puts(&p->out, p->n_params > 0 ? "}" : "{}");
    kt__p_send_args(p);
    kt__p_end_call(p, complete);
    if (complete) {
        kt__p_go(p, KT__P_BETWEEN);
    } else {
        p->in_section = p->in_list = false;
        kt__p_resume(p);
    }
    return KT__SCAN_YES;
}

/* ---- between parameters ---- */

/* What ends a value: param_close, with the key where the format has it there. */
static void set_stop(kt__call_parser *p) {
    kt__buf_clear(&p->stop);
    kt__buf_puts(&p->stop, p->f->param_close);
    if (!p->f->close_has_key) return;
    kt__buf_append(&p->stop, p->key.data, p->key.len);
    kt__buf_putc(&p->stop, '>');
}

static void begin_value(kt__call_parser *p, uint32_t types) {
    kt__buf_puts(&p->out, p->n_params++ > 0 ? ", " : "{");
    kt__json_string(&p->out, p->key.data, p->key.len, KT__JSON_PLAIN);
    kt__buf_puts(&p->out, ": ");
    p->types = types;
    p->value_begun = false;
    p->value_string = types == KT__TYPES_STRING;
    set_stop(p);
    kt__p_send_args(p);
    kt__p_go(p, KT__P_VALUE);
}

/* The end of the key at `at`; *types is narrowed where the marker says what the value is. */
static kt__scan key_end_at(const kt__call_parser *p, const kt__span *span, size_t *at,
                           uint32_t *types) {
    const kt__call_format *f = p->f;
    if (f->key_end) return kt__scan_literal(span, f->key_end, at);
    kt__scan r = kt__scan_literal(span, f->true_end, at);
    if (r == KT__SCAN_YES) *types = KT__TYPES_STRING;
    if (r != KT__SCAN_NO) return r;
    r = kt__scan_literal(span, f->false_end, at);
    if (r == KT__SCAN_YES) *types = KT__TYPES_ALL & ~(uint32_t)KT__TYPES_STRING;
    return r;
}

/* The key at *at, and what ends it. */
static kt__scan read_key(kt__call_parser *p, const kt__span *span, size_t *at) {
    size_t from = *at;
    for (size_t to = from; to < span->n && to - from < KT__CALL_HEAD_BYTES; to++) {
        uint32_t types = 0;
        size_t end = to;
        kt__scan r = key_end_at(p, span, &end, &types);
        if (r == KT__SCAN_MORE) return r;
        if (r == KT__SCAN_NO) continue;
        if (to == from || span->s[from] == '/') return KT__SCAN_NO;
        kt__buf_clear(&p->key);
        kt__buf_append(&p->key, span->s + from, to - from);
        if (types == 0) types = kt__tool_param_types(p->tools, p->tool, p->key.data, p->key.len);
        begin_value(p, types);
        *at = end;
        return r;
    }
    return span->ended || span->n - from >= KT__CALL_HEAD_BYTES ? KT__SCAN_NO : KT__SCAN_MORE;
}

/* A marker between parameters. */
static kt__scan tag_at(const kt__span *span, const char *literal, size_t *at) {
    if (!literal) return KT__SCAN_NO;
    while (kt__is_blank(*literal)) literal++;
    return kt__scan_literal(span, literal, at);
}

kt__scan kt__p_params_step(kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    const kt__call_format *f = p->f;
    size_t at = 0;
    if (kt__scan_blanks(&span, &at) == KT__SCAN_MORE) {
        kt__p_consume(p, at);
        return KT__SCAN_MORE;
    }
    const size_t from = at;
    kt__scan r = tag_at(&span, f->close, &at);
    if (r == KT__SCAN_YES) kt__p_consume(p, at);
    if (r != KT__SCAN_NO) return r == KT__SCAN_YES ? params_broken(p, true) : r;
    r = tag_at(&span, f->section_close, &at);
    if (r != KT__SCAN_NO) return r == KT__SCAN_YES ? params_broken(p, true) : r;
    if (!f->close_has_key) { /* the end of a parameter once more */
        r = tag_at(&span, f->param_close, &at);
        if (r == KT__SCAN_YES) kt__p_consume(p, at);
        if (r != KT__SCAN_NO) return r;
    }
    at = from;
    r = tag_at(&span, f->param_open, &at);
    if (r == KT__SCAN_YES) r = read_key(p, &span, &at);
    if (r == KT__SCAN_YES) kt__p_consume(p, at);
    return r == KT__SCAN_NO ? params_broken(p, false) : r;
}

/* ---- values ---- */

/* The value's first bytes: the line end before it, or a CDATA section. */
static kt__scan value_start(kt__call_parser *p) {
    const kt__span span = kt__p_span(p);
    size_t at = 0;
    kt__scan r = KT__SCAN_NO;
    if (p->f->pad) r = kt__scan_exact(&span, p->f->pad, &at);
    if (p->f->cdata) {
        r = kt__scan_exact(&span, cdata_open, &at);
        if (r == KT__SCAN_YES) {
            kt__buf_clear(&p->stop);
            kt__buf_puts(&p->stop, cdata_close);
        }
    }
    if (r == KT__SCAN_MORE) return r;
    kt__p_consume(p, at);
    p->value_begun = true;
    if (p->value_string) kt__buf_putc(&p->out, '"');
    kt__p_send_args(p);
    return KT__SCAN_YES;
}

/* The place of the value's end in the unread text, at or after p->scanned, which is moved to what
 * may still be its beginning. */
static bool find_stop(kt__call_parser *p, const kt__span *span, size_t *stop) {
    size_t len = p->stop.len, at = p->scanned;
    for (; at < span->n; at++) {
        const char *hit = memchr(span->s + at, p->stop.data[0], span->n - at);
        if (!hit) {
            at = span->n;
            break;
        }
        at = (size_t)(hit - span->s);
        size_t n = span->n - at < len ? span->n - at : len;
        if (memcmp(hit, p->stop.data, n) != 0) continue;
        if (n < len) break;
        *stop = at;
        return true;
    }
    p->scanned = at;
    return false;
}

/* n without the line end that belongs to the format. */
static size_t without_pad(const kt__call_parser *p, const char *s, size_t n) {
    size_t pad = p->f->pad ? strlen(p->f->pad) : 0;
    return pad > 0 && n >= pad && memcmp(s + n - pad, p->f->pad, pad) == 0 ? n - pad : n;
}

static kt__scan value_whole(kt__call_parser *p, const kt__span *span, size_t stop) {
    size_t n = without_pad(p, span->s, stop);
    if (p->value_string) {
        kt__json_chars(&p->out, span->s, n, KT__JSON_PLAIN);
        kt__buf_putc(&p->out, '"');
    } else {
        kt__p_put_value(p, span->s, n);
    }
    kt__p_send_args(p);
    kt__p_consume(p, stop + p->stop.len);
    kt__p_go(p, KT__P_PARAMS);
    return KT__SCAN_YES;
}

/* A string's characters, as far as they cannot be the end's beginning. */
static void send_chars(kt__call_parser *p, const kt__span *span) {
    size_t n = span->ended ? span->n : without_pad(p, span->s, p->scanned);
    if (!span->ended) n -= kt__utf8_incomplete_tail(span->s, n);
    if (n == 0) return;
    size_t scanned = p->scanned > n ? p->scanned - n : 0;
    kt__json_chars(&p->out, span->s, n, KT__JSON_PLAIN);
    kt__p_send_args(p);
    kt__p_consume(p, n);
    p->scanned = scanned;
}

kt__scan kt__p_value_step(kt__call_parser *p) {
    if (!p->value_begun) {
        kt__scan r = value_start(p);
        return r == KT__SCAN_MORE && p->ended ? params_broken(p, false) : r;
    }
    const kt__span span = kt__p_span(p);
    size_t stop;
    if (find_stop(p, &span, &stop)) return value_whole(p, &span, stop);
    if (p->value_string) send_chars(p, &span);
    return p->ended ? params_broken(p, false) : KT__SCAN_MORE;
}

/* ---- what a text means ---- */

static uint32_t json_type_bit(char c) {
    switch (c) {
    case '{': return 1u << KT__JSON_OBJECT;
    case '[': return 1u << KT__JSON_ARRAY;
    case '"': return 1u << KT__JSON_STRING;
    case 't': return 1u << KT__JSON_TRUE;
    case 'f': return 1u << KT__JSON_FALSE;
    case 'n': return 1u << KT__JSON_NULL;
    default: return 1u << KT__JSON_NUMBER;
    }
}

static bool put_json(kt__buf *out, const char *s, size_t n, uint32_t types) {
    const kt__span span = {s, n, true};
    size_t at = 0;
    if (kt__jscan_value(&span, &at) != KT__SCAN_YES || at != n) return false;
    if (!(json_type_bit(s[0]) & types)) return false;
    return kt__buf_append(out, s, n);
}

/* As Python writes it, where that gives a value of these types. */
static bool put_python(kt__buf *out, const char *s, size_t n, uint32_t types) {
    const kt__span span = {s, n, true};
    kt__literal lit;
    kt__buf value;
    size_t at = 0;
    kt__buf_init(&value, 8 * n + 64);
    kt__literal_start(&lit, KT__LIT_VALUE, NULL, &value);
    bool good = kt__literal_read(&lit, &span, &at, &value) == KT__SCAN_YES && at == n &&
                !value.failed && (json_type_bit(value.data[0]) & types);
    if (good) kt__buf_append(out, value.data, value.len);
    kt__buf_free(&value);
    return good;
}

void kt__p_put_value(kt__call_parser *p, const char *s, size_t n) {
    uint32_t others = p->types & ~(uint32_t)KT__TYPES_STRING;
    size_t from = 0, to = n;
    while (from < to && kt__is_blank(s[from])) from++;
    while (to > from && kt__is_blank(s[to - 1])) to--;
    if (put_json(&p->out, s + from, to - from, others)) return;
    if (!(p->types & KT__TYPES_STRING)) {
        const kt__json_node *root = p->tools->items[p->tool].parameters;
        const kt__json_node *schema = root ? kt__schema_member(root, root, p->key.data, p->key.len)
                                           : NULL;
        if (put_python(&p->out, s + from, to - from, others)) return;
        if (p->f->close_has_key && kt__elements_json(p->f, root, schema, s, n, &p->out)) return;
        if (put_json(&p->out, s + from, to - from, KT__TYPES_ALL)) return;
    }
    kt__json_string(&p->out, s, n, KT__JSON_PLAIN);
}

/* ---- objects and lists as elements within elements: <key>value</key>, <item>value</item> ---- */

enum { MAX_NEST = 32 };

typedef struct element_reader {
    const kt__call_format *f;
    const kt__json_node *root;
    kt__buf *out;
} element_reader;

static bool put_element(const element_reader *r, const kt__json_node *schema, const char *s,
                        size_t n, int depth);

/* One element at *at: its key and the text within, to the matching close. */
static bool next_element(const kt__call_format *f, const char *s, size_t n, size_t *at,
                         kt__span *key, kt__span *value) {
    const kt__span span = {s, n, true};
    size_t open = *at, opened = 1;
    kt__scan_blanks(&span, &open);
    if (kt__scan_exact(&span, f->param_open, &open) != KT__SCAN_YES) return false;
    const char *end = memchr(s + open, '>', n - open);
    if (!end || s[open] == '/' || end == s + open) return false;
    *key = (kt__span){s + open, (size_t)(end - s) - open, true};
    size_t from = (size_t)(end - s) + 1, i = from;
    while (i < n && opened > 0) {
        size_t close = i;
        bool closes = kt__scan_exact(&span, f->param_close, &close) == KT__SCAN_YES;
        size_t name = i;
        if (!closes && kt__scan_exact(&span, f->param_open, &name) != KT__SCAN_YES) {
            i++;
            continue;
        }
        if (closes) name = close;
        bool same = n - name > key->n && memcmp(s + name, key->s, key->n) == 0 &&
                    s[name + key->n] == '>';
        if (same && closes && --opened == 0) {
            *value = (kt__span){s + from, i - from, true};
            *at = name + key->n + 1;
            return true;
        }
        if (same && !closes) opened++;
        i = name;
    }
    return false;
}

static const kt__json_node *items_schema(const element_reader *r, const kt__json_node *schema) {
    if (!schema || schema->type != KT__JSON_OBJECT) return NULL;
    return kt__schema_resolve(r->root, kt__jdoc_member(schema, "items", 5));
}

static bool put_elements(const element_reader *r, const kt__json_node *schema, const char *s,
                         size_t n, int depth) {
    kt__span key, value;
    size_t at = 0, count = 0;
    bool list = false;
    while (next_element(r->f, s, n, &at, &key, &value)) {
        bool item = key.n == 4 && memcmp(key.s, "item", 4) == 0;
        uint32_t types = schema ? kt__schema_types(r->root, schema) : KT__TYPES_ALL;
        if (count == 0) {
            list = item && (types & 1u << KT__JSON_ARRAY);
            kt__buf_putc(r->out, list ? '[' : '{');
        } else {
            kt__buf_puts(r->out, ", ");
        }
        count++;
        const kt__json_node *sub = list ? items_schema(r, schema)
                                        : kt__schema_member(r->root, schema, key.s, key.n);
        if (!list) {
            kt__json_string(r->out, key.s, key.n, KT__JSON_PLAIN);
            kt__buf_puts(r->out, ": ");
        }
        if (!put_element(r, sub, value.s, value.n, depth + 1)) return false;
    }
    const kt__span span = {s, n, true};
    kt__scan_blanks(&span, &at);
    if (count > 0) kt__buf_putc(r->out, list ? ']' : '}');
    return count > 0 && at == n;
}

static bool put_element(const element_reader *r, const kt__json_node *schema, const char *s,
                        size_t n, int depth) {
    const kt__span span = {s, n, true};
    uint32_t types = schema ? kt__schema_types(r->root, schema) : KT__TYPES_ALL;
    size_t at = 0, mark = r->out->len;
    if (depth > MAX_NEST) return false;
    if (types != KT__TYPES_STRING) {
        if (kt__jscan_value(&span, &at) == KT__SCAN_YES && at == n && s[0] != '"')
            return kt__buf_append(r->out, s, n);
        if (put_elements(r, schema, s, n, depth)) return true;
        r->out->len = mark;
    }
    kt__json_string(r->out, s, n, KT__JSON_PLAIN);
    return true;
}

bool kt__elements_json(const kt__call_format *f, const kt__json_node *root,
                       const kt__json_node *schema, const char *s, size_t n, kt__buf *out) {
    const element_reader r = {f, root, out};
    size_t mark = out->len;
    if (n == 0 && schema && (kt__schema_types(root, schema) & 1u << KT__JSON_ARRAY))
        return kt__buf_puts(out, "[]");
    if (n == 0 && schema && (kt__schema_types(root, schema) & 1u << KT__JSON_OBJECT))
        return kt__buf_puts(out, "{}");
    if (put_elements(&r, schema, s, n, 0)) return true;
    out->len = mark;
    return false;
}
