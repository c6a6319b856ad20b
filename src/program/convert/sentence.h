/* What sentence-transformers puts after a model: modules.json and the folders that it names.
 *
 * Owns: how a text's states are pooled, the dense layers after the pooled state, and which two
 * tokens a ranking compares. Its files are hostile as config.json is. Knows no GGUF. Immutable once
 * read; any thread. */
#ifndef KT_CONVERT_SENTENCE_H
#define KT_CONVERT_SENTENCE_H

#include "convert/folder.h"

enum { KT__SENTENCE_MAX_DENSE = 2 };

typedef struct kt__sentence {
    int pooling; /* KT__HF_POOL_*, or KT__HF_NONE */
    size_t n_dense;
    kt__folder dense[KT__SENTENCE_MAX_DENSE];
    const kt__st_tensor *dense_weight[KT__SENTENCE_MAX_DENSE]; /* [out, in] */
    const kt__st_tensor *dense_bias[KT__SENTENCE_MAX_DENSE];   /* [out], or NULL */
    bool compares;         /* logit(yes) - logit(no) at the last token is the answer */
    int64_t yes_id, no_id; /* no_id -1: logit(yes) alone */
} kt__sentence;

/* A folder without modules.json says nothing. Freed with kt__sentence_close, also after failure. */
kt_status kt__sentence_open(const char *dir, kt__sentence *out, kt_error *err) KT_CHECKED;
void kt__sentence_close(kt__sentence *sentence); /* also of a zeroed one */

#endif
