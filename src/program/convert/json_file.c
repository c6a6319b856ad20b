#include "convert/json_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/system.h"
#include "base/text.h"

char *kt__folder_path(const char *dir, const char *name) {
    size_t dir_len = strlen(dir), name_len = strlen(name);
    char *path = kt__malloc(dir_len + name_len + 2);
    if (!path) return NULL;
    memcpy(path, dir, dir_len);
    path[dir_len] = '/';
    memcpy(path + dir_len + 1, name, name_len + 1);
    return path;
}

/* ---- links ---- */

static bool lies_in(const char *path, const char *folder, size_t len) {
    return strncmp(path, folder, len) == 0 && path[len] == '/';
}

/* Whether a file of the folder `home` may be at `real`: both without links. Hugging Face's cache keeps
 * models--X/snapshots/REVISION/FILE as a link to models--X/blobs/HASH. */
static bool may_lie_at(const char *real, const char *home) {
    static const char snapshots[] = "/snapshots/", blobs[] = "/blobs";
    if (lies_in(real, home, strlen(home))) return true;
    const char *cut = NULL, *next = strstr(home, snapshots);
    for (; next; next = strstr(next + 1, snapshots)) cut = next;
    if (!cut || strncmp(real, home, (size_t)(cut - home)) != 0) return false;
    const char *rest = real + (cut - home);
    return lies_in(rest, blobs, sizeof blobs - 1) && !strchr(rest + sizeof blobs, '/');
}

kt_status kt__folder_check_link(const char *path, kt_error *err) {
    kt__file_info st;
    const char *slash = strrchr(path, '/');
    if (!slash || !kt__file_look_here(path, &st) || !st.is_link)
        return KT_OK; /* absent: the opening says so */
    char *folder = kt__strndup(path, (size_t)(slash - path) + (slash == path));
    char *home = folder ? realpath(folder, NULL) : NULL, *real = realpath(path, NULL);
    bool good = !real || (home && may_lie_at(real, home));
    kt_status status =
        good
            ? KT_OK
            : kt__fail_at(
                  err, KT_E_FORMAT, path, UINT64_MAX,
                  "a link to %.300s, which is neither in the model's folder nor among the blobs of its hub cache: "
                  "put the file itself there",
                  real);
    free(home);
    free(real);
    kt__free(folder);
    return status;
}

/* O_NONBLOCK: a pipe in place of the file is refused, not waited for. */
static kt_status open_regular(const char *path, size_t max, bool required, int *fd, size_t *size,
                              kt_error *err) {
    kt__file_info st;
    kt_status status = kt__folder_check_link(path, err);
    if (status != KT_OK) return status;
    *fd = kt__fd_open(path, KT__OPEN_READ | KT__OPEN_NO_WAIT);
    if (*fd < 0 && errno == ENOENT && !required) return KT_OK;
    if (*fd < 0 || !kt__fd_look(*fd, &st)) return kt__fail_system(err, errno, path, "cannot read");
    if (!st.is_file) return kt__fail_at(err, KT_E_IO, path, UINT64_MAX, "not a regular file");
    if (st.bytes > max)
        return kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX,
                           "%lld bytes are over the limit of %zu for such a file",
                           (long long)st.bytes, max);
    *size = (size_t)st.bytes;
    return KT_OK;
}

kt_status kt__folder_read_file(const char *path, size_t max, bool required, char **text,
                               size_t *len, kt_error *err) {
    int fd = -1;
    char *data = NULL;
    kt_status status;
    *text = NULL;
    *len = 0;
    KT__TRY(open_regular(path, max, required, &fd, len, err));
    if (fd < 0) goto out;
    data = kt__malloc(*len + 1);
    if (!data) {
        status = kt__fail_nomem(err, path, *len);
        goto out;
    }
    if (!kt__fd_read_at(fd, data, *len, 0)) {
        status = errno ? kt__fail_system(err, errno, path, "cannot read")
                       : kt__fail_at(err, KT_E_IO, path, UINT64_MAX,
                                     "cannot read: the file became shorter");
        goto out;
    }
    data[*len] = '\0';
    *text = data;
    data = NULL;
out:
    if (fd >= 0) kt__fd_close(fd);
    kt__free(data);
    return status;
}

static kt_status not_json(const char *path, const json_error_t *why, size_t at, kt_error *err) {
    return kt__fail_at(err, KT_E_FORMAT, path, at, "not valid JSON: %s", why->text);
}

/* ---- how many values ---- */

/* jansson makes a structure of each value: of 60 MB of {} 4.8 GB in 27 seconds. Published files have one value in ten bytes
 * or more, and few objects, which are the largest. */
enum { BYTES_A_VALUE = 12, OBJECT_VALUES = 8, ARRAY_VALUES = 2, KEY_VALUES = 4 };

static size_t value_cost(char c) {
    switch (c) {
    case ',': return 1;
    case ':': return KEY_VALUES;
    case '[': return ARRAY_VALUES;
    case '{': return OBJECT_VALUES;
    default: return 0;
    }
}

/* The end of the string that begins at `at`. */
static const char *after_string(const char *at, const char *end) {
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') at++;
    return at < end ? at + 1 : end;
}

/* Whether the text has at most so many values, an object and a list counting more; *at: where it has more. */
static bool has_few_values(const char *text, size_t len, size_t most, size_t *at) {
    const char *end = text + len;
    size_t n = 0;
    for (const char *c = text; c < end;) {
        if (*c == '"') {
            c = after_string(c, end);
            continue;
        }
        n += value_cost(*c);
        if (n > most) {
            *at = (size_t)(c - text);
            return false;
        }
        c++;
    }
    return true;
}

static kt_status check_values(const char *text, size_t len, size_t max_bytes, const char *path,
                              kt_error *err) {
    size_t most = max_bytes / BYTES_A_VALUE, at;
    if (has_few_values(text, len, most, &at)) return KT_OK;
    return kt__fail_at(
        err, KT_E_LIMIT, path, at,
        "over %zu values, where a key counts as %d and an object as %d, are more than such a file has",
        most, KEY_VALUES, OBJECT_VALUES);
}

/* As Python reads it: of two equal keys the last counts. */
static kt_status parse_as_python(const char *text, size_t len, const char *path, json_t **out,
                                 kt_error *err) {
    json_error_t why;
    char *plain;
    size_t plain_len;
    kt_status status = kt__json_numbers_plain(text, len, path, &plain, &plain_len, err);
    if (status != KT_OK) return status;
    *out = plain ? json_loadb(plain, plain_len, 0, &why) : json_loadb(text, len, 0, &why);
    kt__free(plain);
    if (*out) return KT_OK;
    size_t at = why.position >= 0 ? (size_t)why.position : 0;
    return not_json(path, &why, kt__json_numbers_origin(text, len, at), err);
}

static kt_status need_object(const char *path, json_t **out, kt_error *err) {
    if (json_is_object(*out)) return KT_OK;
    json_decref(*out);
    *out = NULL;
    return kt__fail_at(err, KT_E_FORMAT, path, 0, "a JSON object is expected");
}

kt_status kt__folder_parse_json(const char *text, size_t len, const char *path, json_t **out,
                                kt_error *err) {
    *out = NULL;
    kt_status status = parse_as_python(text, len, path, out, err);
    return status == KT_OK ? need_object(path, out, err) : status;
}

/* As Python reads it, if it has no more values than max bytes may have. */
static kt_status parse_bounded(const char *text, size_t len, size_t max, const char *path,
                               json_t **out, kt_error *err) {
    KT__STEP(check_values(text, len, max, path, err));
    return parse_as_python(text, len, path, out, err);
}

kt_status kt__folder_read_list(const char *path, size_t max, size_t max_items, json_t **out,
                               kt_error *err) {
    char *text;
    size_t len;
    *out = NULL;
    kt_status status = kt__folder_read_file(path, max, false, &text, &len, err);
    if (status == KT_OK && text) status = parse_bounded(text, len, max, path, out, err);
    kt__free(text);
    if (!*out || (json_is_array(*out) && json_array_size(*out) <= max_items)) return status;
    json_decref(*out);
    *out = NULL;
    return kt__fail_at(err, KT_E_FORMAT, path, 0, "a list of at most %zu modules is expected",
                       max_items);
}

kt_status kt__folder_parse_bounded(const char *text, size_t len, size_t max, const char *path,
                                   json_t **out, kt_error *err) {
    *out = NULL;
    if (len > max)
        return kt__fail_at(err, KT_E_LIMIT, path, UINT64_MAX,
                           "%zu bytes are over the limit of %zu for such a file", len, max);
    KT__STEP(parse_bounded(text, len, max, path, out, err));
    return need_object(path, out, err);
}

kt_status kt__folder_read_json(const char *path, size_t max, bool required, json_t **out,
                               kt_error *err) {
    char *text;
    size_t len;
    *out = NULL;
    kt_status status = kt__folder_read_file(path, max, required, &text, &len, err);
    if (status == KT_OK && text) status = kt__folder_parse_bounded(text, len, max, path, out, err);
    kt__free(text);
    return status;
}

/* ---- json numbers ---- */

#define LARGEST_REAL "1.7976931348623157e308"
enum { MAX_REAL_DIGITS = 308 };

/* A stretch [begin, end) of the text, and what is written after it or in its place. */
typedef struct odd_number {
    size_t begin, end;
    const char *text; /* what replaces the stretch */
    bool keep;        /* the stretch stays, and text comes after it */
    bool too_long;
} odd_number;

/* Returns the offset after the closing quote of the string whose opening quote is at `at`; len when it is not closed. */
static size_t string_end(const char *s, size_t len, size_t at) {
    for (at++; at < len && s[at] != '"'; at++)
        if (s[at] == '\\') at++;
    return at < len ? at + 1 : len;
}

static size_t number_end(const char *s, size_t len, size_t at) {
    while (at < len && s[at] && strchr("0123456789+-.eE", s[at])) at++;
    return at;
}

static bool is_integer(const char *s, size_t len) {
    for (size_t i = s[0] == '-'; i < len; i++)
        if (s[i] < '0' || s[i] > '9') return false;
    return len > (size_t)(s[0] == '-');
}

/* Whether an integer of digits only needs more than 64 bits. */
static bool is_beyond_64(const char *s, size_t len) {
    bool minus = s[0] == '-';
    size_t n = len - minus;
    if (n != 19) return n > 19;
    return memcmp(s + minus, minus ? "9223372036854775808" : "9223372036854775807", 19) > 0;
}

/* The number at `at`; false: jansson takes it as it is. */
static bool read_number(const char *s, size_t at, size_t end, odd_number *out) {
    size_t n = end - at;
    *out = (odd_number){.begin = at, .end = end, .too_long = n > KT__JSON_MAX_DIGITS};
    if (out->too_long) return true;
    if (!is_integer(s + at, n) || !is_beyond_64(s + at, n)) return false;
    bool beyond = n > MAX_REAL_DIGITS;
    out->keep = !beyond;
    out->text = !beyond ? "e0" : s[at] == '-' ? "-" LARGEST_REAL : LARGEST_REAL;
    return true;
}

static bool read_word(const char *s, size_t len, size_t at, odd_number *out) {
    static const struct {
        const char *word, *text;
    } words[] = {{"NaN", "null"}, {"Infinity", LARGEST_REAL}, {"-Infinity", "-" LARGEST_REAL}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].word);
        if (len - at < n || memcmp(s + at, words[i].word, n) != 0) continue;
        *out = (odd_number){.begin = at, .end = at + n, .text = words[i].text};
        return true;
    }
    return false;
}

/* The next number from `at` on that jansson does not take; false: none. */
static bool next_odd(const char *s, size_t len, size_t at, odd_number *out) {
    while (at < len) {
        if (s[at] == '"') {
            at = string_end(s, len, at);
        } else if (read_word(s, len, at, out)) {
            return true;
        } else if (s[at] == '-' || (s[at] >= '0' && s[at] <= '9')) {
            size_t end = number_end(s, len, at);
            if (read_number(s, at, end, out)) return true;
            at = end;
        } else {
            at++;
        }
    }
    return false;
}

kt_status kt__json_numbers_plain(const char *text, size_t len, const char *path, char **out,
                                 size_t *out_len, kt_error *err) {
    kt__buf buf;
    odd_number odd;
    size_t done = 0;
    *out = NULL;
    *out_len = 0;
    kt__buf_init(&buf, 8 * len + 64);
    while (next_odd(text, len, done, &odd)) {
        if (odd.too_long) {
            kt__buf_free(&buf);
            return kt__fail_at(err, KT_E_LIMIT, path, odd.begin,
                               "a number of %zu digits; %d are the most", odd.end - odd.begin,
                               KT__JSON_MAX_DIGITS);
        }
        kt__buf_append(&buf, text + done, (odd.keep ? odd.end : odd.begin) - done);
        kt__buf_puts(&buf, odd.text);
        done = odd.end;
    }
    if (done == 0) return KT_OK;
    kt__buf_append(&buf, text + done, len - done);
    *out = buf.failed ? NULL : kt__buf_take(&buf, out_len);
    kt__buf_free(&buf);
    return *out ? KT_OK : kt__fail_nomem(err, path, len);
}

size_t kt__json_numbers_origin(const char *text, size_t len, size_t at) {
    odd_number odd;
    size_t done = 0, plain = 0; /* the same place in both */
    while (next_odd(text, len, done, &odd) && !odd.too_long) {
        size_t kept = (odd.keep ? odd.end : odd.begin) - done, added = strlen(odd.text);
        if (at < plain + kept) break;
        plain += kept + added;
        done = odd.end;
        if (at < plain) return odd.begin;
    }
    return done + (at - plain) < len ? done + (at - plain) : len;
}

/* ---- json scan ---- */

static bool scan_expects(kt__json_scan *s, const char *what) {
    if (!s->wrong) s->wrong = what;
    return false;
}

char kt__json_scan_peek(kt__json_scan *s) {
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
    return s->at < s->end ? *s->at : 0;
}

bool kt__json_scan_enter(kt__json_scan *s, char open) {
    if (s->wrong) return false;
    if (kt__json_scan_peek(s) != open) return scan_expects(s, open == '{' ? "an object" : "a list");
    s->at++;
    return true;
}

bool kt__json_scan_more(kt__json_scan *s, char close, size_t n) {
    if (s->wrong) return false;
    char next = kt__json_scan_peek(s);
    if (next == close) {
        s->at++;
        return false;
    }
    if (n == 0) return true;
    if (next != ',') return scan_expects(s, close == '}' ? "',' or '}'" : "',' or ']'");
    s->at++;
    return true;
}

/* ---- strings ---- */

bool kt__json_scan_text(kt__json_scan *s, kt__str *out) {
    kt__json_raw raw;
    if (s->wrong) return false;
    if (kt__json_scan_peek(s) != '"') return scan_expects(s, "a string");
    kt__json_in in = {.text = s->at, .len = (size_t)(s->end - s->at), .at = 1};
    char *begin = s->at + 1;
    bool good = kt__json_in_string(&in, &raw);
    s->at += in.at;
    if (!good) return scan_expects(s, "a character, an escape or the end of a string");
    *out = (kt__str){begin, raw.escaped ? kt__json_unescape(&raw, begin) : raw.len};
    begin[out->len] = '\0'; /* at the latest in the place of the quote */
    return !raw.escaped || !memchr(begin, 0, out->len) || scan_expects(s, "no NUL in a string");
}

bool kt__json_scan_key(kt__json_scan *s, kt__str *out) {
    if (!kt__json_scan_text(s, out)) return false;
    if (kt__json_scan_peek(s) != ':') return scan_expects(s, "':'");
    s->at++;
    return true;
}

/* ---- numbers ---- */

/* The end of the number that comes; NULL: it is none. */
static const char *past_number(kt__json_scan *s, bool *whole) {
    bool is_float;
    (void)kt__json_scan_peek(s);
    kt__json_in in = {.text = s->at, .len = (size_t)(s->end - s->at)};
    if (!kt__json_in_number(&in, &is_float)) return NULL;
    *whole = !is_float;
    return s->at + in.at;
}

bool kt__json_scan_number(kt__json_scan *s, double *out, bool *whole) {
    if (s->wrong) return false;
    const char *end = past_number(s, whole);
    if (!end) return scan_expects(s, "a number");
    *out = strtod(s->at, NULL); /* *s->end is NUL */
    s->at += end - s->at;
    return true;
}

bool kt__json_scan_size(kt__json_scan *s, uint64_t *out) {
    bool whole;
    if (s->wrong) return false;
    const char *end = past_number(s, &whole);
    if (!end || !whole || *s->at == '-') return scan_expects(s, "a size");
    for (*out = 0; s->at < end; s->at++) {
        if (__builtin_mul_overflow(*out, 10u, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*s->at - '0'), out) || *out > INT64_MAX)
            return scan_expects(s, "a size");
    }
    return true;
}

bool kt__json_scan_is_text(kt__str text) {
    uint32_t cp;
    for (size_t i = 0, n; i < text.len; i += n) {
        n = (unsigned char)text.s[i] < 0x80 ? text.s[i] != 0
                                            : kt__utf8_decode(text.s + i, text.len - i, &cp);
        if (n == 0) return false;
    }
    return true;
}

/* ---- what is passed over ---- */

static bool skip_string(kt__json_scan *s) {
    char *at = s->at + 1;
    for (; at < s->end && *at != '"'; at++)
        if (*at == '\\') at++;
    s->at = at < s->end ? at + 1 : s->end;
    return at < s->end || scan_expects(s, "the end of a string");
}

bool kt__json_scan_skip(kt__json_scan *s) {
    size_t depth = 0;
    do {
        char c = kt__json_scan_peek(s);
        if (c == 0 || s->wrong) return scan_expects(s, "a value");
        if (c == '"') {
            if (!skip_string(s)) return false;
        } else if (depth == 0 && strchr(",:]}", c)) {
            return scan_expects(s, "a value");
        } else {
            depth += c == '{' || c == '[';
            depth -= c == '}' || c == ']';
            s->at++;
            while (!strchr("\"{}[],: \n\r\t", c) && s->at < s->end &&
                   !strchr("\"{}[],: \n\r\t", *s->at))
                s->at++;
        }
    } while (depth);
    return true;
}
