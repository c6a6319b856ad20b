/* What a hub has under a name, or for some words.
 *
 * Owns: the form of names, the choice among a hub's files (file_choice.c), asking each kind of hub, and the search.
 * All that a hub says is hostile: names that could leave a folder are passed over, sizes and checksums hold only once
 * the bytes agree. Writes nothing. Any thread. */
#ifndef KT_STORE_HUB_H
#define KT_STORE_HUB_H

#include "store/fetch.h"

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>

/* What of a hub's files a name asks for.
 *
 * Which names of files may be written under a folder of ours, the sets that files of a split model make, and the
 * choice by file or tag. Pure; knows neither network nor disk. Any thread. */

enum { KT__NAME_MAX = 512 };

/* A relative path that stays below its folder: printable ASCII, parts of at most 200 bytes, none
 * empty or with a dot in front, at most KT__NAME_MAX in all. */
bool kt__name_is_safe(const char *name);
bool kt__name_is_gguf(const char *name);
/* The part of a model that sees pictures: a GGUF file with mmproj in its name. */
bool kt__name_is_mmproj(const char *name);
/* The number of a split model's part, from 1, and of how many; false: it is none. */
bool kt__name_split(const char *name, int *part, int *n_parts, size_t *stem_len);
/* "q4_k_m" is in "Model-Q4_K_M.gguf", "q4_k" does not. */
bool kt__name_has_tag(const char *name, const char *tag);

typedef struct kt__wish {
    const char *file; /* a file's name, or NULL */
    const char *tag;  /* "q4_k_m"; or NULL */
    const char *what; /* for messages: the name that was typed */
} kt__wish;

/* chosen[n]: the GGUF files of one model with one of the mmproj files in their folder, if there are any (of Q8_0, F16 and
 * BF16 the first that there is, else any), or the files of a Hugging Face folder. Without file and
 * tag: the only model there is, or its Q4_K_M. KT_E_ARG names what there is. */
kt_status kt__choose_files(const char *const *names, size_t n, const kt__wish *wish, bool *chosen,
                           kt_error *err) KT_CHECKED;

/* A hub's names, and the three kinds of hubs: those with Hugging Face's interface (revisions, file lists with
 * checksums), registries with manifests as Ollama's has them, and plain lists of links as web servers write them. A
 * hub is asked in this order until one kind fits. */

/* A name taken apart: [hf:]NAME[:TAG], [hf:]OWNER/REPO[@REVISION][/FILE][:TAG], or an address. */
typedef struct kt__hub_name {
    char repo[256];     /* "OWNER/REPO" or "NAME"; of an address: its host */
    char revision[128]; /* "" : the main one */
    char file[KT__NAME_MAX + 1];
    char tag[128];
    char url[KT__FETCH_URL]; /* of an address, without the file */
} kt__hub_name;

kt_status kt__hub_name_parse(const char *text, kt__hub_name *out, kt_error *err) KT_CHECKED;

/* The files of one model, chosen. */
typedef struct kt__offer {
    char dir[2 * 256];                /* below the store */
    char revision[KT__FETCH_TAG];     /* or "" */
    char source[KT__FETCH_URL + 512]; /* for people */
    kt__remote *files;                /* [n]; names are relative to dir */
    size_t n, cap;
    bool whole; /* the name itself said which files: nothing is to be chosen */
} kt__offer;

/* what: the name as it was typed. Freed with kt__offer_free, also after failure. */
kt_status kt__hub_ask(const kt__access *access, const kt__hub_name *name, const char *what,
                      kt__offer *out, kt_error *err) KT_CHECKED;
void kt__offer_free(kt__offer *offer); /* also of a zeroed one */

/* ---- the three kinds; text is what the hub answered ---- */

/* The list of files: [{"type": "file", "path", "size", "oid", "lfs": {"oid"}}]. url: before a
 * file's path. */
kt_status kt__hub_read_tree(const char *text, size_t len, const char *url, kt__offer *out,
                            kt_error *err) KT_CHECKED;
/* The layer with the model; url: before its digest. name: of the file. */
kt_status kt__hub_read_manifest(const char *text, size_t len, const char *url, const char *name,
                                kt__offer *out, kt_error *err) KT_CHECKED;
/* The files among the links of a page. */
kt_status kt__hub_read_listing(const char *text, size_t len, const char *url, kt__offer *out,
                               kt_error *err) KT_CHECKED;

/* Models that a hub with Hugging Face's interface has for some words.
 *
 * The question, and its answer read as hostile: names that are none are passed over. Any thread. */

typedef struct kt__hub_hit {
    char repo[256];
    uint64_t downloads; /* in the last month, as the hub counts them */
} kt__hub_hit;

enum { KT__HUB_HITS_MAX = 100 };

/* Repositories with GGUF files, those that are fetched most first: at most `most` into hits. */
kt_status kt__hub_search(const kt__access *access, const char *words, size_t most,
                         kt__hub_hit *hits, size_t *n, kt_error *err) KT_CHECKED;

/* The files of one repository that suit a machine best: the Q4_K_M, or where that does not fit a smaller one. */
typedef struct kt__hub_suited {
    const char *tag; /* "q4_k_m": of the name for pull; NULL: there is no GGUF file */
    uint64_t bytes;  /* to fetch */
    uint64_t memory; /* about: a plan knows better once the file is there */
    bool fits, sees; /* sees: an mmproj file is among them */
} kt__hub_suited;
uint64_t kt__hub_memory_left(void); /* that is free here for a model */
/* Asks the hub for the repository's files, and says which suit so much memory. */
kt_status kt__hub_suit(const kt__access *access, const char *repo, uint64_t memory,
                       kt__hub_suited *out, kt_error *err) KT_CHECKED;

/* What the hub answered: [{"id": "OWNER/REPO", "downloads": N}]. */
kt_status kt__hub_read_hits(const char *text, size_t len, const char *url, size_t most,
                            kt__hub_hit *hits, size_t *n, kt_error *err) KT_CHECKED;

#endif
