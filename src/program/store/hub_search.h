/* Models that a hub with Hugging Face's interface has for some words.
 *
 * Owns: the question, and its answer read as hostile: names that are none are passed over. Any thread. */
#ifndef KT_STORE_HUB_SEARCH_H
#define KT_STORE_HUB_SEARCH_H

#include "store/hub.h"

typedef struct kt__hub_hit {
    char repo[256];
    uint64_t downloads; /* in the last month, as the hub counts them */
} kt__hub_hit;

enum { KT__HUB_HITS_MAX = 100 };

/* Repositories with GGUF files, those that are fetched most first: at most `most` into hits. */
kt_status kt__hub_search(const kt__access *access, const char *words, size_t most,
                         kt__hub_hit *hits, size_t *n, kt_error *err) KT_CHECKED;
/* All files of one, with their sizes; kt__offer_free, also after failure. */
kt_status kt__hub_files(const kt__access *access, const char *repo, kt__offer *out,
                        kt_error *err) KT_CHECKED;

/* What the hub answered: [{"id": "OWNER/REPO", "downloads": N}]. */
kt_status kt__hub_read_hits(const char *text, size_t len, const char *url, size_t most,
                            kt__hub_hit *hits, size_t *n, kt_error *err) KT_CHECKED;

#endif
