/* Values of the template language: Python's, as far as templates use them.
 *
 * Owns: undefined, none, booleans, 64-bit integers (larger ones are kept as digits), floats,
 * strings with the origin of each byte, lists and other sequences, dictionaries in insertion order.
 * All live in the arena of one rendering and are never freed one by one. Does not know templates or
 * evaluation. One user at a time (constants of a parsed template are only read). */
#ifndef KT_JINJA_JINJA_VALUE_H
#define KT_JINJA_JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"

typedef enum kt__jtype {
    KT__J_MISSING, /* no value at all: an argument not given, a name not bound */
    KT__J_UNDEF,
    KT__J_NONE,
    KT__J_BOOL,
    KT__J_INT,
    KT__J_BIGINT, /* over 64 bits: its decimal digits, for copying through */
    KT__J_FLOAT,
    KT__J_STR,
    KT__J_LIST, /* list, tuple, range, generator or view: kt__jlist.kind */
    KT__J_DICT,
    KT__J_NAMESPACE, /* a dictionary whose members are set by {% set ns.x = ... %} */
    KT__J_MACRO,
    KT__J_BUILTIN, /* a global function */
    KT__J_METHOD,  /* a method with its object */
    KT__J_LOOP     /* the loop variable */
} kt__jtype;

typedef struct kt__jstr kt__jstr;
typedef struct kt__jlist kt__jlist;
typedef struct kt__jdict kt__jdict;
typedef struct kt__jmethod kt__jmethod;
typedef struct kt__jmacro kt__jmacro;
typedef struct kt__jloop kt__jloop;

typedef struct kt__jv {
    kt__jtype type;
    union {
        bool b;
        int64_t i; /* KT__J_BUILTIN: its number */
        double f;
        const kt__jstr *s; /* KT__J_UNDEF: the missing name, or NULL; KT__J_BIGINT: digits */
        kt__jlist *l;
        kt__jdict *d; /* KT__J_NAMESPACE too */
        const kt__jmacro *macro;
        const kt__jmethod *method;
        kt__jloop *loop;
    } u;
} kt__jv;

/* Bytes up to `end` (from the previous run's end) have one origin. */
typedef struct kt__jrun {
    size_t end;
    bool from_template;
} kt__jrun;

struct kt__jstr {
    const char *data; /* UTF-8, checked; not NUL-terminated */
    size_t len, n_cp; /* bytes, code points */
    const kt__jrun *runs;
    size_t n_runs;      /* 0: one origin for all of it */
    bool from_template; /* where n_runs is 0 */
    bool markup;        /* passed through |safe: '+' escapes the other side for HTML */
};

typedef enum kt__jlist_kind {
    KT__JL_LIST,
    KT__JL_TUPLE,
    KT__JL_RANGE,
    KT__JL_KEYS, /* views of a dictionary */
    KT__JL_VALUES,
    KT__JL_ITEMS,
    KT__JL_ITER /* what map, select, items, ... give: can be walked once */
} kt__jlist_kind;

struct kt__jlist {
    kt__jv *items;
    size_t n, cap;
    size_t pos; /* KT__JL_ITER: what has been taken */
    kt__jlist_kind kind;
};

typedef struct kt__jpair {
    kt__jv key, val;
    uint64_t hash; /* of the key */
} kt__jpair;

struct kt__jdict {
    kt__jpair *items; /* [n], in insertion order */
    size_t n, cap;
    uint32_t *index; /* open addressing, position + 1; NULL while small */
    size_t n_index;  /* a power of two */
};

/* Nesting of values that printing, comparing and hashing follow. */
#define KT__J_MAX_NEST 200

/* ---- constructors; those that return a pointer give NULL when the arena is full ---- */

static inline kt__jv kt__j_none(void) {
    return (kt__jv){.type = KT__J_NONE};
}
static inline kt__jv kt__j_bool(bool b) {
    return (kt__jv){.type = KT__J_BOOL, .u.b = b};
}
static inline kt__jv kt__j_int(int64_t i) {
    return (kt__jv){.type = KT__J_INT, .u.i = i};
}
static inline kt__jv kt__j_float(double f) {
    return (kt__jv){.type = KT__J_FLOAT, .u.f = f};
}
static inline kt__jv kt__j_str(const kt__jstr *s) {
    return (kt__jv){.type = KT__J_STR, .u.s = s};
}
static inline kt__jv kt__j_list(kt__jlist *l) {
    return (kt__jv){.type = KT__J_LIST, .u.l = l};
}
static inline kt__jv kt__j_dict(kt__jdict *d) {
    return (kt__jv){.type = KT__J_DICT, .u.d = d};
}
static inline kt__jv kt__j_undef(const kt__jstr *name) {
    return (kt__jv){.type = KT__J_UNDEF, .u.s = name};
}

/* A string over data[len], which must outlive the arena's values (copy: it is copied). Valid UTF-8.
 */
kt__jstr *kt__jstr_new(kt__arena *arena, const char *data, size_t len, bool from_template);
kt__jstr *kt__jstr_copy(kt__arena *arena, const char *data, size_t len, bool from_template);
/* Bytes [from, to) with their origins; shares the data. */
kt__jstr *kt__jstr_sub(kt__arena *arena, const kt__jstr *s, size_t from, size_t to);

kt__jlist *kt__jlist_new(kt__arena *arena, kt__jlist_kind kind, size_t cap);
bool kt__jlist_push(kt__arena *arena, kt__jlist *list, kt__jv value);
kt__jdict *kt__jdict_new(kt__arena *arena);

/* ---- strings ---- */

bool kt__jstr_eq(const kt__jstr *a, const kt__jstr *b);
bool kt__jstr_is(const kt__jstr *s, const char *text);
int kt__jstr_cmp(const kt__jstr *a, const kt__jstr *b); /* by code point; <0, 0, >0 */
/* Byte offset of code point `cp` (n_cp gives len). */
size_t kt__jstr_offset(const kt__jstr *s, size_t cp);
/* Whether every byte has this origin. */
bool kt__jstr_all_from_template(const kt__jstr *s);
/* First place of needle at or after `from`, SIZE_MAX: none; and the last that ends by `to`, whose
 * work goes off *steps: at 0 the answer is none. */
size_t kt__jstr_find(const kt__jstr *s, const char *needle, size_t n, size_t from);
size_t kt__jstr_rfind(const kt__jstr *s, const char *needle, size_t n, size_t to, uint64_t *steps);

/* A string being built in the arena, with a cap on its bytes. Appends after a failure do nothing.
 */
typedef struct kt__jsb {
    kt__arena *arena;
    char *data;
    size_t len, cap, max;
    kt__jrun *runs;
    size_t n_runs, cap_runs;
    bool failed;   /* no memory */
    bool too_long; /* over max */
} kt__jsb;

void kt__jsb_init(kt__jsb *b, kt__arena *arena, size_t max);
bool kt__jsb_reserve(kt__jsb *b,
                     size_t extra); /* room for so many bytes more, where the size is known */
bool kt__jsb_add(kt__jsb *b, const char *data, size_t len, bool from_template);
bool kt__jsb_add_str(kt__jsb *b, const kt__jstr *s); /* with its origins */
bool kt__jsb_add_sub(kt__jsb *b, const kt__jstr *s, size_t from, size_t to);
kt__jstr *kt__jsb_finish(kt__jsb *b); /* NULL where an append failed or memory is short */

/* ---- dictionaries ---- */

/* Keys are compared as Python does (1 == 1.0 == true). A key that cannot be hashed (a list, a
 * dictionary) gives KT__JKEY_BAD. *steps: see kt__j_equal. */
typedef enum kt__jkey_result {
    KT__JKEY_NONE,
    KT__JKEY_FOUND,
    KT__JKEY_BAD,
    KT__JKEY_NOMEM
} kt__jkey_result;
kt__jkey_result kt__jdict_get(const kt__jdict *dict, kt__jv key, kt__jv *out, uint64_t *steps);
kt__jkey_result kt__jdict_set(kt__arena *arena, kt__jdict *dict, kt__jv key, kt__jv value,
                              uint64_t *steps);
kt__jkey_result kt__jdict_remove(kt__jdict *dict, kt__jv key, kt__jv *out, uint64_t *steps);
/* The value at a text key, or NULL. */
const kt__jv *kt__jdict_find(const kt__jdict *dict, const char *key);

/* ---- any value (jinja_dict.c compares) ---- */

bool kt__j_truth(kt__jv v);
bool kt__j_is_number(kt__jv v); /* int, float, bool or big */
/* Python's ==. Values nested over KT__J_MAX_NEST compare unequal. *steps goes down by the work
 * done, since lists that share parts can mean more than memory holds; at 0 the answer is
 * false, and the caller that finds 0 ends with its step limit. */
bool kt__j_equal(kt__jv a, kt__jv b, uint64_t *steps);
/* Python's < on a pair of numbers, strings or sequences: -1, 0, 1; 2: not ordered (NaN); false: the
 * two cannot be compared. */
bool kt__j_order(kt__jv a, kt__jv b, int *out, uint64_t *steps);
const char *kt__j_type_name(kt__jv v); /* "str", "list", ... */

#endif
