/* Writes the answers of BFCL tasks in each format, and has the constraint and the parser read them.
 *   calls BFCL.jsonl [FORMAT]     one line a failure, then a table; ends with 1 if one failed */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../calls_roundtrip.h"
#include "base/alloc.h"
#include "calls/tools_impl.h"

enum { MAX_CALLS = 16 };

typedef struct tally {
    size_t fits, fails, skipped;
} tally;

static bool is_absent(const kt__json_node *value) {
    return !value || (value->type == KT__JSON_STRING && value->n == 0);
}

/* The first of a list of right values; "" says that there may be none. */
static const kt__json_node *first_of(const kt__json_node *list) {
    const kt__json_node *value = list->type == KT__JSON_ARRAY ? list->first : NULL;
    return value && is_absent(value) ? value->next : value;
}

/* The members of objects within a value have lists of right values as well. */
static void put_nested(kt__buf *out, const kt__json_node *value) {
    bool list = value->type == KT__JSON_ARRAY, first = true;
    if (!list && value->type != KT__JSON_OBJECT) {
        kt__jnode_write(out, value);
        return;
    }
    kt__buf_putc(out, list ? '[' : '{');
    for (const kt__json_node *kid = value->first; kid; kid = kid->next) {
        const kt__json_node *item = list || kid->type != KT__JSON_ARRAY ? kid : first_of(kid);
        if (!item) continue;
        if (!first) kt__buf_putc(out, ',');
        if (!list) kt__buf_printf(out, "\"%.*s\":", (int)kid->key_len, kid->key);
        put_nested(out, item);
        first = false;
    }
    kt__buf_putc(out, list ? ']' : '}');
}

/* A right value for each argument. */
static void put_answer(kt__buf *out, const kt__json_node *args, bool nested) {
    bool first = true;
    kt__buf_putc(out, '{');
    for (const kt__json_node *arg = args->first; arg; arg = arg->next) {
        const kt__json_node *value = first_of(arg);
        if (is_absent(value)) continue;
        kt__buf_printf(out, "%s\"%.*s\":", first ? "" : ",", (int)arg->key_len, arg->key);
        if (nested)
            put_nested(out, value);
        else
            kt__jnode_write(out, value);
        first = false;
    }
    kt__buf_putc(out, '}');
}

/* Some listed answers are not what their tool's schema allows. */
static bool is_valid(const kt__tools *tools, const kt__call_text *call, kt__buf *json) {
    uint32_t i = kt__tools_find(tools, call->name, call->name_len);
    kt__buf schema;
    kt__grammar *g;
    kt__gstate s;
    if (i == UINT32_MAX) return false;
    kt__buf_init(&schema, 1 << 20);
    kt__jnode_write(&schema, tools->items[i].parameters);
    kt__grammar_source source = {.kind = KT__GRAMMAR_SCHEMA,
                                 .text = schema.data,
                                 .len = schema.len,
                                 .layout = KT__LAYOUT_ANY};
    if (kt__grammar_create(&source, &g, NULL, NULL) != KT_OK) return false;
    size_t n = json->len;
    kt__grammar_start(g, &s);
    bool valid = kt__grammar_feed(g, &s, json->data, &n) && kt__grammar_accepts(g, &s);
    kt__grammar_free(g);
    kt__buf_free(&schema);
    return valid;
}

/* One call of an answer. */
static bool read_call(kt__arena *arena, const kt__tools *tools, const kt__json_node *call,
                      kt__call_text *out) {
    bool valid = false;
    for (int nested = 0; nested < 2 && !valid; nested++) {
        kt__buf json;
        kt__json_node *args;
        kt__buf_init(&json, 1 << 20);
        put_answer(&json, call, nested);
        char *kept = kt__arena_strndup(arena, json.data, json.len);
        if (!kept || kt__jdoc_parse(arena, kept, json.len, &args, NULL) != KT_OK) abort();
        *out = (kt__call_text){call->key, call->key_len, "000000001", 9, args};
        valid = is_valid(tools, out, &json);
        kt__buf_free(&json);
    }
    return valid;
}

static size_t read_calls(kt__arena *arena, const kt__tools *tools, const kt__json_node *answers,
                         kt__call_text *calls, bool *valid) {
    size_t n = 0;
    *valid = true;
    for (const kt__json_node *answer = answers->first; answer && n < MAX_CALLS;
         answer = answer->next)
        if (!read_call(arena, tools, answer->first, &calls[n++])) *valid = false;
    return n;
}

static void check_task(const kt__call_style *style, const kt__tools *tools,
                       const kt__call_text *calls, size_t n, const char *id, tally *t) {
    kt__buf text;
    kt__buf_init(&text, 1 << 20);
    if (style->calls->single) n = 1;
    const char *wrong = rt_check(style, tools, calls, n, &text);
    if (wrong) printf("FAIL %s %s: %s\n  %s\n", style->calls->name, id, wrong, text.data);
    *(wrong ? &t->fails : &t->fits) += 1;
    kt__buf_free(&text);
}

static void check_line(char *line, const char *only, tally *tallies) {
    kt__arena arena;
    kt__json_node *root;
    kt__tools *tools;
    kt__buf list;
    kt_error err = {0};
    kt__call_text calls[MAX_CALLS];
    bool valid;
    kt__arena_init(&arena, 1 << 16, 256 << 20);
    kt__buf_init(&list, 1 << 22);
    if (kt__jdoc_parse(&arena, line, strlen(line), &root, NULL) != KT_OK) abort();
    kt__jnode_write(&list, kt__jdoc_member(root, "tools", 5));
    const kt__json_node *id = kt__jdoc_member(root, "id", 2);
    char *name = kt__strndup(id->s, id->n);
    if (kt__tools_read(list.data, list.len, &tools, &err) != KT_OK) {
        printf("FAIL %s: %s at %s\n", name, err.message, err.where);
        exit(1);
    }
    const kt__json_node *answers = kt__jdoc_member(root, "answers", 7);
    size_t n = answers ? read_calls(&arena, tools, answers, calls, &valid) : 0;
    for (size_t i = 0; i < kt__n_call_formats; i++) {
        kt__call_style style;
        const char *format = kt__call_formats[i].name;
        if (strcmp(format, "none") == 0 || (only && strcmp(only, format) != 0)) continue;
        if (!kt__call_style_named(format, "none", &style)) abort();
        if (n > 0 && !valid)
            tallies[i].skipped++;
        else if (n > 0)
            check_task(&style, tools, calls, n, name, &tallies[i]);
    }
    kt__tools_free(tools);
    kt__free(name);
    kt__buf_free(&list);
    kt__arena_free(&arena);
}

int main(int argc, char **argv) {
    static char line[1 << 20];
    static tally tallies[128];
    size_t failed = 0;
    FILE *in = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (!in) return 2;
    while (fgets(line, sizeof line, in)) check_line(line, argc > 2 ? argv[2] : NULL, tallies);
    for (size_t i = 0; i < kt__n_call_formats; i++) {
        const tally *t = &tallies[i];
        if (t->fits + t->fails + t->skipped == 0) continue;
        printf("%-16s %zu equal, %zu not, %zu listed answers that their schema does not allow\n",
               kt__call_formats[i].name, t->fits, t->fails, t->skipped);
        failed += t->fails;
    }
    fclose(in);
    return failed > 0;
}
