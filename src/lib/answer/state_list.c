#include "answer/state_list.h"

#include "base/alloc.h"

bool kt__state_list_init(kt__state_list *s, kt__kv *kv, size_t cap) {
    s->kv = kv;
    if (!kt__kv_has_states(kv)) return true;
    s->list = kt__calloc(cap, sizeof *s->list);
    s->keep = kt__calloc(cap, sizeof *s->keep);
    s->cap = (int)cap;
    return s->list && s->keep;
}

void kt__state_list_release(kt__state_list *s) {
    for (int i = 0; i < s->n; i++) kt__kv_state_drop(s->kv, s->list[i].piece);
    s->n = 0;
}

void kt__state_list_free(kt__state_list *s) {
    kt__state_list_release(s);
    kt__free(s->list);
    kt__free(s->keep);
}

void kt__state_list_begin(const kt__state_list *s, kt__seg *seg) {
    seg->states = s->list ? s->list + s->n : NULL;
    seg->n_states = 0;
}

bool kt__state_list_add(kt__state_list *s, kt__seg *seg, int n_tok, int32_t piece, bool keep) {
    if (piece == KT__NO_STATE) return false;
    if (s->n == s->cap) {
        kt__kv_state_drop(s->kv, piece);
        return false;
    }
    s->keep[s->n] = keep;
    s->list[s->n++] = (kt__seg_state){n_tok, piece};
    seg->n_states++;
    return true;
}

void kt__state_list_add_last(kt__state_list *s, kt__seg *seg, kt__kv_table *table, bool keep) {
    int32_t piece = table->next;
    if (piece == KT__NO_STATE) piece = kt__kv_state_take(s->kv);
    table->next = KT__NO_STATE;
    (void)kt__state_list_add(s, seg, seg->n_tok, piece, keep);
}

bool kt__state_list_take(kt__state_list *s, const kt__seg *seg, int i, kt__kv_table *table,
                         kt__snapshot kind) {
    if (!kt__kv_has_states(s->kv)) return true;
    if (i >= seg->n_states) return false;
    kt__seg_state *at = &s->list[seg->states - s->list + i];
    int64_t pos = seg->pos0 + at->n_tok;
    if (kind != KT__SNAPSHOT_NONE) kt__kv_table_keep(s->kv, table, at->piece, pos, kind);
    kt__kv_table_set_state(s->kv, table, at->piece, pos);
    at->piece = KT__NO_STATE;
    return true;
}
