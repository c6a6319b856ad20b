#include "tokenizer/unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"

#include "tokenizer/unicode_tables.inc"

/* Code points of one stretch, decomposed, with their combining classes. */
typedef struct decomposed {
    int32_t *cp;
    uint8_t *ccc;
    int32_t *tmp; /* for sorting, as long as cp */
    size_t len, cap;
} decomposed;

enum { MAX_DECOMPOSITION = 32 }; /* the longest canonical one has 4 */

static void decomposed_free(decomposed *d) {
    kt__free(d->cp);
    kt__free(d->ccc);
    kt__free(d->tmp);
}

static bool decomposed_reserve(decomposed *d, size_t extra) {
    if (d->cap - d->len >= extra) return true;
    size_t cap = d->cap * 2 + extra + 64;
    int32_t *cp = kt__realloc_array(d->cp, cap, sizeof *cp);
    if (!cp) return false;
    d->cp = cp;
    uint8_t *ccc = kt__realloc_array(d->ccc, cap, sizeof *ccc);
    if (!ccc) return false;
    d->ccc = ccc;
    int32_t *tmp = kt__realloc_array(d->tmp, cap, sizeof *tmp);
    if (!tmp) return false;
    d->tmp = tmp;
    d->cap = cap;
    return true;
}

static bool decompose_text(decomposed *d, const char *s, size_t len) {
    size_t n;
    for (size_t i = 0; i < len; i += n) {
        uint32_t cp;
        int boundary = 0;
        n = kt__utf8_decode(s + i, len - i, &cp);
        if (!decomposed_reserve(d, MAX_DECOMPOSITION)) return false;
        utf8proc_ssize_t got = utf8proc_decompose_char(
            (int32_t)cp, d->cp + d->len, MAX_DECOMPOSITION, UTF8PROC_DECOMPOSE | UTF8PROC_STABLE,
            &boundary);
        if (got < 0 || got > MAX_DECOMPOSITION) return false;
        for (size_t k = d->len; k < d->len + (size_t)got; k++)
            d->ccc[k] = (uint8_t)utf8proc_get_property(d->cp[k])->combining_class;
        d->len += (size_t)got;
    }
    return true;
}

/* Stable sort of cp[begin..end) by combining class: insertion for a few marks, counting for many.
 */
static void sort_marks(decomposed *d, size_t begin, size_t end) {
    if (end - begin < 16) {
        for (size_t i = begin + 1; i < end; i++) {
            int32_t cp = d->cp[i];
            uint8_t ccc = d->ccc[i];
            size_t j = i;
            for (; j > begin && d->ccc[j - 1] > ccc; j--) {
                d->cp[j] = d->cp[j - 1];
                d->ccc[j] = d->ccc[j - 1];
            }
            d->cp[j] = cp;
            d->ccc[j] = ccc;
        }
        return;
    }
    size_t start[257] = {0};
    for (size_t i = begin; i < end; i++) start[d->ccc[i] + 1]++;
    for (size_t c = 1; c < 257; c++) start[c] += start[c - 1];
    for (size_t i = begin; i < end; i++) d->tmp[start[d->ccc[i]]++] = d->cp[i];
    memcpy(d->cp + begin, d->tmp, (end - begin) * sizeof *d->cp);
}

/* Canonical ordering: each run of marks between starters. */
static void order_marks(decomposed *d) {
    for (size_t i = 0; i < d->len;) {
        size_t begin = i;
        while (i < d->len && d->ccc[i]) i++;
        if (i - begin > 1) sort_marks(d, begin, i);
        if (i == begin) i++;
    }
}

/* Appends the NFC of the valid UTF-8 s[len]. */
static bool append_nfc(kt__buf *buf, decomposed *d, const char *s, size_t len) {
    d->len = 0;
    if (!decompose_text(d, s, len)) return false;
    order_marks(d);
    utf8proc_ssize_t n = utf8proc_normalize_utf32(d->cp, (utf8proc_ssize_t)d->len,
                                                  UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        char bytes[4];
        if (!kt__buf_append(buf, bytes, kt__utf8_encode((uint32_t)d->cp[i], bytes))) return false;
    }
    return n >= 0;
}

/* Finds the next stretch of s[from..len) that NFC may change: a character with the NFC bit and what
 * follows it up to the next valid character without, and the character before it (it may compose).
 * Characters without the bit are starters that never compose backwards, so stretches are
 * independent. */
static bool next_stretch(const char *s, size_t len, size_t from, size_t *begin, size_t *end) {
    size_t n, before = from;
    for (size_t i = from; i < len; i += n) {
        uint32_t cp;
        uint8_t cls = kt__unicode_next(s + i, len - i, &n, &cp);
        if (cls & KT__UC_NFC) {
            *begin = before;
            for (i += n; i < len; i += n) {
                cls = kt__unicode_next(s + i, len - i, &n, &cp);
                if (!(cls & KT__UC_NFC)) break;
            }
            *end = i;
            return true;
        }
        before = cp == UINT32_MAX ? i + n : i;
    }
    return false;
}

kt_status kt__unicode_nfc(kt__arena *arena, const char *s, size_t len, const char **out,
                          size_t *out_len, kt_error *err) {
    kt_status status = KT_OK;
    size_t begin, end, done = 0;
    *out = s;
    *out_len = len;
    if (!next_stretch(s, len, 0, &begin, &end)) return KT_OK;

    decomposed d = {0};
    kt__buf buf;
    kt__buf_init(&buf, SIZE_MAX / 2);
    bool more = true;
    while (more) {
        if (!kt__buf_append(&buf, s + done, begin - done) ||
            !append_nfc(&buf, &d, s + begin, end - begin)) {
            status = kt__fail_nomem(err, "normalisation", end - begin);
            goto out;
        }
        done = end;
        more = next_stretch(s, len, done, &begin, &end);
    }
    if (!kt__buf_append(&buf, s + done, len - done)) {
        status = kt__fail_nomem(err, "normalisation", len - done);
        goto out;
    }
    char *copy = kt__arena_strndup(arena, buf.data, buf.len);
    if (!copy) {
        status = kt__fail_nomem(err, "normalisation", buf.len);
        goto out;
    }
    *out = copy;
    *out_len = buf.len;
out:
    decomposed_free(&d);
    kt__buf_free(&buf);
    return status;
}

static bool is_ascii(const char *s, size_t len) {
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] >= 0x80) return false;
    return true;
}

kt_status kt__unicode_nfd(kt__arena *arena, const char *s, size_t len, const char **out,
                          size_t *out_len, kt_error *err) {
    *out = s;
    *out_len = len;
    if (is_ascii(s, len)) return KT_OK;
    decomposed d = {0};
    kt_status status = KT_OK;
    bool ok = decompose_text(&d, s, len);
    char *text = ok ? kt__arena_alloc(arena, 4 * d.len + 1) : NULL;
    if (text) {
        size_t n = 0;
        order_marks(&d);
        for (size_t i = 0; i < d.len; i++) n += kt__utf8_encode((uint32_t)d.cp[i], text + n);
        *out = text;
        *out_len = n;
    } else {
        status = kt__fail_nomem(err, "normalisation", len);
    }
    decomposed_free(&d);
    return status;
}
