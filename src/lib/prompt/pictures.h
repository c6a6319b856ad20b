/* Pictures in a prompt: where they are, and what is there for them.
 *
 * Owns: what a template wrote for a picture becoming what its family's models have seen in training, and
 * the positions that take an encoder's rows. A position has a number below -1 as its token, which
 * follows from the picture, so that what finds prompts again by their tokens knows pictures, too. Any
 * thread; a kt__pictures has one owner. */
#ifndef KT_PROMPT_PICTURES_H
#define KT_PROMPT_PICTURES_H

#include "chat/chat_template.h"
#include "tokenizer/tokenizer.h"
#include "vision/view.h"

/* Rows row0.. of a view at positions at..at + n - 1. */
typedef struct kt__sight {
    kt__view *view;
    int32_t at, n, row0;
} kt__sight;

typedef struct kt__pictures {
    kt__views *views; /* NULL: there are none */
    kt__view **held;  /* [n_held] in the conversation's order */
    size_t n_held;
    kt__sight *list; /* [n] ascending, of the prompt that was encoded last */
    size_t n;
    kt__span *spans; /* [n] the same positions, where rows of a picture see each other; else NULL */
    kt__grid *grids; /* [n] the same positions, where rotations have several axes */
} kt__pictures;

/* The request's pictures, decoded. views NULL: KT_E_UNSUPPORTED if there are any. An error's place is
 * "pictures[i]". For kt__pictures_free in any case. */
kt_status kt__pictures_open(kt__pictures *pictures, kt__views *views,
                            const kt_request_params *request, kt_error *err) KT_CHECKED;
void kt__pictures_free(kt__pictures *pictures);

/* The rendered text in parts for the tokenizer, with what a picture is in place of each marker that the
 * template wrote. *segments, with their texts in texts, for kt__free. KT_E_TEMPLATE: there are not as many
 * markers as pictures. */
kt_status kt__pictures_write(const kt__pictures *pictures, const kt__chat_out *rendered,
                             kt__buf *texts, kt__tok_segment **segments, size_t *n_segments,
                             kt_error *err) KT_CHECKED;
/* ids[n] with the rows' tokens, *out for kt__free, at most `most`: KT_E_CONTEXT_FULL. */
kt_status kt__pictures_expand(kt__pictures *pictures, const kt__tokenizer *tok, const int32_t *ids,
                              size_t n, size_t most, int32_t **out, size_t *n_out,
                              kt_error *err) KT_CHECKED;
/* The first that ends after position pos; NULL: none. */
const kt__sight *kt__pictures_from(const kt__pictures *pictures, int32_t pos);

#endif
