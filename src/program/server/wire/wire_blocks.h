/* An answer as it is gathered: texts, thoughts and calls, each a block.
 *
 * Owns: putting the parts of events together. Knows no dialect. One user at a time. */
#ifndef KT_WIRE_WIRE_BLOCKS_H
#define KT_WIRE_WIRE_BLOCKS_H

#include "wire/wire.h"

/* A stretch of an answer of one kind. */
typedef struct kt__wire_block {
    kt_part_kind kind;
    size_t at, len;  /* in the text of this kind */
    size_t id, name; /* CALL: where they begin in `names` */
} kt__wire_block;

typedef struct kt__wire_blocks {
    kt__buf text, reasoning, arguments; /* by the kind of a block */
    kt__buf names;                      /* of calls, NUL-terminated */
    kt__wire_block *list;
    size_t n, cap;
} kt__wire_blocks;

void kt__wire_blocks_init(kt__wire_blocks *blocks, size_t max_bytes); /* of each text */
void kt__wire_blocks_free(kt__wire_blocks *blocks);
void kt__wire_blocks_clear(kt__wire_blocks *blocks); /* keeps the memory */
/* What a token released: event->parts, or all of its text as content in *one. */
const kt_part *kt__wire_parts(const kt_event *event, kt_part *one, size_t *n);
/* Whether the part is the first of a block. */
bool kt__wire_blocks_begins(const kt__wire_blocks *blocks, const kt_part *part);
/* Adds a part to the last block, or begins the next one; false: no memory. */
bool kt__wire_blocks_add(kt__wire_blocks *blocks, const kt_part *part);
/* All parts of a token; false: no memory. */
bool kt__wire_blocks_add_event(kt__wire_blocks *blocks, const kt_event *event);
const char *kt__wire_block_text(const kt__wire_blocks *blocks, const kt__wire_block *block);
/* The calls among them, into out[...] where it is not NULL; their number. */
size_t kt__wire_blocks_calls(const kt__wire_blocks *blocks, kt__wire_call *out);
/* Texts and calls into a choice of an answer; calls: room for all of them. */
void kt__wire_blocks_fill(const kt__wire_blocks *blocks, kt__wire_call *calls,
                          kt__wire_choice *out);

#endif
