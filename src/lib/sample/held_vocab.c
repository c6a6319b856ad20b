#include "sample/held.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { MAX_NAME = 200 }; /* bytes of a control token's name; longer ones cannot be asked for */

typedef struct marked {
    const kt__held_vocab_source *source;
    char name[MAX_NAME + 1];
} marked;

static const char *control_name(const kt__held_vocab_source *source, int32_t id, size_t *len) {
    const char *name = source->name(source->ctx, id, len);
    if (*len > MAX_NAME) *len = 0;
    return name;
}

static const char *marked_bytes(void *ctx, int32_t id, size_t *len) {
    marked *m = ctx;
    size_t n;
    const char *name = control_name(m->source, id, &n);
    if (n == 0) return m->source->bytes(m->source->ctx, id, len);
    m->name[0] = (char)KT__HELD_MARK;
    memcpy(m->name + 1, name, n);
    *len = n + 1;
    return m->name;
}

static int by_length(const void *a, const void *b, void *ctx) {
    const kt__held_vocab *v = ctx;
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    size_t n, m;
    (void)kt__gvocab_token(v->tokens, x, &n);
    (void)kt__gvocab_token(v->tokens, y, &m);
    return n != m ? (n < m ? 1 : -1) : (x > y) - (x < y);
}

static kt_status list_controls(kt__held_vocab *v, const kt__held_vocab_source *source,
                               kt_error *err) {
    size_t len;
    v->ends = kt__calloc(v->tokens->n_words, sizeof *v->ends);
    for (int32_t id = 0; id < source->n_vocab; id++) {
        (void)control_name(source, id, &len);
        v->n_controls += len > 0;
    }
    v->controls = kt__calloc(v->n_controls + 1u, sizeof *v->controls);
    if (!v->ends || !v->controls) return kt__fail_nomem(err, "control tokens", v->n_controls * 4u);
    uint32_t n = 0;
    for (int32_t id = 0; id < source->n_vocab; id++) {
        if (source->ends(source->ctx, id)) v->ends[id / 64] |= UINT64_C(1) << id % 64;
        (void)control_name(source, id, &len);
        if (len > 0) v->controls[n++] = id;
    }
    qsort_r(v->controls, n, sizeof *v->controls, by_length, v);
    return KT_OK;
}

kt_status kt__held_vocab_create(const kt__held_vocab_source *source, kt__held_vocab **out,
                                kt_error *err) {
    *out = NULL;
    kt__held_vocab *v = kt__calloc(1, sizeof *v);
    marked *m = kt__calloc(1, sizeof *m);
    const kt__gvocab_source all = {marked_bytes, m, source->n_vocab};
    kt_status status;
    if (!v || !m) KT__TRY(kt__fail_nomem(err, "a vocabulary", sizeof *v));
    m->source = source;
    KT__TRY(kt__gvocab_create(&all, &v->tokens, err));
    KT__TRY(list_controls(v, source, err));
    *out = v;
    v = NULL;
out:
    kt__free(m);
    kt__held_vocab_free(v);
    return status;
}

void kt__held_vocab_free(kt__held_vocab *v) {
    if (!v) return;
    kt__gvocab_free(v->tokens);
    kt__free(v->ends);
    kt__free(v->controls);
    kt__free(v);
}

size_t kt__held_vocab_bytes(const kt__held_vocab *v) {
    return sizeof *v + kt__gvocab_bytes(v->tokens) + v->tokens->n_words * 8u + v->n_controls * 4u;
}

/* Length of the name that is at text, without its mark; 0: none. */
static size_t name_at(const kt__held_vocab *v, const char *text, size_t len) {
    for (uint32_t i = 0; i < v->n_controls; i++) {
        size_t n;
        const char *name = kt__gvocab_token(v->tokens, v->controls[i], &n) + 1;
        if (n-- <= len + 1 && memcmp(name, text, n) == 0) return n;
    }
    return 0;
}

void kt__held_vocab_mark(const kt__held_vocab *v, const char *text, kt__buf *out) {
    const char mark = (char)KT__HELD_MARK;
    size_t len = strlen(text);
    while (len > 0) {
        size_t n = name_at(v, text, len);
        if (n > 0) (void)kt__buf_append(out, &mark, 1);
        if (n == 0) n = 1;
        (void)kt__buf_append(out, text, n);
        text += n;
        len -= n;
    }
}

/* The longest token that the bytes begin with, or -1. */
static int32_t longest_token(const kt__gvocab *v, const char *bytes, size_t len, size_t *n) {
    int32_t found = -1;
    uint32_t node = 0, end = v->n_nodes;
    for (size_t i = 0; i < len; i++) {
        while (node < end && v->nodes[node].byte != (uint8_t)bytes[i]) node = v->nodes[node].end;
        if (node >= end) break;
        if (v->nodes[node].token >= 0) {
            found = v->nodes[node].token;
            *n = i + 1;
        }
        end = v->nodes[node].end;
        node++;
    }
    return found;
}

size_t kt__held_vocab_cut(const kt__held_vocab *v, const char *bytes, size_t len, int32_t *ids,
                          size_t cap, size_t *n_bytes) {
    size_t n = 0, one = 0;
    *n_bytes = 0;
    for (size_t at = 0; at < len; at += one) {
        int32_t id = longest_token(v->tokens, bytes + at, len - at, &one);
        if (id < 0) return SIZE_MAX;
        if (n < cap) {
            ids[n] = id;
            *n_bytes = at + one;
        }
        n++;
    }
    return n;
}
