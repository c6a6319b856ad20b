#include "sample/match.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

typedef struct node {
    uint32_t child, sibling; /* first child, next sibling; 0: none */
    uint32_t fail;           /* the longest proper suffix that is a node */
    uint32_t depth;
    int32_t found; /* longest pattern that ends here, or -1 */
    uint32_t found_len;
    uint8_t byte; /* on the edge from the parent */
} node;

struct kt__match {
    node *nodes; /* [n_nodes]; 0 is the root */
    uint32_t n_nodes;
    size_t longest;
};

static uint32_t find_child(const kt__match *match, uint32_t parent, uint8_t byte) {
    uint32_t child = match->nodes[parent].child;
    while (child && match->nodes[child].byte != byte) child = match->nodes[child].sibling;
    return child;
}

static uint32_t add_child(kt__match *match, uint32_t parent, uint8_t byte) {
    uint32_t child = match->n_nodes++;
    node *nodes = match->nodes;
    nodes[child] = (node){.sibling = nodes[parent].child,
                          .depth = nodes[parent].depth + 1,
                          .found = -1,
                          .byte = byte};
    nodes[parent].child = child;
    return child;
}

static void add_pattern(kt__match *match, const char *pattern, int32_t index) {
    uint32_t at = 0;
    size_t len = strlen(pattern);
    for (size_t i = 0; i < len; i++) {
        uint8_t byte = (uint8_t)pattern[i];
        uint32_t child = find_child(match, at, byte);
        at = child ? child : add_child(match, at, byte);
    }
    if (match->nodes[at].found < 0) {
        match->nodes[at].found = index;
        match->nodes[at].found_len = (uint32_t)len;
    }
    if (len > match->longest) match->longest = len;
}

/* Breadth first, so that a node's fail link, always shorter, is complete before it is needed. */
static void link_suffixes(kt__match *match, uint32_t *queue) {
    node *nodes = match->nodes;
    uint32_t head = 0, tail = 0;
    queue[tail++] = 0;
    while (head < tail) {
        uint32_t at = queue[head++];
        for (uint32_t child = nodes[at].child; child; child = nodes[child].sibling) {
            nodes[child].fail = at ? kt__match_step(match, nodes[at].fail, nodes[child].byte) : 0;
            if (nodes[child].found < 0) {
                nodes[child].found = nodes[nodes[child].fail].found;
                nodes[child].found_len = nodes[nodes[child].fail].found_len;
            }
            queue[tail++] = child;
        }
    }
}

kt_status kt__match_create(const char *const *patterns, size_t n, kt__match **out, kt_error *err) {
    size_t bytes = 0;
    uint32_t *queue = NULL;
    kt_status status = KT_OK;
    *out = NULL;
    for (size_t i = 0; i < n; i++) {
        bytes += strlen(patterns[i]);
        if (bytes > KT__MATCH_MAX_BYTES) {
            return kt__fail(err, KT_E_LIMIT, "patterns of more than %d bytes together",
                            KT__MATCH_MAX_BYTES);
        }
    }
    kt__match *match = kt__calloc(1, sizeof *match);
    if (match) match->nodes = kt__calloc(bytes + 1, sizeof *match->nodes);
    queue = kt__calloc(bytes + 1, sizeof *queue);
    if (!match || !match->nodes || !queue) {
        status = kt__fail_nomem(err, "a pattern matcher", (bytes + 1) * sizeof(node));
        goto out;
    }
    match->nodes[0].found = -1;
    match->n_nodes = 1;
    for (size_t i = 0; i < n; i++) add_pattern(match, patterns[i], (int32_t)i);
    link_suffixes(match, queue);
    *out = match;
    match = NULL;
out:
    kt__free(queue);
    kt__match_free(match);
    return status;
}

void kt__match_free(kt__match *match) {
    if (!match) return;
    kt__free(match->nodes);
    kt__free(match);
}

uint32_t kt__match_step(const kt__match *match, uint32_t state, uint8_t byte) {
    for (;;) {
        uint32_t child = find_child(match, state, byte);
        if (child || !state) return child;
        state = match->nodes[state].fail;
    }
}

size_t kt__match_depth(const kt__match *match, uint32_t state) {
    return match->nodes[state].depth;
}

int kt__match_found(const kt__match *match, uint32_t state) {
    return match->nodes[state].found;
}

size_t kt__match_found_len(const kt__match *match, uint32_t state) {
    return match->nodes[state].found_len;
}

size_t kt__match_longest(const kt__match *match) {
    return match->longest;
}
