/* Objects and lists as elements within elements: <key>value</key>, <item>value</item>. */
#include "base/json.h"
#include "calls/parser_impl.h"

enum { MAX_NEST = 32 };

typedef struct element_reader {
    const kt__call_format *f;
    const kt__jnode *root;
    kt__buf *out;
} element_reader;

static bool put_element(const element_reader *r, const kt__jnode *schema, const char *s, size_t n,
                        int depth);

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

static const kt__jnode *items_schema(const element_reader *r, const kt__jnode *schema) {
    if (!schema || schema->type != KT__JT_OBJECT) return NULL;
    return kt__schema_resolve(r->root, kt__jdoc_member(schema, "items", 5));
}

static bool put_elements(const element_reader *r, const kt__jnode *schema, const char *s, size_t n,
                         int depth) {
    kt__span key, value;
    size_t at = 0, count = 0;
    bool list = false;
    while (next_element(r->f, s, n, &at, &key, &value)) {
        bool item = key.n == 4 && memcmp(key.s, "item", 4) == 0;
        uint32_t types = schema ? kt__schema_types(r->root, schema) : KT__TYPES_ALL;
        if (count == 0) {
            list = item && (types & 1u << KT__JT_ARRAY);
            kt__buf_putc(r->out, list ? '[' : '{');
        } else {
            kt__buf_puts(r->out, ", ");
        }
        count++;
        const kt__jnode *sub = list ? items_schema(r, schema)
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

static bool put_element(const element_reader *r, const kt__jnode *schema, const char *s, size_t n,
                        int depth) {
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

bool kt__elements_json(const kt__call_format *f, const kt__jnode *root, const kt__jnode *schema,
                       const char *s, size_t n, kt__buf *out) {
    const element_reader r = {f, root, out};
    size_t mark = out->len;
    if (n == 0 && schema && (kt__schema_types(root, schema) & 1u << KT__JT_ARRAY))
        return kt__buf_puts(out, "[]");
    if (n == 0 && schema && (kt__schema_types(root, schema) & 1u << KT__JT_OBJECT))
        return kt__buf_puts(out, "{}");
    if (put_elements(&r, schema, s, n, 0)) return true;
    out->len = mark;
    return false;
}
