#include "wire/wire_blocks.h"

#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"

void kt__wire_blocks_init(kt__wire_blocks *b, size_t max_bytes) {
    *b = (kt__wire_blocks){0};
    kt__buf_init(&b->text, max_bytes);
    kt__buf_init(&b->reasoning, max_bytes);
    kt__buf_init(&b->arguments, max_bytes);
    kt__buf_init(&b->names, max_bytes);
}

void kt__wire_blocks_free(kt__wire_blocks *b) {
    kt__buf_free(&b->text);
    kt__buf_free(&b->reasoning);
    kt__buf_free(&b->arguments);
    kt__buf_free(&b->names);
    kt__free(b->list);
    *b = (kt__wire_blocks){0};
}

void kt__wire_blocks_clear(kt__wire_blocks *b) {
    kt__buf_clear(&b->text);
    kt__buf_clear(&b->reasoning);
    kt__buf_clear(&b->arguments);
    kt__buf_clear(&b->names);
    b->n = 0;
}

const kt_part *kt__wire_parts(const kt_event *event, kt_part *one, size_t *n) {
    *n = event->n_parts;
    if (event->n_parts) return event->parts;
    *one = (kt_part){.kind = KT_PART_CONTENT, .text = event->text, .len = event->len};
    *n = event->len > 0;
    return one;
}

static kt__buf *text_of_kind(kt__wire_blocks *b, kt_part_kind kind) {
    switch (kind) {
    case KT_PART_CONTENT: return &b->text;
    case KT_PART_REASONING: return &b->reasoning;
    default: return &b->arguments;
    }
}

const char *kt__wire_block_text(const kt__wire_blocks *b, const kt__wire_block *block) {
    const char *data = text_of_kind((kt__wire_blocks *)b, block->kind)->data;
    return data ? data + block->at : "";
}

bool kt__wire_blocks_begins(const kt__wire_blocks *b, const kt_part *part) {
    return !b->n || b->list[b->n - 1].kind != part->kind || part->name;
}

/* With the id and the name of a call. */
static bool begin_block(kt__wire_blocks *b, const kt_part *part, size_t at) {
    const char *id = part->id ? part->id : "", *name = part->name ? part->name : "";
    if (!kt__vec_reserve(b->list, b->cap, b->n + 1)) return false;
    kt__wire_block *block = &b->list[b->n++];
    *block = (kt__wire_block){.kind = part->kind, .at = at, .id = b->names.len};
    if (part->kind != KT_PART_CALL) return true;
    block->name = block->id + strlen(id) + 1;
    return kt__buf_append(&b->names, id, strlen(id) + 1) &&
           kt__buf_append(&b->names, name, strlen(name) + 1);
}

bool kt__wire_blocks_add(kt__wire_blocks *b, const kt_part *part) {
    kt__buf *text = text_of_kind(b, part->kind);
    bool made = !kt__wire_blocks_begins(b, part) || begin_block(b, part, text->len);
    if (!made || (part->len && !kt__buf_append(text, part->text, part->len))) return false;
    b->list[b->n - 1].len += part->len;
    return true;
}

bool kt__wire_blocks_add_event(kt__wire_blocks *b, const kt_event *event) {
    kt_part one;
    size_t n;
    const kt_part *parts = kt__wire_parts(event, &one, &n);
    bool added = true;
    for (size_t i = 0; i < n && added; i++) added = kt__wire_blocks_add(b, &parts[i]);
    return added;
}

size_t kt__wire_blocks_calls(const kt__wire_blocks *b, kt__wire_call *out) {
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++) {
        const kt__wire_block *block = &b->list[i];
        if (block->kind != KT_PART_CALL) continue;
        if (out)
            out[n] = (kt__wire_call){(int32_t)n, b->names.data + block->id,
                                     b->names.data + block->name, kt__wire_block_text(b, block),
                                     block->len};
        n++;
    }
    return n;
}

void kt__wire_blocks_fill(const kt__wire_blocks *b, kt__wire_call *calls, kt__wire_choice *out) {
    out->text = b->text.data ? b->text.data : "";
    out->len = b->text.len;
    out->reasoning = b->reasoning.data;
    out->reasoning_len = b->reasoning.len;
    out->calls = calls;
    out->n_calls = kt__wire_blocks_calls(b, calls);
    out->called = out->n_calls > 0;
}
