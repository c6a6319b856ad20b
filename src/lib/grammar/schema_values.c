/* enum and const: single values as terms, numbers and nodes. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "grammar/schema_reader.h"

enum {
    MAX_NUMBERS = 4096, /* of an enum: each is looked at for each character of a number */
    MAX_COMPARED = 256  /* numbers that are looked through for an equal one */
};

uint32_t kt__sreader_number(kt__sreader *r, const kt__json_node *json, const char *keyword,
                            kt__num_op op) {
    kt__schema *s = r->s;
    (void)keyword;
    if (s->n_numbers >= s->numbers_cap) {
        uint32_t cap = s->numbers_cap ? s->numbers_cap * 2 : 16;
        kt__snum *numbers = kt__realloc_array(s->numbers, cap, sizeof *numbers);
        if (!numbers) {
            r->status = kt__fail_nomem(r->err, "a schema", cap * sizeof *numbers);
            return 0;
        }
        s->numbers = numbers;
        s->numbers_cap = cap;
    }
    kt__snum *n = &s->numbers[s->n_numbers];
    *n = (kt__snum){.op = op};
    if (!kt__decimal_parse(json->s, json->n, &n->value)) {
        kt__sreader_fail(r, KT_E_UNSUPPORTED, json, NULL, "a number of more than %d digits",
                         KT__DEC_DIGITS);
        return 0;
    }
    if (op == KT__NUM_STEP && !kt__decimal_step_from(&n->value, &n->step)) {
        kt__sreader_fail(r, KT_E_UNSUPPORTED, json, NULL,
                         "expected a number over 0 of at most 18 digits");
        return 0;
    }
    for (uint32_t i = 0; i < s->n_numbers && i < MAX_COMPARED; i++)
        if (s->numbers[i].op == op && kt__decimal_compare(&s->numbers[i].value, &n->value) == 0)
            return i;
    return s->n_numbers++;
}

/* The schema that takes this one value. */
static kt__snode_id constant_node(kt__sreader *r, kt__json_node *value);

static kt__svalues *new_values(kt__sreader *r, size_t n) {
    kt__svalues *v = kt__sreader_alloc(r, 1, sizeof *v);
    if (!v) return NULL;
    v->strings = KT__GPOOL_EMPTY;
    v->numbers = kt__sreader_alloc(r, n, sizeof *v->numbers);
    v->arrays.ids = kt__sreader_alloc(r, n, sizeof *v->arrays.ids);
    v->objects.ids = kt__sreader_alloc(r, n, sizeof *v->objects.ids);
    return r->status == KT_OK ? v : NULL;
}

static void add_value(kt__sreader *r, kt__svalues *v, kt__json_node *value) {
    switch (value->type) {
    case KT__JSON_NULL: v->null = true; break;
    case KT__JSON_FALSE: v->no = true; break;
    case KT__JSON_TRUE: v->yes = true; break;
    case KT__JSON_NUMBER:
        if (v->n_numbers == MAX_NUMBERS)
            kt__sreader_fail(r, KT_E_LIMIT, value, NULL, "more than %d numbers", MAX_NUMBERS);
        if (r->status != KT_OK) return;
        v->numbers[v->n_numbers++] = kt__sreader_number(r, value, NULL, KT__NUM_EQ);
        break;
    case KT__JSON_STRING: break; /* all together */
    case KT__JSON_ARRAY: v->arrays.ids[v->arrays.n++] = constant_node(r, value); break;
    case KT__JSON_OBJECT: v->objects.ids[v->objects.n++] = constant_node(r, value); break;
    }
}

static int by_text(const void *a, const void *b) {
    const kt__gtext *x = a, *y = b;
    size_t n = x->len < y->len ? x->len : y->len;
    int c = memcmp(x->s, y->s, n);
    return c ? c : (x->len > y->len) - (x->len < y->len);
}

static kt__gid strings_term(kt__sreader *r, kt__json_node *const *values, size_t n) {
    kt__gtext *texts = kt__calloc(n + 1, sizeof *texts);
    size_t n_texts = 0, kept = 0;
    if (!texts) {
        r->status = kt__fail_nomem(r->err, "an enum", n * sizeof *texts);
        return KT__GPOOL_EMPTY;
    }
    for (size_t i = 0; i < n; i++)
        if (values[i]->type == KT__JSON_STRING)
            texts[n_texts++] = (kt__gtext){values[i]->s, values[i]->n};
    if (n_texts > 1) qsort(texts, n_texts, sizeof *texts, by_text);
    for (size_t i = 0; i < n_texts; i++)
        if (kept == 0 || by_text(&texts[kept - 1], &texts[i]) != 0) texts[kept++] = texts[i];
    kt__gid term = kt__term_one_of(r->t, texts, kept);
    kt__free(texts);
    return term;
}

kt__svalues *kt__sreader_values(kt__sreader *r, kt__json_node *const *values, size_t n) {
    kt__svalues *v = new_values(r, n);
    for (size_t i = 0; v && i < n && r->status == KT_OK; i++) add_value(r, v, values[i]);
    if (v) v->strings = strings_term(r, values, n);
    return v;
}

/* An enum of one, for each kid. */
static kt__snode_id kid_node(kt__sreader *r, kt__json_node *kid) {
    if (kid->type == KT__JSON_ARRAY || kid->type == KT__JSON_OBJECT) return constant_node(r, kid);
    kt__snode_id id = kt__sreader_new_node(r, NULL);
    kt__svalues *v = id ? kt__sreader_values(r, &kid, 1) : NULL;
    if (v) r->s->nodes[id].constant = v;
    return v ? id : 0;
}

static void fill_array(kt__sreader *r, kt__snode *n, kt__json_node *value) {
    n->types = 1u << KT__V_ARRAY;
    n->min_items = n->max_items = value->n;
    n->prefix.ids = kt__sreader_alloc(r, value->n, sizeof *n->prefix.ids);
    for (kt__json_node *kid = value->first; n->prefix.ids && kid; kid = kid->next)
        n->prefix.ids[n->prefix.n++] = kid_node(r, kid);
}

static void fill_object(kt__sreader *r, kt__snode *n, kt__json_node *value) {
    n->types = 1u << KT__V_OBJECT;
    n->max_props = value->n;
    n->props = kt__sreader_alloc(r, value->n, sizeof *n->props);
    n->required = kt__sreader_alloc(r, value->n, sizeof *n->required);
    if (r->status != KT_OK) return;
    for (kt__json_node *kid = value->first; kid; kid = kid->next) {
        uint32_t name = kt__sreader_name(r, kid->key, kid->key_len);
        n->required[n->n_required++] = name;
        n->props[n->n_props++] = (kt__sprop){name, kid_node(r, kid)};
    }
    kt__sprops_sort(n->props, n->n_props);
    n->additional = kt__sreader_new_node(r, NULL);
    if (n->additional) r->s->nodes[n->additional].never = true;
}

static kt__snode_id constant_node(kt__sreader *r, kt__json_node *value) {
    kt__snode_id id = kt__sreader_new_node(r, NULL);
    if (!id) return 0;
    kt__snode node = r->s->nodes[id];
    if (value->type == KT__JSON_ARRAY)
        fill_array(r, &node, value);
    else
        fill_object(r, &node, value);
    r->s->nodes[id] = node;
    return id;
}
