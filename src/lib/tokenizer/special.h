/* Special tokens in text: the longest one at each place, leftmost first.
 *
 * Owns: a trie of token texts. Does not know what the ids mean beyond one bit: whether a token is
 * always recognised (user-defined) or only on request (control, unknown). Immutable once built; any
 * thread. */
#ifndef KT_TOKENIZER_SPECIAL_H
#define KT_TOKENIZER_SPECIAL_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kt__special kt__special;

enum { KT__SPECIAL_MAX_BYTES = 1024 }; /* of a token's text: bounds the work at each position */

typedef struct kt__special_item {
    const char *s; /* copied; not empty */
    size_t len;    /* <= KT__SPECIAL_MAX_BYTES */
    int32_t id;
    bool always;    /* recognised without parse_special */
    uint8_t strips; /* passed on in matches */
} kt__special_item;

typedef struct kt__special_match {
    size_t begin, end;
    int32_t id;
    bool always;
    uint8_t strips;
} kt__special_match;

/* Of items with equal text the last counts. Reorders items. */
kt_status kt__special_new(kt__special_item *items, size_t n, kt__special **out,
                          kt_error *err) KT_CHECKED;
void kt__special_free(kt__special *special);

/* The first match in s[from..len). A token that is not `always` counts only where s[begin..end)
 * lies within one of the ranges [begin, end) of `ranges`, ascending and disjoint; *range is where
 * to start looking in them and is moved on. special may be NULL: no match. */
typedef struct kt__special_range {
    size_t begin, end;
} kt__special_range;
bool kt__special_find(const kt__special *special, const char *s, size_t len, size_t from,
                      const kt__special_range *ranges, size_t n_ranges, size_t *range,
                      kt__special_match *out);

#endif
