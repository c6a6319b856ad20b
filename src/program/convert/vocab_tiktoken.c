/* tiktoken.model, as Kimi's folders have it: a token in base64 and its rank a line. A pair merges where the
 * joined bytes are a token, the lowest rank first, so that each way to cut a token into two others is a merge. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "convert/json_file.h"
#include "convert/vocab.h"

enum {
    MAX_FILE = 6 << 20, /* Kimi's has 2.8 MB */
    MAX_TOKEN = 256,
    MAX_DIGITS = (MAX_TOKEN * 4 + 2) / 3, /* of these in base64 */
    MAX_TOKENS = 1 << 20
};

typedef struct rank_file {
    kt__vocab *v;
    const char *path, *at, *end;
    size_t line; /* from 1 */
    kt__str *tokens;
    kt__str *spelled; /* in letters */
    size_t n;
    kt__strmap ids;
    kt__vocab_letter letters[256];
    kt_error *err;
} rank_file;

static kt_status bad_rank_line(const rank_file *r, const char *what) {
    return kt__fail_at(r->err, KT_E_FORMAT, r->path, UINT64_MAX, "line %zu: %s", r->line, what);
}

/* ---- lines ---- */

static bool read_rank(kt__str s, size_t expected) {
    char text[24];
    int n = snprintf(text, sizeof text, "%zu", expected);
    return s.len == (size_t)n && memcmp(s.s, text, s.len) == 0;
}

/* To at most MAX_TOKEN bytes; 0: not base64, empty or longer. */
static size_t read_token(kt__str s, char *out) {
    size_t bad, n_digits = s.len;
    while (n_digits && s.s[n_digits - 1] == '=') n_digits--;
    if (n_digits > MAX_DIGITS) return 0;
    size_t n = kt__vocab_base64(s, out, &bad);
    return bad == SIZE_MAX ? n : 0;
}

static kt_status read_rank_line(rank_file *r, kt__str line) {
    char bytes[MAX_TOKEN];
    const char *space = memchr(line.s, ' ', line.len);
    if (!space) return bad_rank_line(r, "a token in base64, a space and its rank are expected");
    size_t n = read_token((kt__str){line.s, (size_t)(space - line.s)}, bytes);
    if (n == 0) return bad_rank_line(r, "the token is not base64 of 1 to 256 bytes");
    if (!read_rank((kt__str){space + 1, line.len - (size_t)(space + 1 - line.s)}, r->n))
        return bad_rank_line(r, "the rank is not the number of tokens before it");
    char *copy = kt__arena_strndup(&r->v->arena, bytes, n);
    if (!copy) return kt__fail_nomem(r->err, r->path, n);
    r->tokens[r->n] = (kt__str){copy, n};
    if (!kt__strmap_put(&r->ids, r->tokens[r->n], (int64_t)r->n))
        return bad_rank_line(r, "a token that came before");
    r->n++;
    return KT_OK;
}

static kt_status read_rank_lines(rank_file *r) {
    while (r->at < r->end) {
        const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));
        kt__str line = {r->at, (size_t)((stop ? stop : r->end) - r->at)};
        r->at = stop ? stop + 1 : r->end;
        r->line++;
        if (line.len && line.s[line.len - 1] == '\r') line.len--;
        if (line.len) KT__STEP(read_rank_line(r, line));
    }
    return KT_OK;
}

/* ---- as tokenizer.json has them ---- */

static kt_status spell_token(rank_file *r, kt__str bytes, kt__str *out) {
    char text[2 * MAX_TOKEN];
    size_t n = 0;
    for (size_t i = 0; i < bytes.len; i++) {
        const kt__vocab_letter *letter = &r->letters[(unsigned char)bytes.s[i]];
        memcpy(text + n, letter->utf8, letter->n);
        n += letter->n;
    }
    *out = (kt__str){kt__arena_strndup(&r->v->arena, text, n), n};
    return out->s ? KT_OK : kt__fail_nomem(r->err, r->path, n);
}

/* Each cut of a token into two others, the longest left part first. */
static kt_status add_cuts(rank_file *r, kt__str token) {
    for (size_t cut = token.len - 1; cut > 0; cut--) {
        int64_t right = kt__strmap_get(&r->ids, (kt__str){token.s + cut, token.len - cut});
        int64_t left = right < 0 ? -1 : kt__strmap_get(&r->ids, (kt__str){token.s, cut});
        if (left >= 0)
            KT__STEP(
                kt__vocab_list_merge(r->v, r->spelled[left], r->spelled[right], r->path, r->err));
    }
    return KT_OK;
}

static kt_status list_ranks(rank_file *r) {
    kt__vocab_letters(r->letters);
    for (size_t i = 0; i < r->n; i++) {
        KT__STEP(spell_token(r, r->tokens[i], &r->spelled[i]));
        KT__STEP(kt__vocab_list_token(r->v, r->spelled[i], (double)i, r->path, r->err));
    }
    for (size_t i = 0; i < r->n; i++) KT__STEP(add_cuts(r, r->tokens[i]));
    r->v->has_merges = true;
    return kt__vocab_end_ids(r->v, r->err);
}

static size_t count_lines(const char *text, size_t len) {
    size_t n = 1;
    for (const char *at = text; (at = memchr(at, '\n', (size_t)(text + len - at))) != NULL; at++)
        n++;
    return n;
}

static kt_status read_ranks(rank_file *r, const char *text, size_t len) {
    size_t n = count_lines(text, len);
    r->at = text;
    r->end = text + len;
    if (n > MAX_TOKENS)
        return kt__fail_at(r->err, KT_E_LIMIT, r->path, UINT64_MAX, "over %d lines", MAX_TOKENS);
    r->tokens = kt__arena_calloc(&r->v->arena, n, sizeof *r->tokens);
    r->spelled = kt__arena_calloc(&r->v->arena, n, sizeof *r->spelled);
    if (!r->tokens || !r->spelled || !kt__strmap_init(&r->ids, n))
        return kt__fail_nomem(r->err, r->path, n);
    KT__STEP(read_rank_lines(r));
    return list_ranks(r);
}

kt_status kt__vocab_read_tiktoken(kt__vocab *v, kt_error *err) {
    char *path = kt__folder_path(v->dir, "tiktoken.model"), *text = NULL;
    size_t len = 0;
    rank_file *r = kt__calloc(1, sizeof *r);
    kt_status status = path && r ? KT_OK : kt__fail_nomem(err, "tiktoken.model", sizeof *r);
    if (status == KT_OK) status = kt__folder_read_file(path, MAX_FILE, false, &text, &len, err);
    if (status == KT_OK && text) {
        r->v = v;
        r->path = path;
        r->err = err;
        status = read_ranks(r, text, len);
        kt__strmap_free(&r->ids);
    }
    kt__free(text);
    kt__free(path);
    kt__free(r);
    return status;
}
