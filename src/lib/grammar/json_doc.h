/* JSON text as a tree, with the way back from each value to its place.
 *
 * Owns: the tree a strict reader makes (RFC 8259, by base/json.h; unique member names; numbers
 * keep their digits) within stated limits, members by name, JSON pointers both ways. Does not write
 * JSON. One user at a time. */
#ifndef KT_GRAMMAR_JSON_DOC_H
#define KT_GRAMMAR_JSON_DOC_H

#include <kentang.h>

#include "base/alloc.h"

enum { KT__JDOC_MAX_DEPTH = 128, KT__JDOC_MAX_BYTES = 4 << 20 };

typedef enum kt__jtype {
    KT__JT_NULL,
    KT__JT_FALSE,
    KT__JT_TRUE,
    KT__JT_NUMBER,
    KT__JT_STRING,
    KT__JT_ARRAY,
    KT__JT_OBJECT
} kt__jtype;

typedef struct kt__jnode {
    kt__jtype type;
    uint32_t index;  /* among its siblings */
    uint32_t schema; /* of the compiler that reads it; 0 at first */
    uint32_t n;      /* kids; bytes of a string (decoded) or a number (as written) */
    const char *s;
    const char *key; /* NULL in an array */
    uint32_t key_len;
    struct kt__jnode *parent, *first, *next;
    struct kt__jnode **sorted; /* [n] an object's members by name */
} kt__jnode;

/* KT_E_FORMAT with the byte where it is not JSON; KT_E_LIMIT where it is too long or too deep. The
 * tree lies in the arena. */
kt_status KT_CHECKED kt__jdoc_parse(kt__arena *arena, const char *text, size_t len, kt__jnode **out,
                                    kt_error *err);
kt__jnode *kt__jdoc_member(const kt__jnode *object, const char *name, size_t len); /* or NULL */
/* The value at a pointer's text below root ("/a/0"), percent signs decoded; NULL: none there. */
kt__jnode *kt__jdoc_at(kt__jnode *root, const char *pointer, size_t len);
/* The pointer of a node, cut to cap - 1 bytes. */
void kt__jdoc_pointer(const kt__jnode *node, char *out, size_t cap);
bool kt__jdoc_is(const kt__jnode *node, const char *text); /* a string of this text */

#endif
