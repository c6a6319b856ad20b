/* Getting a model: from a name to files that are checked and in their place.
 *
 * Owns: the settings of Hugging Face's own tools; where models and unfinished downloads lie, the room on the disk
 * that is asked for before a byte comes, the check of what came (a GGUF set is opened as if it were hostile, a
 * folder's headers are read), and the moment at which files get their names: all at the end, the one that makes them
 * a model last, and never in place of another file. One call at a time for one model (a lock sees to it); otherwise
 * any thread. */
#ifndef KT_STORE_PULL_H
#define KT_STORE_PULL_H

#include "store/fetch.h"
#include "store/shelf.h"

typedef struct kt__store {
    const char *dir;        /* of models; NULL: kt__store_dir */
    const char *hub;        /* NULL: KT__STORE_HUB, and KT__STORE_REGISTRY for names without '/' */
    const char *token_file; /* NULL: kentang/hub-token in the configuration folder */
    bool offline;
    int n_connections; /* 0: 4 */
} kt__store;

#define KT__STORE_HUB "https://huggingface.co"
#define KT__STORE_REGISTRY "https://registry.ollama.ai"

typedef struct kt__pull_report {
    char path[4096]; /* what to open */
    char source[512], revision[64];
    char digest[65]; /* SHA-256 of the file that makes it a model, where the hub says it; else "" */
    int n_files, n_checked; /* with a checksum of the hub's */
    uint64_t bytes;
    bool was_there, is_folder;
} kt__pull_report;

typedef struct kt__pull_params {
    const kt__store *store;
    const char *name;                /* as typed */
    kt__store_progress_fn *progress; /* or NULL: of all files together */
    void *user;
    const atomic_bool *stop; /* set by another thread: it ends with KT_E_CANCELLED; or NULL */
} kt__pull_params;

/* $XDG_DATA_HOME/kentang/models or ~/.local/share/kentang/models; false: neither is known. */
bool kt__store_dir(const kt__store *store, char *out, size_t size);
/* What lies there; kt__shelf_close, also after failure. */
kt_status kt__store_shelf(const kt__store *store, kt__shelf *out, kt_error *err) KT_CHECKED;
/* The hub of the store with its token; bare: the one for names without an owner. kt__access_close, also after failure. */
kt_status kt__store_access(const kt__store *store, bool bare, kt__access *out,
                           kt_error *err) KT_CHECKED;
kt_status kt__pull(const kt__pull_params *params, kt__pull_report *report,
                   kt_error *err) KT_CHECKED;
/* Bytes of unfinished downloads, and their removal. */
uint64_t kt__pull_unfinished(const char *dir, bool remove);

/* What the environment tells Hugging Face's own tools, read as they read it.
 *
 * HF_ENDPOINT, HF_TOKEN, and the file that their login leaves. They count where nothing of ours (an option,
 * kentang.toml, KENTANG_HUB, hub-token) was set, and for Hugging Face's hub alone. Any thread. */

/* HF_ENDPOINT; NULL: not set. */
const char *kt__hf_endpoint(void);
/* Gives access the token of HF_TOKEN or of HF_TOKEN_PATH, HF_HOME/token, ~/.cache/huggingface/token,
 * where it has none. No token anywhere is no error. */
kt_status kt__hf_token(kt__access *access, kt_error *err) KT_CHECKED;

#endif
