/* Ids to text: at once, and a token at a time. */
#include "tokenizer/tokenizer_impl.h"

#include "base/text.h"

/* What id writes. Tokens that never mean text write nothing, unless asked to; unused ones, which
 * fill a byte-level vocabulary up, never do. */
static kt__str shown_bytes(const kt__tokenizer *tok, int32_t id, unsigned flags) {
    const kt__str nothing = {"", 0};
    switch (kt__tokenizer_token_attr(tok, id)) {
    case KT__TOK_UNUSED: return tok->spm ? kt__tokenizer_token_bytes(tok, id) : nothing;
    case KT__TOK_UNDEFINED:
    case KT__TOK_UNKNOWN:
    case KT__TOK_CONTROL:
        return flags & KT_TOK_RENDER_SPECIAL ? kt__tokenizer_token_bytes(tok, id) : nothing;
    default: return kt__tokenizer_token_bytes(tok, id);
    }
}

static kt_status check_id(const kt__tokenizer *tok, int32_t id, kt_error *err) {
    if (id >= 0 && (size_t)id < tok->n_vocab) return KT_OK;
    return kt__fail(err, KT_E_ARG, "token id %d; the vocabulary has 0 to %zu", (int)id,
                    tok->n_vocab - 1);
}

static kt_status fail_append(const kt__buf *out, size_t extra, kt_error *err) {
    if (out->max - out->len < extra)
        return kt__fail(err, KT_E_LIMIT, "the text has more than %zu bytes", out->max);
    return kt__fail_nomem(err, "text", extra);
}

/* Drops the space that encoding put before the text. */
static kt__str without_prefix(kt__str b, bool *strip) {
    if (*strip && b.len > 0) {
        *strip = false;
        if (b.s[0] == ' ') return (kt__str){b.s + 1, b.len - 1};
    }
    return b;
}

kt_status kt__tokenizer_decode(const kt__tokenizer *tok, const int32_t *ids, size_t n,
                               unsigned flags, kt__buf *out, kt_error *err) {
    bool strip = tok->add_space_prefix;
    for (size_t i = 0; i < n; i++) {
        kt_status status = check_id(tok, ids[i], err);
        if (status != KT_OK) return status;
        kt__str b = without_prefix(shown_bytes(tok, ids[i], flags), &strip);
        if (b.len && !kt__buf_append(out, b.s, b.len)) return fail_append(out, b.len, err);
    }
    return KT_OK;
}

/* ---- streaming ---- */

static const char replacement[] = "\xef\xbf\xbd";

void kt__detok_init(kt__detok *detok, const kt__tokenizer *tok, unsigned flags, bool at_start) {
    *detok = (kt__detok){
        .tok = tok, .flags = flags, .strip_space = at_start && tok->add_space_prefix};
}

/* Can s[len], len 1..4, be the beginning of a character, or a whole one? */
static bool may_be_character(const char *s, size_t len) {
    uint32_t cp;
    return kt__utf8_decode(s, len, &cp) == len || kt__utf8_incomplete_tail(s, len) == len;
}

/* Puts s[n] at out[at], if there is an out. Returns the next place. */
static size_t put_bytes(char *out, size_t at, const char *s, size_t n) {
    if (out) memcpy(out + at, s, n);
    return at + n;
}

/* Writes the held bytes and s[len] to out (NULL: only counts), whole characters only, and holds
 * what is left incomplete. Returns how many bytes were written. */
static size_t filter_bytes(kt__detok *detok, const char *s, size_t len, char *out) {
    size_t n = 0, held = detok->n_held;
    char *hold = detok->held;
    uint32_t cp;
    for (size_t i = 0; i < len;) {
        hold[held] = s[i];
        if (!may_be_character(hold, held + 1)) {
            /* A broken character ends before the byte that does not fit, which may begin another.
             */
            n = put_bytes(out, n, replacement, 3);
            if (held == 0) i++;
            held = 0;
            continue;
        }
        held++;
        i++;
        if (kt__utf8_decode(hold, held, &cp) == held) {
            n = put_bytes(out, n, hold, held);
            held = 0;
        }
    }
    detok->n_held = (unsigned char)held;
    return n;
}

kt_status kt__detok_push(kt__detok *detok, int32_t id, kt__buf *out, kt_error *err) {
    kt_status status = check_id(detok->tok, id, err);
    if (status != KT_OK) return status;
    bool strip = detok->strip_space;
    kt__str b = without_prefix(shown_bytes(detok->tok, id, detok->flags), &strip);
    kt__detok trial = *detok;
    size_t room = filter_bytes(&trial, b.s, b.len, NULL);
    if (room && !kt__buf_reserve(out, room)) return fail_append(out, room, err);
    detok->strip_space = strip;
    char *at = room ? out->data + out->len : NULL;
    (void)filter_bytes(detok, b.s, b.len, at);
    out->len += room;
    if (at) at[room] = '\0';
    return KT_OK;
}

kt_status kt__detok_finish(kt__detok *detok, kt__buf *out, kt_error *err) {
    if (detok->n_held == 0) return KT_OK;
    if (!kt__buf_append(out, replacement, 3)) return fail_append(out, 3, err);
    detok->n_held = 0;
    return KT_OK;
}
