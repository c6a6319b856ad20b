/* What the files that describe calls share.
 *
 * Owns: the description under way. constraint_parts.c writes pieces and schemas, and arguments that are no JSON,
 * constraint_make.c the calls and the answer. One user at a time. */
#ifndef KT_CALLS_CONSTRAINT_IMPL_H
#define KT_CALLS_CONSTRAINT_IMPL_H

#include "calls/calls.h"
#include "calls/format.h"
#include "calls/tools_impl.h"

enum { KT__CALL_SCHEMAS = 4096 };

typedef struct kt__call_writer {
    const kt__call_format *f;
    const kt__call_rules *rules;
    kt__buf pieces;  /* under way */
    kt__buf schemas; /* the members of prefixItems */
    uint32_t n_schemas;
    uint16_t owner[KT__CALL_SCHEMAS]; /* the tool that a schema is of */
    bool loose[KT__TOOLS_MAX];        /* the tool's schema is not enforced */
    bool failed;
} kt__call_writer;

/* A fixed text as a piece; NULL or "": none. With a comma before it unless it is the first. */
void kt__piece_text(kt__buf *out, const char *text);
void kt__piece_chars(kt__buf *out, const char *text, size_t len);
/* A comma where one is needed. */
void kt__piece_next(kt__buf *out);
/* The schema of a tool's arguments, onto w->schemas. */
void kt__piece_tool_schema(kt__call_writer *w, uint32_t tool);
/* The number of a schema: of a node within a tool's. */
uint32_t kt__piece_schema(kt__call_writer *w, uint32_t tool, const kt__json_node *node);

/* constraint_parts.c: the arguments of a call, as a list of pieces, with what is between and after them */
void kt__piece_tagged(kt__call_writer *w, uint32_t tool);
void kt__piece_tagged_gap(kt__call_writer *w); /* what is before the first */
void kt__piece_python(kt__call_writer *w, uint32_t tool);
void kt__piece_bare(kt__call_writer *w, uint32_t tool);

#endif
