/* What error feedback needs of a model's matrices, gathered from the model and a text, a layer at a
 * time.
 *
 * Owns: the model, its calibration and the second moments of one layer's inputs. Matrices are asked
 * for in the order of their layers; another order costs the text anew. One thread. */
#ifndef KT_MAKE_FEEDBACK_SOURCE_H
#define KT_MAKE_FEEDBACK_SOURCE_H

#include "convert/write.h"

typedef struct kt__feedback_opts {
    const char *model; /* GGUF, as good as there is */
    const char *text;  /* NULL: the program's own */
    bool parse_special;
    int32_t n_tok; /* of the text, at most; 0: the usual number */
    int32_t n_threads;
} kt__feedback_opts;

typedef struct kt__feedback_maker kt__feedback_maker;

kt_status kt__feedback_maker_open(const kt__feedback_opts *opts, kt__feedback_maker **out,
                                  kt_error *err) KT_CHECKED;
void kt__feedback_maker_close(kt__feedback_maker *maker); /* NULL allowed */
/* Lives as long as the maker. */
const kt__feedback_source *kt__feedback_maker_source(const kt__feedback_maker *maker);

#endif
