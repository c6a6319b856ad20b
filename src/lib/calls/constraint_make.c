#include "calls/calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json.h"
#include "calls/constraint_impl.h"
#include "calls/scan.h"
#include "grammar/grammar.h"

enum { MAX_PIECES = 16 << 20, MAX_NOTES = 16 << 10 };

/* ---- a call ---- */

static void json_args(kt__call_writer *w, uint32_t tool) {
    kt__piece_next(&w->pieces);
    kt__buf_printf(&w->pieces, "{\"json\":%u}", tool);
}

static void nine_chars(kt__buf *out) {
    kt__piece_next(out);
    kt__buf_puts(out, "{\"some\":{\"any\":[");
    for (char c = '0'; c <= 'z'; c++) {
        bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (alnum) kt__piece_chars(out, &c, 1);
    }
    kt__buf_puts(out, "]},\"min\":9,\"max\":9}");
}

static void some_digits(kt__buf *out) {
    kt__piece_next(out);
    kt__buf_puts(out, "{\"some\":{\"any\":[");
    for (char c = '0'; c <= '9'; c++) kt__piece_chars(out, &c, 1);
    kt__buf_puts(out, "]},\"min\":1,\"max\":9}");
}

/* An id that the model may give its call. */
static void optional_id(kt__buf *out) {
    kt__piece_next(out);
    kt__buf_puts(out, "{\"any\":[\"\",[");
    kt__piece_text(out, ", \"id\": \"");
    nine_chars(out);
    kt__piece_text(out, "\"");
    kt__buf_puts(out, "]]}");
}

static void object_call(kt__call_writer *w, uint32_t tool, const char *name) {
    const kt__call_format *f = w->f;
    kt__buf *out = &w->pieces, text;
    bool first = f->id_key && strcmp(f->id_key, "id") != 0;
    kt__buf_init(&text, 4096);
    if (!f->name_key) {
        kt__buf_printf(&text, "{\"%s\": ", name);
    } else {
        if (first) {
            kt__buf_printf(&text, "{\"%s\": \"", f->id_key);
            kt__piece_text(out, text.data);
            some_digits(out);
            kt__buf_clear(&text);
        }
        kt__buf_printf(&text, "%s\"%s\": \"%s\", \"%s\": ", first ? "\", " : "{", f->name_key, name,
                       f->args_key);
    }
    kt__piece_text(out, text.data);
    json_args(w, tool);
    if (f->id_rule == KT__ID_ALNUM_9) {
        kt__piece_text(out, ", \"id\": \"");
        nine_chars(out);
        kt__piece_text(out, "\"}");
    } else {
        if (f->id_key && !first) optional_id(out);
        kt__piece_text(out, "}");
    }
    if (text.failed) w->failed = true;
    kt__buf_free(&text);
}

static void named_call(kt__call_writer *w, uint32_t tool, const char *name) {
    const kt__call_format *f = w->f;
    kt__buf *out = &w->pieces;
    if (f->id_head) {
        nine_chars(out);
        kt__piece_text(out, f->id_head);
    }
    if (f->id_rule == KT__ID_FUNCTIONS) kt__piece_text(out, "functions.");
    kt__piece_text(out, name);
    if (f->id_rule == KT__ID_FUNCTIONS) {
        kt__piece_text(out, ":");
        some_digits(out);
    }
    if (f->id_open) {
        kt__piece_text(out, f->id_open);
        nine_chars(out);
    }
    kt__piece_text(out, f->name_end);
    json_args(w, tool);
}

static void other_call(kt__call_writer *w, uint32_t tool, const char *name) {
    kt__buf *out = &w->pieces;
    kt__piece_text(out, name);
    switch (w->f->kind) {
    case KT__CALLS_TAGGED:
        kt__piece_text(out, w->f->name_end);
        kt__piece_tagged_gap(w);
        kt__piece_tagged(w, tool);
        break;
    case KT__CALLS_PYTHON:
        kt__piece_text(out, "(");
        kt__piece_python(w, tool);
        kt__piece_text(out, ")");
        break;
    case KT__CALLS_BARE: kt__piece_bare(w, tool); break;
    default: /* harmony */ kt__piece_text(out, " <|constrain|>json<|message|>"); json_args(w, tool);
    }
}

static void write_tool_call(kt__call_writer *w, uint32_t tool) {
    const char *name = w->rules->tools->items[tool].name;
    kt__piece_next(&w->pieces);
    kt__buf_putc(&w->pieces, '[');
    switch (w->f->kind) {
    case KT__CALLS_OBJECT: object_call(w, tool, name); break;
    case KT__CALLS_NAMED: named_call(w, tool, name); break;
    default: other_call(w, tool, name);
    }
    kt__piece_text(&w->pieces, w->f->close);
    kt__buf_putc(&w->pieces, ']');
}

/* One of the allowed tools, without what opens a call. */
static void write_one_call(kt__call_writer *w) {
    kt__piece_next(&w->pieces);
    kt__buf_puts(&w->pieces, "{\"any\":[");
    for (uint32_t i = 0; i < w->rules->tools->n; i++)
        if (kt__tool_allowed(&w->rules->choice, i)) write_tool_call(w, i);
    kt__buf_puts(&w->pieces, "]}");
}

/* ---- calls ---- */

static const char harmony_open[] = "<|channel|>commentary to=functions.";

static const char *open_of(const kt__call_format *f) {
    return f->kind == KT__CALLS_HARMONY ? harmony_open : f->open;
}

/* What opens a call, or a call with its section, without the first `skip` bytes. */
static void write_open(kt__call_writer *w, bool section, size_t skip) {
    const kt__call_format *f = w->f;
    bool list = section && (f->array || f->kind == KT__CALLS_PYTHON);
    kt__buf text;
    kt__buf_init(&text, 4096);
    if (section && f->section_open) kt__buf_puts(&text, f->section_open);
    if (list) kt__buf_putc(&text, '[');
    if (open_of(f)) kt__buf_puts(&text, open_of(f));
    if (text.len > skip) kt__piece_chars(&w->pieces, text.data + skip, text.len - skip);
    kt__buf_free(&text);
}

/* Further calls: each with what is between, and its section where it has one of its own. */
static void write_more_calls(kt__call_writer *w) {
    if (w->f->single || w->rules->one_call) return;
    kt__piece_next(&w->pieces);
    kt__buf_puts(&w->pieces, "{\"some\":[");
    kt__piece_text(&w->pieces, w->f->between);
    write_open(w, w->f->section_each, 0);
    write_one_call(w);
    if (w->f->section_each) kt__piece_text(&w->pieces, w->f->section_close);
    kt__buf_puts(&w->pieces, "],\"min\":0}");
}

static void write_calls(kt__call_writer *w, size_t skip) {
    const kt__call_format *f = w->f;
    bool list = f->array || f->kind == KT__CALLS_PYTHON;
    write_open(w, true, skip);
    write_one_call(w);
    if (f->section_each) kt__piece_text(&w->pieces, f->section_close);
    write_more_calls(w);
    if (list) kt__piece_text(&w->pieces, "]");
    if (!f->section_each) kt__piece_text(&w->pieces, f->section_close);
}

/* ---- reasoning before calls that must come ---- */

static bool tail_has(const kt__call_rules *r, const char *marker, size_t *at) {
    size_t len = marker ? strlen(marker) : 0;
    while (len > 0 && marker[len - 1] == '\n') len--;
    for (size_t i = r->prompt_tail_len; len > 0 && i >= len; i--)
        if (memcmp(r->prompt_tail + i - len, marker, len) == 0) {
            *at = i;
            return true;
        }
    return false;
}

static void reasoning_until(kt__call_writer *w, const char *close, const char *behind) {
    kt__piece_next(&w->pieces);
    kt__buf_puts(&w->pieces, "{\"until\":");
    kt__json_text(&w->pieces, close);
    kt__buf_putc(&w->pieces, '}');
    kt__piece_text(&w->pieces, close);
    kt__piece_text(&w->pieces, behind);
}

/* Reasoning that the prompt has begun must end; some that it has not may come. */
static void write_reasoning(kt__call_writer *w, const kt__reason_format *r) {
    size_t opened = 0, closed = 0;
    bool harmony = w->f->kind == KT__CALLS_HARMONY;
    const char *open = harmony ? "<|channel|>analysis<|message|>" : r->open;
    const char *close = harmony ? "<|end|>" : r->close;
    if (!open || !close) return;
    bool has_open = tail_has(w->rules, open, &opened);
    bool over = tail_has(w->rules, close, &closed) && closed > opened;
    if (has_open && !over) {
        reasoning_until(w, close, NULL);
        kt__buf_puts(&w->pieces, ",{\"any\":[\"\",\"\\n\",\"\\n\\n\"]}");
        return;
    }
    if (over) return;
    kt__piece_next(&w->pieces);
    kt__buf_puts(&w->pieces, "{\"any\":[\"\",[");
    kt__piece_text(&w->pieces, open);
    reasoning_until(w, close, harmony ? "<|start|>assistant" : NULL);
    if (!harmony) kt__buf_puts(&w->pieces, ",{\"any\":[\"\",\"\\n\",\"\\n\\n\"]}");
    kt__buf_puts(&w->pieces, "]]}");
}

/* ---- the answer ---- */

/* What starts a call in free text; its length within what opens calls. White space at its end is
 * left to what follows it. */
static size_t find_trigger(const kt__call_format *f, kt__call_constraint *out) {
    const char *text = f->section_open ? f->section_open : open_of(f);
    out->trigger[0] = '\0';
    if (f->kind == KT__CALLS_HARMONY) {
        snprintf(out->trigger, sizeof out->trigger, " to=functions.");
        return sizeof harmony_open - 1;
    }
    if (!text || f->at_start) return 0;
    size_t len = strlen(text);
    while (len > 0 && kt__is_blank(text[len - 1])) len--;
    snprintf(out->trigger, sizeof out->trigger, "%.*s", (int)len, text);
    return len;
}

static void begin_description(kt__call_writer *w) {
    kt__buf_clear(&w->pieces);
    kt__buf_clear(&w->schemas);
    kt__buf_putc(&w->schemas, '[');
    w->n_schemas = w->rules->tools->n;
    for (uint32_t i = 0; i < w->n_schemas; i++) {
        if (i > 0) kt__buf_putc(&w->schemas, ',');
        w->owner[i] = (uint16_t)i;
        kt__piece_tool_schema(w, i);
    }
    kt__buf_putc(&w->pieces, '[');
}

/* How a call of this tool begins, up to its arguments. */
static void call_head(const kt__call_writer *w, uint32_t tool, kt__buf *out) {
    const char *name = w->rules->tools->items[tool].name;
    if (w->f->kind == KT__CALLS_PYTHON)
        kt__buf_printf(out, "[%s(", name);
    else
        kt__buf_printf(out, "{\"%s\": \"%s\", \"%s\": ", w->f->name_key, name, w->f->args_key);
}

static void write_head(kt__call_writer *w, const char *tag, const char *end, uint32_t tool) {
    kt__buf head;
    kt__buf_init(&head, 4096);
    kt__buf_puts(&head, tag ? tag : "");
    kt__buf_puts(&head, end ? end : "");
    call_head(w, tool, &head);
    kt__piece_chars(&w->pieces, head.data, head.len);
    if (head.failed) w->failed = true;
    kt__buf_free(&head);
}

/* Where calls have no mark, but are the whole answer: calls, or any text that does not begin as
 * one. */
static void write_calls_or_text(kt__call_writer *w) {
    const char *tag = w->f->start_tag, *end = w->f->start_end;
    kt__buf_puts(&w->pieces, "{\"any\":[[");
    if (tag) {
        kt__buf_puts(&w->pieces, "{\"any\":[\"\"");
        kt__piece_text(&w->pieces, tag);
        if (end) {
            kt__buf_puts(&w->pieces, ",[");
            kt__piece_text(&w->pieces, tag);
            kt__piece_text(&w->pieces, end);
            kt__buf_putc(&w->pieces, ']');
        }
        kt__buf_puts(&w->pieces, "]}");
    }
    write_calls(w, 0);
    kt__buf_puts(&w->pieces, "],{\"not\":[");
    for (uint32_t i = 0; i < w->rules->tools->n; i++) {
        if (!kt__tool_allowed(&w->rules->choice, i)) continue;
        write_head(w, NULL, NULL, i);
        if (tag) write_head(w, tag, NULL, i);
        if (end) write_head(w, tag, end, i);
    }
    kt__buf_puts(&w->pieces, "]}]}");
}

static bool is_loose(const kt__call_format *f) {
    return f->section_loose && f->kind == KT__CALLS_TAGGED;
}

/* The arguments between tags of calls that come without what opens calls, by the tool's number: of a format whose
 * section may be left out its own, else those of other families. The caller says where they begin. Nothing where they
 * are too many. */
static void write_later_params(kt__call_writer *w, kt__buf *text) {
    const kt__call_format *own = w->f;
    const uint32_t n_schemas = w->n_schemas;
    const size_t schemas_len = w->schemas.len;
    bool loose = is_loose(own), failed = w->failed;
    kt__call_format format = loose ? *own : kt__foreign_params;
    kt__buf answer = w->pieces;
    format.pad_optional = true;
    kt__buf_init(&w->pieces, MAX_PIECES);
    w->f = &format;
    kt__buf_putc(&w->pieces, '[');
    for (uint32_t i = 0; i < w->rules->tools->n; i++) {
        kt__piece_next(&w->pieces);
        kt__buf_putc(&w->pieces, '[');
        if (kt__tool_allowed(&w->rules->choice, i)) {
            kt__piece_tagged_gap(w);
            kt__piece_tagged(w, i);
            kt__piece_text(&w->pieces, format.close);
        }
        kt__buf_putc(&w->pieces, ']');
    }
    if (w->failed && !failed) {
        w->failed = false;
        w->n_schemas = n_schemas;
        w->schemas.len = schemas_len;
    } else {
        kt__buf_puts(text, ",\"later\":");
        kt__buf_append(text, w->pieces.data, w->pieces.len);
        kt__buf_putc(text, ']');
        w->failed |= w->pieces.failed;
    }
    kt__buf_free(&w->pieces);
    w->pieces = answer;
    w->f = own;
}

static kt_status describe_answer(kt__call_writer *w, const kt__call_style *style,
                                 kt__call_constraint *out, kt_error *err) {
    size_t skip = 0, at = 0;
    kt__buf later;
    kt__buf_clear(&out->text);
    begin_description(w);
    if (w->rules->choice.mode == KT__TOOL_AUTO) {
        skip = find_trigger(w->f, out);
        if (!out->trigger[0] && !w->f->at_start) return KT_OK;
    } else {
        write_reasoning(w, style->reasoning);
        bool given = w->f->open && tail_has(w->rules, w->f->open, &at) &&
                     at == w->rules->prompt_tail_len;
        if (given) skip = strlen(w->f->open);
    }
    if (w->rules->choice.mode == KT__TOOL_AUTO && w->f->at_start)
        write_calls_or_text(w);
    else
        write_calls(w, skip);
    kt__buf_putc(&w->pieces, ']');
    kt__buf_init(&later, MAX_PIECES);
    if ((w->rules->any_spelling || is_loose(w->f)) && w->rules->choice.mode == KT__TOOL_AUTO)
        write_later_params(w, &later);
    kt__buf_putc(&w->schemas, ']');
    kt__buf_puts(&out->text, "{\"prefixItems\":");
    kt__buf_append(&out->text, w->schemas.data, w->schemas.len);
    kt__buf_puts(&out->text, ",\"pieces\":");
    kt__buf_append(&out->text, w->pieces.data, w->pieces.len);
    kt__buf_append(&out->text, later.data, later.len);
    kt__buf_putc(&out->text, '}');
    w->failed |= later.failed;
    kt__buf_free(&later);
    if (w->failed || w->schemas.failed || w->pieces.failed || out->text.failed)
        return kt__fail(err, KT_E_LIMIT, "the tools' parameters are too many or too long");
    return KT_OK;
}

/* Where no call may be made: any text without what opens one, after reasoning; where an answer has
 * other marks among its text, in all of it. Nothing for formats whose calls have no mark. */
static kt_status describe_silence(kt__call_writer *w, const kt__reason_format *r,
                                  kt__call_constraint *out, kt_error *err) {
    bool harmony = w->f->kind == KT__CALLS_HARMONY;
    bool marks = r->anywhere || r->blind || r->drop[0] || harmony;
    (void)find_trigger(w->f, out);
    if (!out->trigger[0]) return KT_OK;
    kt__buf_puts(&out->text, "{\"prefixItems\":[],\"pieces\":");
    kt__buf_putc(&w->pieces, '[');
    if (!marks) write_reasoning(w, r);
    kt__piece_next(&w->pieces);
    kt__buf_puts(&w->pieces, "{\"until\":");
    kt__json_text(&w->pieces, harmony ? "to=functions." : out->trigger);
    kt__buf_puts(&w->pieces, marks ? ",\"free\":true}]" : "}]");
    kt__buf_append(&out->text, w->pieces.data, w->pieces.len);
    kt__buf_putc(&out->text, '}');
    out->trigger[0] = '\0';
    if (w->pieces.failed || out->text.failed)
        return kt__fail_nomem(err, "a constraint of calls", 0);
    return KT_OK;
}

/* ---- tools that cannot be enforced ---- */

/* The tool that a refusal is about: its schema's number is in the pointer. */
static bool refused_tool(const kt__call_writer *w, const kt__refusal *why, uint32_t *tool) {
    static const char start[] = "/prefixItems/";
    if (strncmp(why->pointer, start, sizeof start - 1) != 0) return false;
    unsigned long n = strtoul(why->pointer + sizeof start - 1, NULL, 10);
    if (n >= w->n_schemas) return false;
    *tool = w->owner[n];
    return true;
}

/* A tool that is strict is refused; another's arguments may be any object, and a note says so. */
static kt_status loosen_tool(kt__call_writer *w, uint32_t tool, const kt__refusal *why,
                             kt__call_constraint *out, kt_status status, kt_error *err) {
    const kt__tool *t = &w->rules->tools->items[tool];
    if (t->strict) {
        char place[256];
        kt__jdoc_pointer(t->parameters, place, sizeof place);
        return kt__fail_at(err, status, place, UINT64_MAX, "%s: %s", why->keyword, why->why);
    }
    w->loose[tool] = true;
    kt__buf_printf(&out->notes, "the arguments of %s are not held to its schema: %s: %s\n", t->name,
                   why->keyword, why->why);
    return KT_OK;
}

static kt_status loosen_constraint(kt__call_writer *w, const kt__refusal *why,
                                   kt__call_constraint *out, kt_status status, kt_error *err) {
    uint32_t tool;
    if (!refused_tool(w, why, &tool) || w->loose[tool]) return status;
    return loosen_tool(w, tool, why, out, status, err);
}

/* A name that `required` has and a closed object cannot: clients that close the schemas of others make such. The grammar
 * finds it in a schema; a format whose arguments are tags has none of the arguments as a whole. NULL: none. */
static const kt__json_node *missing_name(const kt__json_node *schema) {
    const kt__json_node *more = kt__jdoc_member(schema, "additionalProperties", 20);
    const kt__json_node *names = kt__jdoc_member(schema, "required", 8);
    const kt__json_node *known = kt__jdoc_member(schema, "properties", 10);
    bool closed = more && more->type == KT__JSON_FALSE;
    if (!closed || kt__jdoc_member(schema, "patternProperties", 17)) return NULL;
    if (!names || names->type != KT__JSON_ARRAY || (known && known->type != KT__JSON_OBJECT))
        return NULL;
    for (const kt__json_node *name = names->first; name; name = name->next)
        if (name->type == KT__JSON_STRING && !(known && kt__jdoc_member(known, name->s, name->n)))
            return name;
    return NULL;
}

static kt_status loosen_impossible(kt__call_writer *w, kt__call_constraint *out, kt_error *err) {
    for (uint32_t i = 0; i < w->rules->tools->n; i++) {
        const kt__json_node *schema = w->rules->tools->items[i].parameters;
        bool read = schema && schema->type == KT__JSON_OBJECT &&
                    kt__tool_allowed(&w->rules->choice, i);
        if (!read || !missing_name(schema)) continue;
        const kt__refusal why = {.keyword = "required",
                                 .why = "a name that additionalProperties forbids"};
        KT__STEP(loosen_tool(w, i, &why, out, KT_E_UNSUPPORTED, err));
    }
    return KT_OK;
}

/* KT_OK: it compiles, or is to be described anew (*again). */
static kt_status try_description(kt__call_writer *w, kt__call_constraint *out, bool *again,
                                 kt_error *err) {
    const kt__grammar_source source = {
        .kind = KT__GRAMMAR_PIECES, .text = out->text.data, .len = out->text.len, .closed = true};
    kt__grammar *g = NULL;
    kt__refusal why = {0};
    *again = false;
    if (out->text.len == 0) return KT_OK;
    kt_status status = kt__grammar_create(&source, &g, &why, err);
    kt__grammar_free(g);
    if (status == KT_OK) return KT_OK;
    *again = true;
    return loosen_constraint(w, &why, out, status, err);
}

static kt_status make_constraint(kt__call_writer *w, const kt__call_style *style,
                                 kt__call_constraint *out, kt_error *err) {
    kt_status status = loosen_impossible(w, out, err);
    bool again = true;
    while (again && status == KT_OK) {
        status = describe_answer(w, style, out, err);
        if (status == KT_OK) status = try_description(w, out, &again, err);
    }
    return status;
}

kt_status kt__call_constraint_make(const kt__call_style *style, const kt__call_rules *rules,
                                   kt__call_constraint *out, kt_error *err) {
    *out = (kt__call_constraint){0};
    kt__buf_init(&out->text, 2 * MAX_PIECES);
    kt__buf_init(&out->notes, MAX_NOTES);
    bool none = rules->choice.mode == KT__TOOL_NONE;
    if (style->calls->kind == KT__CALLS_NONE || kt__tools_count(rules->tools) == 0) return KT_OK;
    kt__call_writer *w = kt__calloc(1, sizeof *w);
    if (!w) return kt__fail_nomem(err, "a constraint of calls", sizeof *w);
    w->f = style->calls;
    w->rules = rules;
    kt__buf_init(&w->pieces, MAX_PIECES);
    kt__buf_init(&w->schemas, MAX_PIECES);
    kt_status status = none ? describe_silence(w, style->reasoning, out, err)
                            : make_constraint(w, style, out, err);
    kt__buf_free(&w->pieces);
    kt__buf_free(&w->schemas);
    kt__free(w);
    return status;
}

void kt__call_constraint_free(kt__call_constraint *c) {
    kt__buf_free(&c->text);
    kt__buf_free(&c->notes);
}
