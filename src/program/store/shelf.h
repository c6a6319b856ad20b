/* The models that lie in one folder of this machine.
 *
 * Owns: the rule that every GGUF file, every Hugging Face folder and every modelfile below the root is a
 * model, named by its path; how names, parts of names and tags find one; links as further names; and
 * taking one away. There is no list next to the files: what is copied there is there. Reads no
 * weights. A shelf is what lay there when it was opened; one thread. */
#ifndef KT_STORE_SHELF_H
#define KT_STORE_SHELF_H

#include <kentang.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kt__shelf_model {
    char *name;     /* "OWNER/REPO/model-q4_k_m"; of a folder "OWNER/REPO" */
    char *path;     /* what is opened: the file, the first of a split set, or the folder */
    bool is_folder; /* of Hugging Face */
    bool is_link;
    bool is_made; /* a modelfile: of another model's weights */
    int n_files;
    uint64_t bytes;
    int64_t added_s, used_s; /* Unix time; used: when it was last named for a run, or read */
} kt__shelf_model;

typedef struct kt__shelf {
    char *root;
    kt__shelf_model *models; /* [n], by name */
    size_t n, cap;
} kt__shelf;

/* A root that is not there is an empty shelf. Freed with kt__shelf_close, also after failure. */
kt_status kt__shelf_open(const char *root, kt__shelf *out, kt_error *err) KT_CHECKED;
void kt__shelf_close(kt__shelf *shelf); /* also of a zeroed one */
/* By, in this order: the name; OWNER/REPO:TAG or NAME:TAG; OWNER/REPO of its only model; the end of
 * the name. Case does not count in tags and ends. KT_E_ARG: several fit, which are named; *out is
 * NULL with KT_OK where none does. */
kt_status kt__shelf_find(const kt__shelf *shelf, const char *name, const kt__shelf_model **out,
                         kt_error *err) KT_CHECKED;
/* The one that is opened by that path; NULL: none. */
const kt__shelf_model *kt__shelf_at(const kt__shelf *shelf, const char *path);
/* Notes that it is used now. */
void kt__shelf_touch(const char *path);
/* Its files, then the folders that are empty without them. Of a link only the link. */
kt_status kt__shelf_remove(const kt__shelf *shelf, const kt__shelf_model *model,
                           kt_error *err) KT_CHECKED;
/* Another name for a model: a link below the root. One that is there is never replaced. */
kt_status kt__shelf_link(const kt__shelf *shelf, const char *name, const kt__shelf_model *model,
                         kt_error *err) KT_CHECKED;
/* The same bytes under another name, which stay when the first one goes. One that is there is never
 * replaced; KT_E_UNSUPPORTED: the model is several files. */
kt_status kt__shelf_copy(const kt__shelf *shelf, const char *name, const kt__shelf_model *model,
                         kt_error *err) KT_CHECKED;
/* Puts a modelfile's text there under that name, in place of one that is there, and of no other model. */
kt_status kt__shelf_put_made(const kt__shelf *shelf, const char *name, const char *text, size_t len,
                             kt_error *err) KT_CHECKED;
/* "DIR/.NAME.origin" of a file, "PATH/.origin" of a folder: where pull notes what it came from. */
void kt__shelf_origin_path(const char *path, bool is_folder, char *out, size_t size);
/* Every folder on the way to path, which ends in a file's name. */
void kt__make_parents(const char *path);

#endif
