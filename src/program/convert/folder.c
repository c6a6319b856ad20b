#include "convert/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "convert/json_file.h"

#define SINGLE_NAME "model.safetensors"
#define INDEX_NAME "model.safetensors.index.json"
/* Bytes and tensors of an index; the largest published ones have a quarter of a million. */
enum { MAX_INDEX = 32 << 20, MAX_INDEXED = 1 << 19 };

/* ---- one file ---- */

static kt_status read_header(kt__shard *shard, kt_error *err) {
    uint8_t head[8];
    size_t n = 0;
    char *text = NULL;
    kt_status status = KT_OK;
    if (shard->bytes < 8 || !kt__fd_read_at(shard->fd, head, 8, 0))
        return kt__fail_at(err, KT_E_FORMAT, shard->path, 0,
                           "%" PRIu64 " bytes are no safetensors file", shard->bytes);
    KT__TRY(kt__safetensors_header_bytes(head, shard->bytes, shard->path, &n, err));
    text = kt__malloc(n + 1);
    if (!text) return kt__fail_nomem(err, shard->path, n);
    if (!kt__fd_read_at(shard->fd, text, n, 8)) {
        status = kt__fail_at(err, KT_E_IO, shard->path, 8, "cannot read the header: %s",
                             strerror(errno));
        goto out;
    }
    KT__TRY(kt__safetensors_parse(text, n, shard->bytes, shard->path, &shard->st, err));
out:
    kt__free(text);
    return status;
}

/* shard->path is set. */
static kt_status open_shard(kt__shard *shard, kt_error *err) {
    kt__file_info st;
    kt_status status = kt__folder_check_link(shard->path, err);
    if (status != KT_OK) return status;
    shard->fd = kt__fd_open(shard->path, KT__OPEN_READ | KT__OPEN_NO_WAIT);
    if (shard->fd < 0 || !kt__fd_look(shard->fd, &st))
        return kt__fail_system(err, errno, shard->path, "cannot open");
    if (!st.is_file)
        return kt__fail_at(err, KT_E_IO, shard->path, UINT64_MAX, "not a regular file");
    shard->bytes = st.bytes;
    shard->mtime_ns = st.changed_s * 1000000000 + st.changed_ns;
    shard->device = st.device;
    shard->inode = st.number;
    return read_header(shard, err);
}

static kt_status add_shard(kt__folder *folder, const char *dir, const char *name, kt_error *err) {
    kt__shard *shard = &folder->shards[folder->n_shards++];
    *shard = (kt__shard){.fd = -1, .path = kt__folder_path(dir, name)};
    if (!shard->path) return kt__fail_nomem(err, "a path", strlen(name));
    return open_shard(shard, err);
}

/* ---- the index ---- */

/* A plain file name: nothing that leads out of the folder, nothing hidden. */
static bool is_plain_name(const char *name) {
    size_t len = strlen(name), tail = strlen(".safetensors");
    return name[0] != '.' && !strchr(name, '/') && !strchr(name, '\\') && len > tail && len < 256 &&
           strcmp(name + len - tail, ".safetensors") == 0;
}

/* weight_map: which tensor lies in which file. */
typedef struct map_entry {
    kt__str tensor, file;
} map_entry;

typedef struct weight_index {
    char *path, *text; /* text: of the file; the entries lie in it */
    map_entry *entries;
    size_t n, room;
    kt__strmap by_tensor;
    kt_error *err;
} weight_index;

static kt_status bad_index(const weight_index *x, const kt__json_scan *s) {
    return kt__fail_at(x->err, KT_E_FORMAT, x->path, (uint64_t)(s->at - x->text),
                       "not valid JSON: %s is expected", s->wrong);
}

static kt_status add_entry(weight_index *x, kt__str tensor, kt__str file) {
    if (!is_plain_name(file.s) || strlen(file.s) != file.len)
        return kt__fail_at(x->err, KT_E_FORMAT, x->path, UINT64_MAX,
                           "tensor '%.100s' lies in '%.100s': the name of a .safetensors file "
                           "in the same folder is expected",
                           tensor.s, file.s);
    if (x->n == MAX_INDEXED)
        return kt__fail_at(x->err, KT_E_LIMIT, x->path, UINT64_MAX, "over %d tensors", MAX_INDEXED);
    if (x->n == x->room) {
        size_t more = x->room ? 2 * x->room : 256;
        void *entries = kt__realloc_array(x->entries, more, sizeof *x->entries);
        if (!entries) return kt__fail_nomem(x->err, x->path, more * sizeof *x->entries);
        x->entries = entries;
        x->room = more;
    }
    x->entries[x->n++] = (map_entry){tensor, file};
    return KT_OK;
}

static kt_status scan_map(weight_index *x, kt__json_scan *s) {
    (void)kt__json_scan_enter(s, '{');
    for (size_t n = 0; kt__json_scan_more(s, '}', n); n++) {
        kt__str tensor, file;
        if (!kt__json_scan_key(s, &tensor)) break;
        if (kt__json_scan_peek(s) != '"')
            return add_entry(x, tensor, (kt__str){"(not a string)", 14}); /* which is refused */
        if (!kt__json_scan_text(s, &file)) break;
        KT__STEP(add_entry(x, tensor, file));
    }
    return s->wrong ? bad_index(x, s) : KT_OK;
}

/* Of equal names the last counts. */
static kt_status index_tensors(weight_index *x) {
    size_t n = 0;
    if (!kt__strmap_init(&x->by_tensor, x->n)) return kt__fail_nomem(x->err, x->path, x->n);
    for (size_t i = 0; i < x->n; i++) {
        const map_entry entry = x->entries[i];
        if (kt__strmap_put(&x->by_tensor, entry.tensor, (int64_t)n))
            x->entries[n++] = entry;
        else
            x->entries[kt__strmap_get(&x->by_tensor, entry.tensor)].file = entry.file;
    }
    x->n = n;
    return KT_OK;
}

static kt_status scan_index(weight_index *x, size_t len) {
    kt__json_scan s = {x->text, x->text + len, NULL};
    bool found = false;
    (void)kt__json_scan_enter(&s, '{');
    for (size_t n = 0; kt__json_scan_more(&s, '}', n); n++) {
        kt__str key;
        if (!kt__json_scan_key(&s, &key)) break;
        bool map = key.len == strlen("weight_map") && memcmp(key.s, "weight_map", key.len) == 0;
        if (!map && !kt__json_scan_skip(&s)) break;
        if (!map) continue;
        found = kt__json_scan_peek(&s) == '{';
        x->n = 0;
        if (found) KT__STEP(scan_map(x, &s));
        if (!found && !kt__json_scan_skip(&s)) break;
    }
    if (!s.wrong && (kt__json_scan_peek(&s) || s.at != s.end)) s.wrong = "the end of the file";
    if (s.wrong) return bad_index(x, &s);
    if (!found)
        return kt__fail_at(x->err, KT_E_FORMAT, x->path, UINT64_MAX, "weight_map is missing");
    return index_tensors(x);
}

static void free_index(weight_index *x) {
    kt__free(x->path);
    kt__free(x->text);
    kt__free(x->entries);
    kt__strmap_free(&x->by_tensor);
}

static kt_status open_mapped(kt__folder *folder, const char *dir, const weight_index *x) {
    kt__strmap shards;
    kt_status status = KT_OK;
    if (!kt__strmap_init(&shards, KT__FOLDER_MAX_SHARDS))
        return kt__fail_nomem(x->err, "files", KT__FOLDER_MAX_SHARDS);
    for (size_t i = 0; i < x->n && status == KT_OK; i++) {
        kt__str file = x->entries[i].file;
        if (kt__strmap_get(&shards, file) >= 0) continue;
        if (folder->n_shards == KT__FOLDER_MAX_SHARDS) {
            status = kt__fail_at(x->err, KT_E_LIMIT, x->path, UINT64_MAX, "over %d files",
                                 KT__FOLDER_MAX_SHARDS);
            break;
        }
        (void)kt__strmap_put(&shards, file, 0);
        status = add_shard(folder, dir, file.s, x->err);
    }
    kt__strmap_free(&shards);
    return status;
}

/* The index and the files must name the same tensors in the same places. */
static kt_status check_index(const kt__folder *folder, const weight_index *x) {
    for (size_t i = 0; i < x->n; i++) {
        const kt__shard *shard;
        const map_entry *entry = &x->entries[i];
        if (!kt__folder_find(folder, entry->tensor.s, &shard) ||
            strcmp(strrchr(shard->path, '/') + 1, entry->file.s) != 0)
            return kt__fail_at(x->err, KT_E_FORMAT, x->path, UINT64_MAX,
                               "tensor '%.100s' is not in %.100s", entry->tensor.s, entry->file.s);
    }
    for (size_t s = 0; s < folder->n_shards; s++) {
        const kt__shard *shard = &folder->shards[s];
        for (size_t i = 0; i < shard->st.n; i++) {
            const char *name = shard->st.tensors[i].name;
            if (kt__strmap_get(&x->by_tensor, (kt__str){name, strlen(name)}) < 0)
                return kt__fail_at(x->err, KT_E_FORMAT, shard->path, shard->st.tensors[i].begin,
                                   "tensor '%.100s' is not named in " INDEX_NAME, name);
        }
    }
    return KT_OK;
}

static kt_status build_names(kt__folder *folder, kt_error *err) {
    for (size_t s = 0; s < folder->n_shards; s++) folder->n_tensors += folder->shards[s].st.n;
    if (!kt__strmap_init(&folder->by_name, folder->n_tensors))
        return kt__fail_nomem(err, "tensor names", folder->n_tensors * sizeof(kt__strmap_slot));
    for (size_t s = 0; s < folder->n_shards; s++) {
        const kt__safetensors *st = &folder->shards[s].st;
        for (size_t i = 0; i < st->n; i++) {
            const char *name = st->tensors[i].name;
            if (!kt__strmap_put(&folder->by_name, (kt__str){name, strlen(name)},
                                (int64_t)(s << 32 | i)))
                return kt__fail_at(err, KT_E_FORMAT, folder->shards[s].path, st->tensors[i].begin,
                                   "tensor '%.100s' is in another file, too", name);
        }
    }
    return KT_OK;
}

/* ---- the folder ---- */

static kt_status no_weights(const char *dir, kt_error *err) {
    char *own = kt__folder_path(dir, "consolidated.safetensors");
    bool is_own = own && kt__file_exists(own);
    kt__free(own);
    if (is_own)
        return kt__fail_at(err, KT_E_UNSUPPORTED, dir, UINT64_MAX,
                           "consolidated.safetensors, Mistral's own form, is not read: take the "
                           "files model*.safetensors of a repository in Hugging Face's form");
    return kt__fail_at(err, KT_E_IO, dir, UINT64_MAX,
                       "the folder has neither " SINGLE_NAME " nor " INDEX_NAME
                       " (.bin and .pt files are programs that Python runs, and are never read: "
                       "save the model as safetensors)");
}

static kt_status open_indexed(const char *dir, kt__folder *out, kt_error *err) {
    weight_index x = {.path = kt__folder_path(dir, INDEX_NAME), .err = err};
    size_t len;
    kt_status status = x.path ? KT_OK : kt__fail_nomem(err, "a path", strlen(dir));
    if (status != KT_OK) return status;
    KT__TRY(kt__folder_read_file(x.path, MAX_INDEX, false, &x.text, &len, err));
    if (!x.text) {
        status = no_weights(dir, err);
        goto out;
    }
    KT__TRY(scan_index(&x, len));
    KT__TRY(open_mapped(out, dir, &x));
    KT__TRY(build_names(out, err));
    KT__TRY(check_index(out, &x));
out:
    free_index(&x);
    return status;
}

kt_status kt__folder_open(const char *dir, kt__folder *out, kt_error *err) {
    kt__file_info st;
    char *single = kt__folder_path(dir, SINGLE_NAME);
    kt_status status = KT_OK;
    *out = (kt__folder){.shards = kt__calloc(KT__FOLDER_MAX_SHARDS, sizeof *out->shards)};
    if (!single || !out->shards) {
        status = kt__fail_nomem(err, "the folder's files", sizeof *out->shards);
        goto out;
    }
    if (!kt__file_look(dir, &st) || !st.is_folder) {
        status = kt__fail_at(err, KT_E_IO, dir, UINT64_MAX, "not a folder that can be read");
        goto out;
    }
    if (!kt__file_look(single, &st)) {
        KT__TRY(open_indexed(dir, out, err));
        goto out;
    }
    KT__TRY(add_shard(out, dir, SINGLE_NAME, err));
    KT__TRY(build_names(out, err));
out:
    kt__free(single);
    return status;
}

kt_status kt__folder_open_file(const char *dir, const char *name, kt__folder *out, kt_error *err) {
    *out = (kt__folder){.shards = kt__calloc(1, sizeof *out->shards)};
    if (!out->shards) return kt__fail_nomem(err, "the folder's files", sizeof *out->shards);
    KT__STEP(add_shard(out, dir, name, err));
    return build_names(out, err);
}

void kt__folder_close(kt__folder *folder) {
    for (size_t i = 0; i < folder->n_shards; i++) {
        kt__shard *shard = &folder->shards[i];
        if (shard->fd >= 0) kt__fd_close(shard->fd);
        kt__free(shard->path);
        kt__safetensors_free(&shard->st);
    }
    kt__strmap_free(&folder->by_name);
    kt__free(folder->shards);
    *folder = (kt__folder){0};
}

const kt__st_tensor *kt__folder_find(const kt__folder *folder, const char *name,
                                     const kt__shard **shard) {
    int64_t at = kt__strmap_get(&folder->by_name, (kt__str){name, strlen(name)});
    if (at < 0) return NULL;
    *shard = &folder->shards[at >> 32];
    return &(*shard)->st.tensors[at & UINT32_MAX];
}
