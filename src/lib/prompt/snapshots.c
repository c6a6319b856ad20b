#include "prompt/snapshots.h"

#include "base/geometry.h"

enum { LAST_BORDERS = 4 };

typedef struct points {
    int32_t from, to;
    int32_t *out;
    int n;
} points;

/* The last multiple of a page up to pos, in its place if it is asked for and not there. */
static void add_point(points *p, int32_t pos) {
    pos = pos / KT__PAGE_POS * KT__PAGE_POS;
    if (pos <= p->from || pos > p->to || p->n == KT__SNAPSHOT_POINTS) return;
    int at = p->n;
    while (at > 0 && p->out[at - 1] > pos) at--;
    if (at > 0 && p->out[at - 1] == pos) return;
    for (int i = p->n; i > at; i--) p->out[i] = p->out[i - 1];
    p->out[at] = pos;
    p->n++;
}

static bool is_control(const kt__tokenizer *tok, int32_t id) {
    return kt__tokenizer_token_attr(tok, id) == KT__TOK_CONTROL;
}

/* Templates mark messages by control tokens: the first one after text ends the first message. */
int32_t kt__snapshot_first_border(const kt__tokenizer *tok, const int32_t *tokens, int32_t n_tok) {
    for (int32_t i = 1; i < n_tok; i++) {
        if (is_control(tok, tokens[i]) && !is_control(tok, tokens[i - 1]))
            return i / KT__PAGE_POS * KT__PAGE_POS;
    }
    return 0;
}

static void add_borders(points *p, const kt__tokenizer *tok, const int32_t *tokens, int32_t n_tok) {
    int n = 0;
    for (int32_t i = n_tok - 1; i > p->from && n < LAST_BORDERS; i--) {
        if (!is_control(tok, tokens[i])) continue;
        add_point(p, i);
        n++;
    }
    int32_t seen = p->to + KT__PAGE_POS < n_tok ? p->to + KT__PAGE_POS + 1 : n_tok;
    add_point(p, kt__snapshot_first_border(tok, tokens, seen));
}

int kt__snapshot_points(const kt__tokenizer *tok, const int32_t *tokens, int32_t n_tok,
                        int32_t from, int32_t to, int32_t out[KT__SNAPSHOT_POINTS]) {
    points p = {from, to, out, 0};
    add_point(&p, n_tok - 1);
    if (tok) add_borders(&p, tok, tokens, n_tok);
    int32_t first = (from / KT__SNAPSHOT_EVERY + 1) * KT__SNAPSHOT_EVERY;
    for (int32_t pos = first; pos <= to; pos += KT__SNAPSHOT_EVERY) add_point(&p, pos);
    return p.n;
}
