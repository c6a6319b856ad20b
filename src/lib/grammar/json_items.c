/* What an array has so far, where its items must differ: the hashes of their values. */
#include "grammar/grammar_impl.h"

kt__gid kt__json_items_used(kt__grammar *g, const kt__gstate *s) {
    if (!s->frame || !(kt__gframe_word(g, s->frame, KT__F_META) & KT__FM_UNIQUE)) return 0;
    kt__gid formula = kt__gframe_word(g, s->frame, KT__F_FORMULA);
    kt__gid equal = kt__svalue_not_unique(&g->v, formula);
    return kt__svalue_must(&g->v, equal) == KT__GPOOL_EMPTY
               ? kt__gframe_word(g, s->frame, KT__F_SET)
               : 0;
}
