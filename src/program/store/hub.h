/* What a hub has under a name.
 *
 * Owns: the form of names, and the three kinds of hubs: those with Hugging Face's interface
 * (revisions, file lists with checksums), registries with manifests as Ollama's has them, and plain
 * lists of links as web servers write them. A hub is asked in this order until one kind fits. All it
 * says is hostile: names that could leave a folder are passed over, sizes and checksums hold only
 * once the bytes agree. Writes nothing. Any thread. */
#ifndef KT_STORE_HUB_H
#define KT_STORE_HUB_H

#include "store/download.h"
#include "store/file_choice.h"

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

#endif
