/* What POSIX's and GNU's C libraries do with memory, texts and dates. */
#include "system.h"

#include <ctype.h>
#include <fnmatch.h>

void *kt__win_memmem(const void *in, size_t n, const void *what, size_t len) {
    const char *at = in, *end = at + n;
    if (!len) return (void *)(uintptr_t)in;
    while ((size_t)(end - at) >= len) {
        at = memchr(at, *(const char *)what, (size_t)(end - at) - len + 1);
        if (!at) return NULL;
        if (!memcmp(at, what, len)) return (void *)(uintptr_t)at;
        at++;
    }
    return NULL;
}

void *kt__win_memrchr(const void *in, int c, size_t n) {
    const unsigned char *bytes = in;
    while (n-- > 0)
        if (bytes[n] == (unsigned char)c) return (void *)(uintptr_t)(bytes + n);
    return NULL;
}

char *kt__win_strchrnul(const char *s, int c) {
    while (*s && *s != (char)c) s++;
    return (char *)(uintptr_t)s;
}

char *kt__win_strsep(char **rest, const char *ends) {
    char *begin = *rest;
    if (!begin) return NULL;
    char *end = begin + strcspn(begin, ends);
    *rest = *end ? end + 1 : NULL;
    *end = '\0';
    return begin;
}

char *kt__win_strcasestr(const char *in, const char *what) {
    size_t n = strlen(what);
    for (; *in; in++)
        if (!_strnicmp(in, what, n)) return (char *)(uintptr_t)in;
    return n ? NULL : (char *)(uintptr_t)in;
}

char *kt__win_stpcpy(char *to, const char *from) {
    size_t n = strlen(from);
    memcpy(to, from, n + 1);
    return to + n;
}

char *kt__win_strndup(const char *s, size_t n) {
    size_t len = strnlen(s, n);
    char *out = malloc(len + 1);
    if (!out) return NULL;
    memcpy(out, s, len);
    out[len] = '\0';
    return out;
}

char *kt__win_strtok_r(char *s, const char *ends, char **rest) {
    s = s ? s : *rest;
    s += strspn(s, ends);
    char *end = s + strcspn(s, ends);
    *rest = *end ? end + 1 : end;
    if (!*s) return NULL;
    *end = '\0';
    return s;
}

/* ---- sorting: stable, as glibc's is, so that equal elements come out the same everywhere ---- */

typedef int compare_fn(const void *, const void *, void *);

static void sort_range(char *base, size_t n, size_t size, compare_fn *compare, void *arg,
                       char *spare) {
    if (n < 2) return;
    size_t half = n / 2, i = 0, j = half, k = 0;
    sort_range(base, half, size, compare, arg, spare);
    sort_range(base + half * size, n - half, size, compare, arg, spare);
    memcpy(spare, base, half * size);
    while (i < half && j < n) {
        bool left = compare(spare + i * size, base + j * size, arg) <= 0;
        memcpy(base + k++ * size, left ? spare + i++ * size : base + j++ * size, size);
    }
    memcpy(base + k * size, spare + i * size, (half - i) * size);
}

/* In place where there is no memory: by insertion. */
static void insert_all(char *base, size_t n, size_t size, compare_fn *compare, void *arg) {
    for (size_t i = 1; i < n; i++) {
        for (size_t j = i; j > 0 && compare(base + (j - 1) * size, base + j * size, arg) > 0; j--) {
            for (size_t b = 0; b < size; b++) {
                char byte = base[(j - 1) * size + b];
                base[(j - 1) * size + b] = base[j * size + b];
                base[j * size + b] = byte;
            }
        }
    }
}

void kt__win_qsort_r(void *base, size_t n, size_t size, compare_fn *compare, void *arg) {
    char *spare = n > 1 ? malloc(n / 2 * size) : NULL;
    if (spare) {
        sort_range(base, n, size, compare, arg, spare);
        free(spare);
    } else {
        insert_all(base, n, size, compare, arg);
    }
}

typedef struct plain_compare {
    int (*compare)(const void *, const void *);
} plain_compare;

static int call_plain(const void *a, const void *b, void *arg) {
    return ((const plain_compare *)arg)->compare(a, b);
}

void kt__win_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *)) {
    plain_compare plain = {compare};
    kt__win_qsort_r(base, n, size, call_plain, &plain);
}

/* ---- dates ---- */

struct tm *kt__win_localtime_r(const time_t *when, struct tm *out) {
    return _localtime64_s(out, when) == 0 ? out : NULL;
}

struct tm *kt__win_gmtime_r(const time_t *when, struct tm *out) {
    return _gmtime64_s(out, when) == 0 ? out : NULL;
}

/* "+0200": the C library writes a name there. */
static void zone_of(const struct tm *when, char *out) {
    struct tm copy = *when;
    time_t local = _mkgmtime64(&copy);
    copy = *when;
    int minutes = (int)((local - _mktime64(&copy)) / 60);
    int all = minutes < 0 ? -minutes : minutes;
    snprintf(out, 8, "%c%02d%02d", minutes < 0 ? '-' : '+', all / 60 % 24, all % 60);
}

#undef strftime
/* With what C99 has and the C library lacks: %F, %T, %R, %D, %e, %h, %n, %t, %s, %z; "%-d" drops a leading zero. */
size_t kt__win_strftime(char *out, size_t size, const char *format, const struct tm *when) {
    static const struct {
        char letter;
        const char *means;
    } table[] = {{'F', "%Y-%m-%d"}, {'T', "%H:%M:%S"}, {'R', "%H:%M"}, {'D', "%m/%d/%y"},
                 {'h', "%b"},       {'n', "\n"},       {'t', "\t"},    {'e', "%d"}};
    size_t at = 0;
    for (; *format; format++) {
        char piece[256], one[4] = {'%', 0, 0, 0};
        bool unpadded = format[0] == '%' && format[1] == '-' && format[2];
        if (*format != '%' || !format[1]) {
            if (at + 1 >= size) return 0;
            out[at++] = *format;
            continue;
        }
        format += unpadded ? 2 : 1;
        one[1] = *format;
        const char *means = one;
        for (size_t i = 0; i < sizeof table / sizeof *table; i++)
            if (table[i].letter == *format) means = table[i].means;
        size_t n = strftime(piece, sizeof piece, means, when);
        if (*format == 'z') {
            zone_of(when, piece);
            n = strlen(piece);
        }
        const char *from = piece;
        if (*format == 'e' && piece[0] == '0') piece[0] = ' ';
        if (unpadded && n > 1 && (piece[0] == '0' || piece[0] == ' ')) from++, n--;
        if (at + n >= size) return 0;
        memcpy(out + at, from, n);
        at += n;
    }
    if (at >= size) return 0;
    out[at] = '\0';
    return at;
}

/* ---- patterns ---- */

/* After '[': whether c is one of them; *end: after the ']'. NULL: there is none. */
static const char *match_set(const char *p, char c, bool *is_in) {
    bool negated = *p == '!' || *p == '^', found = false;
    const char *begin = p += negated;
    for (; *p && (*p != ']' || p == begin); p++) {
        char low = *p, high = low;
        if (p[1] == '-' && p[2] && p[2] != ']') {
            high = p[2];
            p += 2;
        }
        found |= c >= low && c <= high;
    }
    *is_in = found != negated;
    return *p ? p + 1 : NULL;
}

int kt__win_fnmatch(const char *pattern, const char *text, int flags) {
    for (; *pattern; pattern++, text++) {
        bool is_in = false;
        if (*pattern == '*') {
            for (;; text++) {
                if (kt__win_fnmatch(pattern + 1, text, flags) == 0) return 0;
                if (!*text) return FNM_NOMATCH;
            }
        }
        if (!*text) return FNM_NOMATCH;
        if (*pattern == '?') continue;
        const char *end = *pattern == '[' ? match_set(pattern + 1, *text, &is_in) : NULL;
        if (end) {
            if (!is_in) return FNM_NOMATCH;
            pattern = end - 1;
            continue;
        }
        if (*pattern == '\\' && pattern[1]) pattern++;
        if (*pattern != *text) return FNM_NOMATCH;
    }
    return *text ? FNM_NOMATCH : 0;
}
