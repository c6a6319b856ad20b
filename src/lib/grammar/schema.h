/* A JSON Schema that was read: its subschemas as nodes with checked keywords.
 *
 * Owns: the nodes, the table and the trie of member names, the conditions on numbers. How they are read is
 * schema_reader.h's matter, what they ask of a text schema_value.h's. One user at a time. */
#ifndef KT_GRAMMAR_SCHEMA_H
#define KT_GRAMMAR_SCHEMA_H

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "grammar/term.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal numbers as JSON writes them, exactly: reading, comparison and whether one is a multiple of another. Nothing
 * is rounded. Any thread. */

enum { KT__DEC_DIGITS = 64 };

/* 0 when n is 0; else +-d[0]d[1]...d[n-1] * 10^exp, neither d[0] nor d[n-1] being 0. */
typedef struct kt__decimal {
    bool negative;
    uint8_t n;
    int32_t exp;
    uint8_t d[KT__DEC_DIGITS];
} kt__decimal;

/* s[len]: a number of JSON. False: more digits, or a greater exponent, than are kept. */
bool kt__decimal_parse(const char *s, size_t len, kt__decimal *out);
int kt__decimal_compare(const kt__decimal *a, const kt__decimal *b); /* <0, 0, >0 */
bool kt__decimal_is_integer(const kt__decimal *a);
/* 10^exp: a's magnitude is below it and not below a tenth of it; INT32_MIN for 0. */
int32_t kt__decimal_top(const kt__decimal *a);

/* A step that numbers are to be multiples of: unit * 10^exp, unit below 10^18. */
typedef struct kt__decimal_step {
    uint64_t unit;
    int32_t exp;
} kt__decimal_step;
bool kt__decimal_step_from(const kt__decimal *a,
                           kt__decimal_step *out); /* false: it does not fit */
/* -1: out of range of this arithmetic. */
int kt__decimal_is_multiple(const kt__decimal *a, const kt__decimal_step *step);

/* The schema. */

enum {
    KT__SCHEMA_MAX_NODES = 100000,
    KT__SCHEMA_MAX_NAMES = 200000,
    KT__SCHEMA_MAX_NOTES = 64 << 10 /* bytes */
};

/* Types of a value by its first byte; integers are numbers with one more condition. */
typedef enum kt__vtype {
    KT__V_NULL,
    KT__V_FALSE,
    KT__V_TRUE,
    KT__V_NUMBER,
    KT__V_STRING,
    KT__V_ARRAY,
    KT__V_OBJECT,
    KT__V_N
} kt__vtype;

typedef enum kt__num_op {
    KT__NUM_INT,
    KT__NUM_GE,
    KT__NUM_GT,
    KT__NUM_LE,
    KT__NUM_LT,
    KT__NUM_EQ,
    KT__NUM_STEP
} kt__num_op;

typedef uint32_t kt__snode_id; /* 0: none */

typedef struct kt__sprop {
    uint32_t name; /* index of a name; or, for patterns, a term */
    kt__snode_id node;
} kt__sprop;

typedef struct kt__sdep {
    uint32_t name, n;
    uint32_t *names; /* [n] required then */
} kt__sdep;

typedef struct kt__slist {
    kt__snode_id *ids;
    uint32_t n;
} kt__slist;

/* A number's condition. */
typedef struct kt__snum {
    kt__num_op op;
    kt__decimal value;
    kt__decimal_step step;
} kt__snum;

/* enum or const, by type */
typedef struct kt__svalues {
    bool null, no, yes;
    kt__gid strings;
    uint32_t *numbers; /* [n_numbers] conditions */
    uint32_t n_numbers;
    kt__slist arrays, objects; /* nodes that take one value each */
} kt__svalues;

typedef struct kt__snode {
    kt__json_node *json; /* NULL: made from a constant */
    bool never;          /* false */
    bool integer;        /* a number must be one */
    bool has_values;
    uint8_t types; /* bits of kt__vtype */
    kt__svalues *values, *constant;
    uint32_t *numbers; /* [n_numbers] conditions */
    uint32_t n_numbers;
    kt__gid text; /* term of all that is asked of a string */
    /* objects */
    kt__sprop *props, *patterns; /* props by name */
    uint32_t n_props, n_patterns;
    kt__snode_id additional, property_names; /* 0: anything */
    uint32_t min_props, max_props;           /* UINT32_MAX: no bound */
    uint32_t *required;
    uint32_t n_required;
    kt__sdep *dep_required;
    kt__sprop *dep_schemas;
    uint32_t n_dep_required, n_dep_schemas;
    /* arrays */
    kt__slist prefix;
    kt__snode_id items, contains;
    uint32_t min_contains, max_contains, min_items, max_items;
    bool unique;
    /* applicators */
    kt__slist all_of, any_of, one_of;
    kt__snode_id not_, if_, then_, else_, ref;
    kt__snode_id uneval_props, uneval_items; /* turned into another node of all_of */
} kt__snode;

typedef struct kt__strie { /* of the names */
    uint8_t byte;
    uint32_t name, first, next; /* 0: none */
} kt__strie;

/* What a schema is read for. */
typedef struct kt__schema_use {
    bool written; /* a text is written by it: one that no value fits is refused (schema_empty.c) */
    bool closed; /* objects have no members but declared ones where properties are given and nothing
                     is said of others (schema_close.c) */
    bool parts;  /* the root's prefixItems are the schemas, each of a text's pieces */
} kt__schema_use;

/* Why a schema was refused. */
typedef struct kt__refusal {
    char pointer[512], keyword[64], why[200];
} kt__refusal;

typedef struct kt__schema {
    kt__arena arena;
    kt__snode *nodes; /* from 1 */
    uint32_t n_nodes, nodes_cap;
    kt__snum *numbers;
    uint32_t n_numbers, numbers_cap;
    kt__gtext *names; /* from 1 */
    uint32_t n_names, names_cap;
    uint32_t *name_table, name_mask;
    kt__strie *trie; /* from 1; 1 is the root */
    uint32_t n_trie;
    kt__buf notes; /* a line each: what is annotation only */
} kt__schema;

void kt__schema_free(kt__schema *schema);
uint32_t kt__strie_step(const kt__schema *schema, uint32_t at, uint8_t byte); /* 0: off */

#endif
