/* Shapes that the arithmetic contract fixes: the same on every machine and in every tier.
 *
 * Owns: how many positions a page of K/V and a split of attention hold. A change of either changes
 * bytes of answers (splits) or of files (pages). */
#ifndef KT_BASE_GEOMETRY_H
#define KT_BASE_GEOMETRY_H

enum {
    KT__PAGE_POS = 16,                             /* positions of a page of K/V */
    KT__SPLIT_POS = 256,                           /* positions of one split of attention */
    KT__SPLIT_PAGES = KT__SPLIT_POS / KT__PAGE_POS /* pages of one split */
};

#endif
