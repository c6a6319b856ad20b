/* Texts made of pieces: fixed ones, JSON values, and characters up to a mark.
 *
 * Owns: reading the description of such a text. It is one JSON object: {"prefixItems": [schema...],
 * "pieces": PIECE}, and a PIECE is a text as it is; a list of pieces, one after the other; or
 *   {"any": [PIECE...]}                              one of them
 *   {"json": N}                                      a JSON value by schema N
 *   {"text": N, "until": MARK}                       characters without MARK in them; as a JSON string
 *                                                    of them, valid by schema N (without "text": any)
 *   {"each": [PIECE...], "must": [N...], "with": T}  each at most once, in any order, those of "must"
 *                                                    in any case, T between them
 *   {"some": PIECE, "min": N, "max": N, "with": T}   so many times (no "max": any number)
 * "later", a list, has texts that a caller begins by their number (kt__grammar_start_later).
 * Where a JSON value may be, nothing else may begin as it does, and no other JSON value. One user
 * at a time. */
#ifndef KT_GRAMMAR_PIECES_H
#define KT_GRAMMAR_PIECES_H

#include "grammar/grammar_impl.h"

/* The schemas are read already. KT_E_FORMAT where the description is malformed, KT_E_LIMIT. */
kt_status KT_CHECKED kt__pieces_read(kt__grammar *g, kt__gid *root, kt_error *err);

/* The state where a text of this term begins. */
void kt__pieces_begin(kt__grammar *g, kt__gstate *s, kt__gid term);
bool kt__pieces_accepts(kt__grammar *g, const kt__gstate *s);

#endif
