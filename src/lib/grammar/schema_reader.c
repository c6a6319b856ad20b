#include "grammar/schema_reader.h"

#include "base/alloc.h"
#include "base/error.h"
#include "grammar/schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t kt__strie_step(const kt__schema *s, uint32_t at, uint8_t byte) {
    if (!at) return 0;
    for (uint32_t kid = s->trie[at].first; kid; kid = s->trie[kid].next)
        if (s->trie[kid].byte == byte) return kid;
    return 0;
}

void kt__schema_free(kt__schema *s) {
    kt__arena_free(&s->arena);
    kt__buf_free(&s->notes);
    kt__free(s->nodes);
    kt__free(s->numbers);
    kt__free(s->names);
    kt__free(s->name_table);
    *s = (kt__schema){0};
}

/* What reading a schema takes: failing with a place, tables of names and nodes. */

enum { ALL_TYPES = (1 << KT__V_N) - 1 };

/* ---- failing and noting ---- */

kt_status kt__sreader_fail(kt__sreader *r, kt_status status, const kt__json_node *node,
                           const char *keyword, const char *fmt, ...) {
    va_list args;
    if (r->status != KT_OK) return r->status;
    r->status = status;
    kt__refusal *w = r->why;
    kt__jdoc_pointer(node, w->pointer, sizeof w->pointer - 64);
    const char *name = keyword ? keyword : node->key ? node->key : "";
    snprintf(w->keyword, sizeof w->keyword, "%s", name);
    if (keyword) {
        size_t n = strlen(w->pointer);
        snprintf(w->pointer + n, sizeof w->pointer - n, "/%s", keyword);
    }
    va_start(args, fmt);
    vsnprintf(w->why, sizeof w->why, fmt, args);
    va_end(args);
    return kt__fail_at(r->err, status, w->pointer, UINT64_MAX, "%s%s%s", w->keyword,
                       w->keyword[0] ? ": " : "", w->why);
}

void *kt__sreader_alloc(kt__sreader *r, size_t count, size_t size) {
    void *p = kt__arena_calloc(&r->s->arena, count ? count : 1, size);
    if (!p && r->status == KT_OK) r->status = kt__fail_nomem(r->err, "a schema", count * size);
    return p;
}

void kt__sreader_note(kt__sreader *r, const kt__json_node *node, const char *keyword,
                      const char *what) {
    char pointer[512];
    kt__jdoc_pointer(node, pointer, sizeof pointer);
    kt__buf_printf(&r->s->notes, "%s/%s: %s\n", pointer, keyword, what);
}

/* ---- tables ---- */

static uint32_t hash_name(const char *s, size_t len) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < len; i++) h = (h ^ (uint8_t)s[i]) * 16777619u;
    return h ^ h >> 15;
}

bool kt__sreader_grow_names(kt__sreader *r) {
    kt__schema *s = r->s;
    uint32_t cap = s->names_cap ? s->names_cap * 2 : 64, mask = cap * 2 - 1;
    kt__gtext *names = kt__realloc_array(s->names, cap, sizeof *names);
    if (names) s->names = names;
    uint32_t *table = names ? kt__calloc(mask + 1, sizeof *table) : NULL;
    if (!table) {
        r->status = kt__fail_nomem(r->err, "names of a schema", cap * sizeof *names);
        return false;
    }
    for (uint32_t i = 1; i < s->n_names; i++) {
        uint32_t slot = hash_name(s->names[i].s, s->names[i].len) & mask;
        while (table[slot]) slot = (slot + 1) & mask;
        table[slot] = i;
    }
    kt__free(s->name_table);
    s->name_table = table;
    s->name_mask = mask;
    s->names_cap = cap;
    if (s->n_names == 0) s->n_names = 1;
    return true;
}

uint32_t kt__sreader_name(kt__sreader *r, const char *text, size_t len) {
    kt__schema *s = r->s;
    if (s->n_names >= KT__SCHEMA_MAX_NAMES) {
        kt__sreader_fail(r, KT_E_LIMIT, r->root, NULL, "more than %d names", KT__SCHEMA_MAX_NAMES);
        return 0;
    }
    if (s->n_names >= s->names_cap && !kt__sreader_grow_names(r)) return 0;
    uint32_t slot = hash_name(text, len) & s->name_mask;
    for (; s->name_table[slot]; slot = (slot + 1) & s->name_mask) {
        const kt__gtext *name = &s->names[s->name_table[slot]];
        if (name->len == len && memcmp(name->s, text, len) == 0) return s->name_table[slot];
    }
    s->names[s->n_names] = (kt__gtext){text, len};
    s->name_table[slot] = s->n_names;
    return s->n_names++;
}

kt__snode_id kt__sreader_new_node(kt__sreader *r, kt__json_node *json) {
    kt__schema *s = r->s;
    if (s->n_nodes == KT__SCHEMA_MAX_NODES) {
        kt__sreader_fail(r, KT_E_LIMIT, r->root, NULL, "more than %d subschemas",
                         KT__SCHEMA_MAX_NODES);
        return 0;
    }
    if (s->n_nodes >= s->nodes_cap) {
        uint32_t cap = s->nodes_cap ? s->nodes_cap * 2 : 64;
        kt__snode *nodes = kt__realloc_array(s->nodes, cap, sizeof *nodes);
        if (!nodes) {
            r->status = kt__fail_nomem(r->err, "a schema", cap * sizeof *nodes);
            return 0;
        }
        s->nodes = nodes;
        s->nodes_cap = cap;
        if (s->n_nodes == 0) s->n_nodes = 1;
    }
    s->nodes[s->n_nodes] = (kt__snode){.json = json,
                                       .types = ALL_TYPES,
                                       .text = KT__GPOOL_ANY,
                                       .max_props = UINT32_MAX,
                                       .min_contains = 1,
                                       .max_contains = UINT32_MAX,
                                       .max_items = UINT32_MAX};
    return s->n_nodes++;
}

kt__snode_id kt__sreader_node(kt__sreader *r, kt__json_node *json) {
    if (r->status != KT_OK) return 0;
    if (!json->schema) json->schema = kt__sreader_new_node(r, json);
    return json->schema;
}

static int by_name(const void *a, const void *b) {
    const kt__sprop *x = a, *y = b;
    return (x->name > y->name) - (x->name < y->name);
}

void kt__sprops_sort(kt__sprop *props, uint32_t n) {
    if (n > 1) qsort(props, n, sizeof *props, by_name);
}
