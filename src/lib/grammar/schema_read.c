/* Keywords to nodes. */
#include "grammar/schema_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "grammar/notation.h"

enum { ARENA_BYTES = 256 << 20 };

/* ---- values of keywords ---- */

typedef struct reading {
    kt__sreader *r;
    kt__json_node *json; /* the subschema */
    kt__snode *node;     /* filled; copied back, since the table may move */
} reading;

static kt_status wrong_value(reading *x, const kt__json_node *value, const char *expected) {
    return kt__sreader_fail(x->r, KT_E_FORMAT, value, NULL, "expected %s", expected);
}

static void read_count(reading *x, const kt__json_node *value, uint32_t *out) {
    kt__decimal d;
    bool ok = value->type == KT__JSON_NUMBER && kt__decimal_parse(value->s, value->n, &d) &&
              kt__decimal_is_integer(&d) && !d.negative;
    if (!ok) {
        wrong_value(x, value, "an integer that is not negative");
        return;
    }
    uint64_t n = 0;
    for (int32_t i = 0; i < kt__decimal_top(&d) && n < INT32_MAX; i++)
        n = n * 10 + (i < d.n ? d.d[i] : 0);
    *out = n > INT32_MAX ? INT32_MAX : (uint32_t)n;
}

static void read_schema(reading *x, kt__json_node *value, kt__snode_id *out) {
    if (value->type != KT__JSON_OBJECT && value->type != KT__JSON_TRUE &&
        value->type != KT__JSON_FALSE)
        wrong_value(x, value, "a schema");
    else
        *out = kt__sreader_node(x->r, value);
}

static void read_schema_list(reading *x, kt__json_node *value, kt__slist *out) {
    if (value->type != KT__JSON_ARRAY) {
        wrong_value(x, value, "an array of schemas");
        return;
    }
    out->ids = kt__sreader_alloc(x->r, value->n, sizeof *out->ids);
    if (!out->ids) return;
    for (kt__json_node *kid = value->first; kid && x->r->status == KT_OK; kid = kid->next)
        read_schema(x, kid, &out->ids[out->n++]);
}

static uint32_t *read_names(reading *x, const kt__json_node *value, uint32_t *n) {
    if (value->type != KT__JSON_ARRAY) {
        wrong_value(x, value, "an array of names");
        return NULL;
    }
    uint32_t *names = kt__sreader_alloc(x->r, value->n, sizeof *names);
    *n = 0;
    for (kt__json_node *kid = value->first; names && kid; kid = kid->next) {
        if (kid->type != KT__JSON_STRING) {
            wrong_value(x, kid, "a name");
            return NULL;
        }
        names[(*n)++] = kt__sreader_name(x->r, kid->s, kid->n);
    }
    return names;
}

/* ---- keywords ---- */

static void read_one_type(reading *x, const kt__json_node *value, uint32_t *types, bool *number) {
    static const char *const names[] = {"null", "", "", "number", "string", "array", "object"};
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!kt__jdoc_is(value, names[i])) continue;
        *types |= (uint32_t)1 << i;
        *number |= i == KT__V_NUMBER;
        return;
    }
    if (kt__jdoc_is(value, "boolean"))
        *types |= 1u << KT__V_FALSE | 1u << KT__V_TRUE;
    else if (kt__jdoc_is(value, "integer"))
        *types |= 1u << KT__V_NUMBER;
    else
        wrong_value(x, value, "the name of a type");
}

static void key_type(reading *x, kt__json_node *value) {
    uint32_t types = 0;
    bool number = false;
    if (value->type == KT__JSON_ARRAY)
        for (kt__json_node *kid = value->first; kid; kid = kid->next)
            read_one_type(x, kid, &types, &number);
    else
        read_one_type(x, value, &types, &number);
    x->node->types = (uint8_t)types;
    x->node->integer = !number;
}

static void key_enum(reading *x, kt__json_node *value) {
    if (value->type != KT__JSON_ARRAY) {
        wrong_value(x, value, "an array");
        return;
    }
    kt__json_node **values = kt__sreader_alloc(x->r, value->n, sizeof(kt__json_node *));
    size_t n = 0;
    for (kt__json_node *kid = value->first; values && kid; kid = kid->next) values[n++] = kid;
    if (values) x->node->values = kt__sreader_values(x->r, values, n);
}

static void key_const(reading *x, kt__json_node *value) {
    x->node->constant = kt__sreader_values(x->r, &value, 1);
}

static void add_number(reading *x, const kt__json_node *value, kt__num_op op) {
    kt__snode *n = x->node;
    if (value->type != KT__JSON_NUMBER) {
        wrong_value(x, value, "a number");
        return;
    }
    if (!n->numbers) n->numbers = kt__sreader_alloc(x->r, 6, sizeof *n->numbers);
    if (n->numbers) n->numbers[n->n_numbers++] = kt__sreader_number(x->r, value, value->key, op);
}

static bool is_true_member(const reading *x, const char *name) {
    const kt__json_node *value = kt__jdoc_member(x->json, name, strlen(name));
    return value && value->type == KT__JSON_TRUE;
}

static void key_minimum(reading *x, kt__json_node *value) {
    add_number(x, value, is_true_member(x, "exclusiveMinimum") ? KT__NUM_GT : KT__NUM_GE);
}

static void key_maximum(reading *x, kt__json_node *value) {
    add_number(x, value, is_true_member(x, "exclusiveMaximum") ? KT__NUM_LT : KT__NUM_LE);
}

static bool is_draft4_flag(const kt__json_node *value) {
    return value->type == KT__JSON_TRUE || value->type == KT__JSON_FALSE;
}

static void key_exclusive_minimum(reading *x, kt__json_node *value) {
    if (!is_draft4_flag(value)) add_number(x, value, KT__NUM_GT);
}

static void key_exclusive_maximum(reading *x, kt__json_node *value) {
    if (!is_draft4_flag(value)) add_number(x, value, KT__NUM_LT);
}

static void key_multiple_of(reading *x, kt__json_node *value) {
    add_number(x, value, KT__NUM_STEP);
}

static void restrict_text(reading *x, kt__gid term) {
    x->node->text = kt__term_and2(x->r->t, x->node->text, term);
}

static void key_min_length(reading *x, kt__json_node *value) {
    uint32_t n = 0;
    read_count(x, value, &n);
    restrict_text(x, kt__term_rep(x->r->t, x->r->t->any_char, n, UINT32_MAX));
}

static void key_max_length(reading *x, kt__json_node *value) {
    uint32_t n = 0;
    read_count(x, value, &n);
    restrict_text(x, kt__term_rep(x->r->t, x->r->t->any_char, 0, n));
}

static kt__gid read_pattern(kt__sreader *r, const kt__json_node *place, const char *s, size_t len) {
    char why[KT__REGEX_WHY] = "";
    kt__gid term;
    kt_status status = kt__regex_term(r->t, s, len, false, &term, why);
    if (status == KT_OK) return term;
    if (status == KT_E_FORMAT) status = KT_E_UNSUPPORTED; /* other dialects are common here */
    kt__sreader_fail(r, status, place, NULL, "%s", why);
    return KT__GPOOL_EMPTY;
}

static void key_pattern(reading *x, kt__json_node *value) {
    if (value->type != KT__JSON_STRING)
        wrong_value(x, value, "a string");
    else
        restrict_text(x, read_pattern(x->r, value, value->s, value->n));
}

static void key_format(reading *x, kt__json_node *value) {
    char name[64], why[100] = "";
    bool known = false;
    if (value->type != KT__JSON_STRING) {
        wrong_value(x, value, "a string");
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)(value->n < 60 ? value->n : 60), value->s);
    kt__gid term = kt__format_term(x->r->t, name, &known, why, sizeof why);
    if (!known)
        kt__sreader_note(x->r, x->json, "format", "not a known format: not enforced");
    else if (why[0])
        kt__sreader_fail(x->r, KT_E_UNSUPPORTED, value, NULL, "%s", why);
    else
        restrict_text(x, term);
}

static bool is_object(reading *x, const kt__json_node *value) {
    if (value->type == KT__JSON_OBJECT) return true;
    wrong_value(x, value, "an object");
    return false;
}

static void key_properties(reading *x, kt__json_node *value) {
    if (!is_object(x, value)) return;
    kt__sprop *props = kt__sreader_alloc(x->r, value->n, sizeof *props);
    uint32_t n = 0;
    for (kt__json_node *kid = value->first; props && kid && x->r->status == KT_OK;
         kid = kid->next) {
        props[n].name = kt__sreader_name(x->r, kid->key, kid->key_len);
        read_schema(x, kid, &props[n++].node);
    }
    if (props) kt__sprops_sort(props, n);
    x->node->props = props;
    x->node->n_props = n;
}

static void key_pattern_properties(reading *x, kt__json_node *value) {
    if (!is_object(x, value)) return;
    kt__sprop *props = kt__sreader_alloc(x->r, value->n, sizeof *props);
    uint32_t n = 0;
    for (kt__json_node *kid = value->first; props && kid && x->r->status == KT_OK;
         kid = kid->next) {
        props[n].name = read_pattern(x->r, kid, kid->key, kid->key_len);
        read_schema(x, kid, &props[n++].node);
    }
    x->node->patterns = props;
    x->node->n_patterns = n;
}

static void key_additional_properties(reading *x, kt__json_node *value) {
    read_schema(x, value, &x->node->additional);
}

static void key_property_names(reading *x, kt__json_node *value) {
    read_schema(x, value, &x->node->property_names);
}

static void key_min_properties(reading *x, kt__json_node *value) {
    read_count(x, value, &x->node->min_props);
}

static void key_max_properties(reading *x, kt__json_node *value) {
    read_count(x, value, &x->node->max_props);
}

static void key_required(reading *x, kt__json_node *value) {
    if (is_draft4_flag(value))
        kt__sreader_fail(x->r, KT_E_UNSUPPORTED, value, NULL,
                         "a boolean, as draft 3 has it; drafts 4 and later take an array");
    else
        x->node->required = read_names(x, value, &x->node->n_required);
}

static void key_dependent_required(reading *x, kt__json_node *value) {
    if (!is_object(x, value)) return;
    kt__sdep *deps = kt__sreader_alloc(x->r, value->n, sizeof *deps);
    uint32_t n = x->node->n_dep_required = 0;
    for (kt__json_node *kid = value->first; deps && kid && x->r->status == KT_OK; kid = kid->next) {
        deps[n].name = kt__sreader_name(x->r, kid->key, kid->key_len);
        deps[n].names = read_names(x, kid, &deps[n].n);
        n++;
    }
    x->node->dep_required = deps;
    x->node->n_dep_required = n;
}

static void key_dependent_schemas(reading *x, kt__json_node *value) {
    if (!is_object(x, value)) return;
    kt__sprop *deps = kt__sreader_alloc(x->r, value->n, sizeof *deps);
    uint32_t n = 0;
    for (kt__json_node *kid = value->first; deps && kid && x->r->status == KT_OK; kid = kid->next) {
        deps[n].name = kt__sreader_name(x->r, kid->key, kid->key_len);
        read_schema(x, kid, &deps[n++].node);
    }
    x->node->dep_schemas = deps;
    x->node->n_dep_schemas = n;
}

/* Of draft 7 and before: names, a name, or a schema for each. */
static void key_dependencies(reading *x, kt__json_node *value) {
    if (!is_object(x, value)) return;
    kt__snode *n = x->node;
    kt__sdep *names = kt__sreader_alloc(x->r, value->n, sizeof *names);
    kt__sprop *schemas = kt__sreader_alloc(x->r, value->n, sizeof *schemas);
    if (!names || !schemas) return;
    if (n->dep_required || n->dep_schemas) {
        kt__sreader_fail(x->r, KT_E_UNSUPPORTED, value, NULL,
                         "together with dependentRequired or dependentSchemas");
        return;
    }
    for (kt__json_node *kid = value->first; kid && x->r->status == KT_OK; kid = kid->next) {
        uint32_t name = kt__sreader_name(x->r, kid->key, kid->key_len);
        if (kid->type == KT__JSON_ARRAY) {
            kt__sdep *dep = &names[n->n_dep_required++];
            dep->name = name;
            dep->names = read_names(x, kid, &dep->n);
        } else {
            schemas[n->n_dep_schemas].name = name;
            read_schema(x, kid, &schemas[n->n_dep_schemas++].node);
        }
    }
    n->dep_required = names;
    n->dep_schemas = schemas;
}

static void key_items(reading *x, kt__json_node *value) {
    if (value->type != KT__JSON_ARRAY) {
        read_schema(x, value, &x->node->items);
        return;
    }
    read_schema_list(x, value, &x->node->prefix);
    kt__json_node *more = kt__jdoc_member(x->json, "additionalItems", 15);
    if (more) read_schema(x, more, &x->node->items);
}

static void key_prefix_items(reading *x, kt__json_node *value) {
    read_schema_list(x, value, &x->node->prefix);
}

static void key_contains(reading *x, kt__json_node *value) {
    read_schema(x, value, &x->node->contains);
}

static void key_min_contains(reading *x, kt__json_node *value) {
    read_count(x, value, &x->node->min_contains);
}

static void key_max_contains(reading *x, kt__json_node *value) {
    read_count(x, value, &x->node->max_contains);
}

static void key_min_items(reading *x, kt__json_node *value) {
    read_count(x, value, &x->node->min_items);
}

static void key_max_items(reading *x, kt__json_node *value) {
    read_count(x, value, &x->node->max_items);
}

static void key_unique_items(reading *x, kt__json_node *value) {
    if (!is_draft4_flag(value)) wrong_value(x, value, "true or false");
    x->node->unique = value->type == KT__JSON_TRUE;
}

static void key_all_of(reading *x, kt__json_node *value) {
    read_schema_list(x, value, &x->node->all_of);
}

static void key_any_of(reading *x, kt__json_node *value) {
    read_schema_list(x, value, &x->node->any_of);
}

static void key_one_of(reading *x, kt__json_node *value) {
    read_schema_list(x, value, &x->node->one_of);
}

static void key_not(reading *x, kt__json_node *value) {
    read_schema(x, value, &x->node->not_);
}

static void key_if(reading *x, kt__json_node *value) {
    read_schema(x, value, &x->node->if_);
}

static void key_then(reading *x, kt__json_node *value) {
    read_schema(x, value, &x->node->then_);
}

static void key_else(reading *x, kt__json_node *value) {
    read_schema(x, value, &x->node->else_);
}

static void key_ref(reading *x, kt__json_node *value) {
    kt__json_node *to = kt__sreader_resolve(x->r, x->json, value->key, value);
    if (to) read_schema(x, to, &x->node->ref);
}

static void key_unevaluated_properties(reading *x, kt__json_node *value) {
    read_schema(x, value, &x->node->uneval_props);
}

static void key_unevaluated_items(reading *x, kt__json_node *value) {
    read_schema(x, value, &x->node->uneval_items);
}

static void key_content_schema(reading *x, kt__json_node *value) {
    (void)value;
    kt__sreader_note(x->r, x->json, "contentSchema", "annotation: not enforced");
}

typedef struct keyword {
    const char *name;
    void (*read)(reading *x, kt__json_node *value);
    int since; /* draft; a schema that names an earlier one does not mean it */
} keyword;

static const keyword keywords[] = {
#define X(name, function, since) {name, function, since},
#include "grammar/keywords.def"
#undef X
};

static const keyword *keyword_named(const kt__json_node *member) {
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++) {
        const char *name = keywords[i].name;
        if (strlen(name) == member->key_len && memcmp(name, member->key, member->key_len) == 0)
            return &keywords[i];
    }
    return NULL;
}

/* ---- nodes ---- */

/* Up to draft 7 nothing else counts besides $ref. */
static bool ref_hides(const kt__sreader *r, const kt__json_node *json) {
    return r->draft > 0 && r->draft <= 7 && kt__jdoc_member(json, "$ref", 4);
}

static void read_keywords(reading *x) {
    bool hides = ref_hides(x->r, x->json);
    for (kt__json_node *kid = x->json->first; kid && x->r->status == KT_OK; kid = kid->next) {
        const keyword *k = keyword_named(kid);
        if (!k) continue;
        if (hides && strcmp(k->name, "$ref") != 0)
            kt__sreader_note(x->r, x->json, k->name, "next to $ref: without effect in this draft");
        else if (x->r->draft > 0 && x->r->draft < k->since)
            kt__sreader_note(x->r, x->json, k->name, "newer than the draft the schema names");
        else
            k->read(x, kid);
    }
}

static void read_node(kt__sreader *r, kt__snode_id id) {
    kt__snode node = r->s->nodes[id];
    if (!node.json) return; /* a constant's */
    reading x = {r, node.json, &node};
    if (node.json->type == KT__JSON_FALSE) node.never = true;
    if (node.json->type == KT__JSON_OBJECT) read_keywords(&x);
    r->s->nodes[id] = node;
}

/* ---- the whole ---- */

static int draft_of(const kt__json_node *root) {
    static const struct {
        const char *in;
        int draft;
    } drafts[] = {{"draft-03", 3}, {"draft-04", 4},   {"draft-06", 6},
                  {"draft-07", 7}, {"2019-09", 2019}, {"2020-12", 2020}};
    const kt__json_node *uri = kt__jdoc_member(root, "$schema", 7);
    if (!uri || uri->type != KT__JSON_STRING || !memmem(uri->s, uri->n, "json-schema.org", 15))
        return 0;
    for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++)
        if (memmem(uri->s, uri->n, drafts[i].in, strlen(drafts[i].in))) return drafts[i].draft;
    return 0;
}

static kt_status build_trie(kt__sreader *r) {
    kt__schema *s = r->s;
    size_t n = 2;
    for (uint32_t i = 1; i < s->n_names; i++) n += s->names[i].len;
    s->trie = kt__sreader_alloc(r, n, sizeof *s->trie);
    if (!s->trie) return r->status;
    s->n_trie = 2;
    for (uint32_t i = 1; i < s->n_names; i++) {
        uint32_t at = 1;
        for (size_t k = 0; k < s->names[i].len; k++) {
            uint8_t byte = (uint8_t)s->names[i].s[k];
            uint32_t to = kt__strie_step(s, at, byte);
            if (!to) {
                to = s->n_trie++;
                s->trie[to] = (kt__strie){.byte = byte, .next = s->trie[at].first};
                s->trie[at].first = to;
            }
            at = to;
        }
        s->trie[at].name = i;
    }
    return KT_OK;
}

static kt_status read_all(kt__sreader *r) {
    r->draft = draft_of(r->root);
    if (r->draft == 3)
        return kt__sreader_fail(r, KT_E_UNSUPPORTED, r->root, "$schema", "draft 3 is not read");
    if (kt__sreader_find_resources(r) != KT_OK) return r->status;
    if (r->root->type > KT__JSON_TRUE && r->root->type != KT__JSON_OBJECT)
        return kt__sreader_fail(r, KT_E_FORMAT, r->root, NULL, "expected a schema");
    (void)kt__sreader_node(r, r->root);
    for (r->next = 1; r->next < r->s->n_nodes && r->status == KT_OK; r->next++) {
        read_node(r, r->next);
        if (r->status == KT_OK && r->t->pool.failed)
            return kt__sreader_fail(r, KT_E_LIMIT, r->root, NULL, "too complex");
    }
    if (r->status == KT_OK) (void)kt__sreader_settle_unevaluated(r);
    if (r->status == KT_OK && r->use.closed) (void)kt__sreader_close_objects(r);
    if (r->status == KT_OK && r->use.written) (void)kt__sreader_refuse_impossible(r, r->use.parts);
    if (r->status == KT_OK && r->s->names_cap == 0) (void)kt__sreader_grow_names(r);
    if (r->status == KT_OK && !r->s->numbers) r->s->numbers = kt__calloc(1, sizeof(kt__snum));
    return r->status == KT_OK ? build_trie(r) : r->status;
}

kt_status kt__schema_read(kt__schema *s, kt__terms *t, const char *text, size_t len,
                          kt__schema_use use, kt__refusal *why, kt_error *err) {
    *s = (kt__schema){0};
    kt__sreader r = {.s = s, .t = t, .use = use, .why = why, .err = err};
    kt__arena_init(&s->arena, 64 << 10, ARENA_BYTES);
    kt__buf_init(&s->notes, KT__SCHEMA_MAX_NOTES);
    /* the document points into its text, and pieces are read later */
    const char *kept = use.parts ? kt__arena_strndup(&s->arena, text, len) : text;
    kt_status status = kept ? kt__jdoc_parse(&s->arena, kept, len, &r.root, err)
                            : kt__fail_nomem(err, "a description", len);
    if (status == KT_OK) status = read_all(&r);
    kt__free(r.resources);
    if (status != KT_OK) kt__schema_free(s);
    return status;
}
