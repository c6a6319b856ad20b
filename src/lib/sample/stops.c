#include "sample/stops.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "sample/match.h"

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
