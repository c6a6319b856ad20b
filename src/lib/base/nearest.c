#include "base/nearest.h"

#include <ctype.h>
#include <string.h>

enum { MAX_NAME = 63 };

static size_t min3(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

static int lower_case(char c) {
    return tolower((unsigned char)c);
}

/* What a letter too many or too few costs: nothing where it only separates words. */
static size_t cost_of(char c) {
    return c != '-' && c != '_';
}

size_t kt__name_distance(const char *a, size_t a_len, const char *b) {
    size_t b_len = strlen(b);
    if (a_len > MAX_NAME) a_len = MAX_NAME;
    if (b_len > MAX_NAME) b_len = MAX_NAME;
    size_t rows[3][MAX_NAME + 1]; /* the row being filled, the last and the one before */
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    last[0] = 0;
    for (size_t j = 1; j <= b_len; j++) last[j] = last[j - 1] + cost_of(b[j - 1]);
    for (size_t i = 1; i <= a_len; i++) {
        row[0] = last[0] + cost_of(a[i - 1]);
        for (size_t j = 1; j <= b_len; j++) {
            size_t replaced = lower_case(a[i - 1]) != lower_case(b[j - 1]);
            row[j] = min3(last[j] + cost_of(a[i - 1]), row[j - 1] + cost_of(b[j - 1]),
                          last[j - 1] + replaced);
            if (i > 1 && j > 1 && lower_case(a[i - 1]) == lower_case(b[j - 2]) &&
                lower_case(a[i - 2]) == lower_case(b[j - 1]) && before[j - 2] + 1 < row[j]) {
                row[j] = before[j - 2] + 1;
            }
        }
        size_t *spare = before;
        before = last, last = row, row = spare;
    }
    return last[b_len];
}

const char *kt__nearest_name(const char *name, size_t len, const char *const *names, size_t n) {
    const char *best = NULL;
    size_t best_distance = len < 8 ? 1 : len / 4; /* more edits make another word of it */
    for (size_t i = 0; i < n; i++) {
        if (len >= 3 && strncmp(names[i], name, len) == 0) return names[i];
        size_t distance = kt__name_distance(name, len, names[i]);
        if (distance < best_distance || (!best && distance == best_distance)) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}
