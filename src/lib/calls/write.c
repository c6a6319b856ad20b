#include "calls/prompt.h"

#include <string.h>

#include "base/json.h"
#include "calls/format.h"
#include "calls/tools_impl.h"

static void put_literal(kt__buf *out, const char *literal) {
    if (literal) kt__buf_puts(out, literal);
}

static void write_args(kt__buf *out, const kt__json_node *args) {
    if (args)
        kt__jnode_write(out, args);
    else
        kt__buf_puts(out, "{}");
}

static void write_id_member(kt__buf *out, const kt__call_format *f, const kt__call_text *call) {
    kt__json_string(out, f->id_key, strlen(f->id_key), KT__JSON_PLAIN);
    kt__buf_puts(out, ": ");
    kt__json_string(out, call->id ? call->id : "", call->id_len, KT__JSON_PLAIN);
}

static void write_object(kt__buf *out, const kt__call_format *f, const kt__call_text *call) {
    bool first = f->id_key && strcmp(f->id_key, "id") != 0, last = f->id_key && !first && call->id;
    kt__buf_putc(out, '{');
    if (!f->name_key) {
        kt__json_string(out, call->name, call->name_len, KT__JSON_PLAIN);
        kt__buf_puts(out, ": ");
        write_args(out, call->args);
        kt__buf_putc(out, '}');
        return;
    }
    if (first) {
        write_id_member(out, f, call);
        kt__buf_puts(out, ", ");
    }
    kt__buf_printf(out, "\"%s\": ", f->name_key);
    kt__json_string(out, call->name, call->name_len, KT__JSON_PLAIN);
    kt__buf_printf(out, ", \"%s\": ", f->args_key);
    write_args(out, call->args);
    if (last) {
        kt__buf_puts(out, ", ");
        write_id_member(out, f, call);
    }
    kt__buf_putc(out, '}');
}

static void write_named(kt__buf *out, const kt__call_format *f, const kt__call_text *call,
                        size_t index) {
    if (f->id_head) {
        kt__buf_append(out, call->id ? call->id : "0", call->id ? call->id_len : 1);
        put_literal(out, f->id_head);
    }
    if (f->id_rule == KT__ID_FUNCTIONS) kt__buf_puts(out, "functions.");
    kt__buf_append(out, call->name, call->name_len);
    if (f->id_rule == KT__ID_FUNCTIONS) kt__buf_printf(out, ":%zu", index);
    if (f->id_open) {
        put_literal(out, f->id_open);
        kt__buf_append(out, call->id ? call->id : "000000000", call->id ? call->id_len : 9);
    }
    put_literal(out, f->name_end);
    write_args(out, call->args);
}

/* ---- tags ---- */

static void write_elements(kt__buf *out, const kt__call_format *f, const kt__json_node *value) {
    bool list = value->type == KT__JSON_ARRAY;
    if (!list && value->type != KT__JSON_OBJECT) {
        if (value->type == KT__JSON_STRING)
            kt__buf_append(out, value->s, value->n);
        else
            kt__jnode_write(out, value);
        return;
    }
    for (const kt__json_node *kid = value->first; kid; kid = kid->next) {
        const char *key = list ? "item" : kid->key;
        size_t len = list ? 4 : kid->key_len;
        put_literal(out, f->param_open);
        kt__buf_append(out, key, len);
        kt__buf_putc(out, '>');
        write_elements(out, f, kid);
        put_literal(out, f->param_close);
        kt__buf_append(out, key, len);
        kt__buf_putc(out, '>');
    }
}

static void write_param(kt__buf *out, const kt__call_format *f, const kt__json_node *value) {
    bool string = value->type == KT__JSON_STRING;
    put_literal(out, f->param_open);
    kt__buf_append(out, value->key, value->key_len);
    put_literal(out, f->key_end ? f->key_end : string ? f->true_end : f->false_end);
    put_literal(out, f->pad);
    bool marked = f->cdata && string &&
                  (memchr(value->s, '<', value->n) || memchr(value->s, '&', value->n));
    if (marked) kt__buf_puts(out, "<![CDATA[");
    if (string)
        kt__buf_append(out, value->s, value->n);
    else
        kt__jnode_write(out, value);
    if (marked) kt__buf_puts(out, "]]>");
    put_literal(out, f->pad);
    put_literal(out, f->param_close);
    put_literal(out, f->gap);
}

static void write_tagged(kt__buf *out, const kt__call_format *f, const kt__call_text *call) {
    kt__buf_append(out, call->name, call->name_len);
    put_literal(out, f->name_end);
    put_literal(out, f->gap);
    if (!call->args) return;
    if (f->close_has_key) {
        write_elements(out, f, call->args);
        return;
    }
    for (const kt__json_node *kid = call->args->first; kid; kid = kid->next)
        write_param(out, f, kid);
}

/* ---- Python's and Gemma's ---- */

static void write_python(kt__buf *out, const kt__call_text *call) {
    kt__buf_append(out, call->name, call->name_len);
    kt__buf_putc(out, '(');
    for (const kt__json_node *kid = call->args ? call->args->first : NULL; kid; kid = kid->next) {
        kt__buf_append(out, kid->key, kid->key_len);
        kt__buf_putc(out, '=');
        kt__jnode_write(out, kid);
        if (kid->next) kt__buf_puts(out, ", ");
    }
    kt__buf_putc(out, ')');
}

static void write_bare(kt__buf *out, const char *quote, const kt__json_node *value) {
    bool list = value->type == KT__JSON_ARRAY;
    if (value->type == KT__JSON_STRING) {
        kt__buf_puts(out, quote);
        kt__buf_append(out, value->s, value->n);
        kt__buf_puts(out, quote);
        return;
    }
    if (!list && value->type != KT__JSON_OBJECT) {
        kt__jnode_write(out, value);
        return;
    }
    kt__buf_putc(out, list ? '[' : '{');
    for (const kt__json_node *kid = value->first; kid; kid = kid->next) {
        if (!list) {
            kt__buf_append(out, kid->key, kid->key_len);
            kt__buf_putc(out, ':');
        }
        write_bare(out, quote, kid);
        if (kid->next) kt__buf_putc(out, ',');
    }
    kt__buf_putc(out, list ? ']' : '}');
}

static void write_bare_call(kt__buf *out, const kt__call_format *f, const kt__call_text *call) {
    kt__buf_append(out, call->name, call->name_len);
    if (call->args)
        write_bare(out, f->quote, call->args);
    else
        kt__buf_puts(out, "{}");
}

static void write_harmony(kt__buf *out, const kt__call_text *call) {
    kt__buf_puts(out, "<|channel|>commentary to=functions.");
    kt__buf_append(out, call->name, call->name_len);
    kt__buf_puts(out, " <|constrain|>json<|message|>");
    write_args(out, call->args);
    kt__buf_puts(out, "<|call|>");
}

static void write_call(kt__buf *out, const kt__call_format *f, const kt__call_text *call,
                       size_t i) {
    put_literal(out, f->open);
    switch (f->kind) {
    case KT__CALLS_OBJECT: write_object(out, f, call); break;
    case KT__CALLS_NAMED: write_named(out, f, call, i); break;
    case KT__CALLS_TAGGED: write_tagged(out, f, call); break;
    case KT__CALLS_PYTHON: write_python(out, call); break;
    case KT__CALLS_BARE: write_bare_call(out, f, call); break;
    case KT__CALLS_HARMONY: write_harmony(out, call); break;
    case KT__CALLS_NONE: break;
    }
    put_literal(out, f->close);
}

void kt__calls_write(kt__buf *out, const kt__call_style *style, const kt__call_text *calls,
                     size_t n) {
    const kt__call_format *f = style->calls;
    bool list = f->array || f->kind == KT__CALLS_PYTHON;
    for (size_t i = 0; i < n; i++) {
        if (i > 0) put_literal(out, f->between);
        if (i == 0 || f->section_each) put_literal(out, f->section_open);
        if (i == 0 && list) kt__buf_putc(out, '[');
        write_call(out, f, &calls[i], i);
        if (i + 1 == n && list) kt__buf_putc(out, ']');
        if (i + 1 == n || f->section_each) put_literal(out, f->section_close);
    }
}
