/* From the text of a JSON Schema to nodes.
 *
 * Owns: reading drafts 4 to 2020-12 (older spellings mean what they meant), references within the document, and the
 * refusal of everything that cannot be enforced exactly; the reader's state, which the files that read a schema
 * share, and its ways to fail. Nothing is fetched. One user at a time. */
#ifndef KT_GRAMMAR_SCHEMA_READER_H
#define KT_GRAMMAR_SCHEMA_READER_H

#include "grammar/schema.h"

enum { KT__SCHEMA_MAX_RESOURCES = 4096 };

/* A subschema with an identifier of its own. */
typedef struct kt__sresource {
    const char *uri;
    kt__json_node *root;
} kt__sresource;

typedef struct kt__sreader {
    kt__schema *s;
    kt__terms *t;
    kt__json_node *root;
    int draft; /* 4, 6, 7, 2019, 2020; 0: not said */
    kt__sresource *resources;
    uint32_t n_resources;
    kt__schema_use use;
    uint32_t next; /* node to be read next */
    kt__refusal *why;
    kt_error *err;
    kt_status status;
} kt__sreader;

/* keyword may be NULL: node itself is the place. */
kt_status kt__sreader_fail(kt__sreader *r, kt_status status, const kt__json_node *node,
                           const char *keyword, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
void *kt__sreader_alloc(kt__sreader *r, size_t count, size_t size); /* zeroed; NULL: failed */
void kt__sreader_note(kt__sreader *r, const kt__json_node *node, const char *keyword,
                      const char *what);
/* The node of a subschema, to be read later; 0: failed. */
kt__snode_id kt__sreader_node(kt__sreader *r, kt__json_node *json);
kt__snode_id kt__sreader_new_node(kt__sreader *r, kt__json_node *json);
uint32_t kt__sreader_name(kt__sreader *r, const char *s, size_t len);
bool kt__sreader_grow_names(kt__sreader *r); /* room for more names, or for the first */

/* schema_ref.c */
kt_status kt__sreader_find_resources(kt__sreader *r);
/* The subschema that a reference in `node` names, or NULL (failed). */
kt__json_node *kt__sreader_resolve(kt__sreader *r, kt__json_node *node, const char *keyword,
                                   const kt__json_node *ref);

/* schema_values.c: enum and const */
kt__svalues *kt__sreader_values(kt__sreader *r, kt__json_node *const *values, size_t n);
uint32_t kt__sreader_number(kt__sreader *r, const kt__json_node *json, const char *keyword,
                            kt__num_op op);

/* schema_uneval.c: after all nodes were read */
kt_status kt__sreader_settle_unevaluated(kt__sreader *r);
/* One more schema that applies to the value of node id. */
void kt__sreader_apply_also(kt__sreader *r, kt__snode_id id, const kt__snode *more);
void kt__sprops_sort(kt__sprop *props, uint32_t n); /* by name */

/* schema_close.c: after that, for generation */
kt_status kt__sreader_close_objects(kt__sreader *r);

/* schema_empty.c: after that, for generation. Refuses a schema that no value fits; parts: of the root's
 * prefixItems, each of which is one. */
kt_status kt__sreader_refuse_impossible(kt__sreader *r, bool parts);

/* formats.c: the term of a known format, 0 for an unknown one. */
kt__gid kt__format_term(kt__terms *t, const char *name, bool *known, char *why, size_t why_cap);

/* Terms go to t. On failure `why` is filled where a keyword is the reason. KT_E_FORMAT: no JSON, or a
 * keyword with a value of the wrong kind; KT_E_UNSUPPORTED; KT_E_LIMIT. */
kt_status KT_CHECKED kt__schema_read(kt__schema *schema, kt__terms *t, const char *text, size_t len,
                                     kt__schema_use use, kt__refusal *why, kt_error *err);

#endif
