#include "sample/stops.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

#include <string.h>

/* ---- patterns ---- */

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

/* ---- stop strings ---- */

struct kt__stops {
    kt__match *match;
    uint32_t state;
    bool ended;
    char *held, *spare; /* [longest stop] each: what is held, and what the last call released */
    size_t n_held;
};

static bool is_utf8(const char *s) {
    size_t len = strlen(s);
    for (size_t i = 0; i < len;) {
        uint32_t cp;
        size_t n = kt__utf8_decode(s + i, len - i, &cp);
        if (!n) return false;
        i += n;
    }
    return true;
}

static kt_status check_stops(const char *const *stop, size_t n, kt_error *err) {
    if (n > KT__STOPS_MAX) {
        return kt__fail(err, KT_E_LIMIT, "%zu stop strings; at most %d are allowed", n,
                        KT__STOPS_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        if (!stop[i] || !stop[i][0]) {
            return kt__fail(err, KT_E_ARG, "stop string %zu is empty; leave it out", i);
        }
        if (!is_utf8(stop[i])) {
            return kt__fail(err, KT_E_ARG, "stop string %zu is not valid UTF-8", i);
        }
    }
    return KT_OK;
}

kt_status kt__stops_create(const char *const *stop, size_t n, kt__stops **out, kt_error *err) {
    *out = NULL;
    kt_status status = check_stops(stop, n, err);
    if (status != KT_OK) return status;
    kt__stops *stops = kt__calloc(1, sizeof *stops);
    if (!stops) return kt__fail_nomem(err, "stop strings", sizeof *stops);
    status = kt__match_create(stop, n, &stops->match, err);
    if (status == KT_OK) {
        size_t longest = kt__match_longest(stops->match);
        stops->held = kt__malloc(longest);
        stops->spare = kt__malloc(longest);
        if (!stops->held || !stops->spare)
            status = kt__fail_nomem(err, "stop strings", 2 * longest);
    }
    if (status != KT_OK) {
        kt__stops_free(stops);
        return status;
    }
    *out = stops;
    return KT_OK;
}

void kt__stops_free(kt__stops *stops) {
    if (!stops) return;
    kt__match_free(stops->match);
    kt__free(stops->held);
    kt__free(stops->spare);
    kt__free(stops);
}

/* The first n bytes of held text followed by bytes. */
static kt__stops_text first_bytes(const kt__stops *stops, const char *bytes, size_t n, int stop) {
    size_t from_held = n < stops->n_held ? n : stops->n_held;
    return (kt__stops_text){{stops->held, bytes}, {from_held, n - from_held}, stop};
}

/* Holds the last n bytes of held text followed by bytes[len]; what was held stays valid in spare.
 */
static void hold_last(kt__stops *stops, const char *bytes, size_t len, size_t n) {
    size_t from_bytes = n < len ? n : len, from_held = n - from_bytes;
    char *next = stops->spare;
    memcpy(next, stops->held + stops->n_held - from_held, from_held);
    if (from_bytes) memcpy(next + from_held, bytes + len - from_bytes, from_bytes);
    stops->spare = stops->held;
    stops->held = next;
    stops->n_held = n;
}

kt__stops_text kt__stops_push(kt__stops *stops, const char *bytes, size_t len) {
    if (stops->ended) return (kt__stops_text){{"", ""}, {0, 0}, -1};
    for (size_t i = 0; i < len; i++) {
        stops->state = kt__match_step(stops->match, stops->state, (uint8_t)bytes[i]);
        int found = kt__match_found(stops->match, stops->state);
        if (found < 0) continue;
        size_t stop_len = kt__match_found_len(stops->match, stops->state);
        kt__stops_text text = first_bytes(stops, bytes, stops->n_held + i + 1 - stop_len, found);
        stops->n_held = 0;
        stops->ended = true;
        return text;
    }
    size_t depth = kt__match_depth(stops->match, stops->state);
    kt__stops_text text = first_bytes(stops, bytes, stops->n_held + len - depth, -1);
    hold_last(stops, bytes, len, depth);
    return text;
}

kt__stops_text kt__stops_flush(kt__stops *stops) {
    kt__stops_text text = first_bytes(stops, "", stops->n_held, -1);
    stops->state = 0;
    stops->n_held = 0;
    return text;
}

/* ---- repetition ---- */

void kt__loop_init(kt__loop *loop, int32_t limit) {
    memset(loop, 0, sizeof *loop);
    loop->limit = limit;
}

/* same tokens that repeat, after the p of the first time */
static bool is_loop(const kt__loop *loop, int32_t p) {
    int64_t same = loop->same[p];
    return same + p >= loop->limit && same >= (int64_t)(KT__LOOP_TIMES - 1) * p;
}

bool kt__loop_push(kt__loop *loop, int32_t id) {
    bool found = false;
    if (!loop->limit) return false;
    int32_t n = loop->n < KT__LOOP_PERIOD ? (int32_t)loop->n : KT__LOOP_PERIOD;
    for (int32_t p = 1; p <= n; p++) {
        bool repeats = loop->last[(loop->n - (uint32_t)p) % KT__LOOP_PERIOD] == id;
        loop->same[p] = repeats ? loop->same[p] + 1 : 0;
        found |= repeats && is_loop(loop, p);
    }
    loop->last[loop->n++ % KT__LOOP_PERIOD] = id;
    return found;
}
