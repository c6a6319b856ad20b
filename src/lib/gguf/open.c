/* Opening: a file, a split set, or memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "gguf/reader.h"

/* Descriptors, indexes and offsets of a file take less than this many times its size; the arena
 * refuses more, so no file can make us allocate without bound. */
enum { MEMORY_PER_BYTE = 16, ARENA_BLOCK = 16 << 10, DATA_ALIGNMENT = 32 };

/* ---- life ---- */

static kt__gguf *gguf_new(int n_parts, bool vocab_only, bool tolerant) {
    kt__gguf *g = kt__calloc(1, sizeof *g);
    if (!g) return NULL;
    kt__arena_init(&g->arena, ARENA_BLOCK, ARENA_BLOCK);
    g->vocab_only = vocab_only;
    g->tolerant = tolerant;
    g->parts = kt__calloc((size_t)n_parts, sizeof *g->parts);
    if (g->parts) return g;
    kt__free(g);
    return NULL;
}

void kt__gguf_close(kt__gguf *g) {
    if (!g) return;
    for (int i = 0; i < g->n_parts; i++) {
        if (g->parts[i].has_map) kt__filemap_close(&g->parts[i].map);
        kt__free(g->parts[i].copy);
        kt__free(g->parts[i].path);
    }
    kt__free(g->parts);
    kt__arena_free(&g->arena);
    kt__free(g);
}

/* The next part, with a copy of its path. */
static kt__gguf_part *part_new(kt__gguf *g, const char *path, kt_error *err) {
    kt__gguf_part *part = &g->parts[g->n_parts];
    part->path = kt__strdup(path);
    if (!part->path) {
        (void)kt__fail_nomem(err, "a path", strlen(path));
        return NULL;
    }
    g->n_parts++;
    return part;
}

static void part_set_bytes(kt__gguf *g, kt__gguf_part *part, const uint8_t *data, uint64_t size) {
    part->data = data;
    part->size = size;
    uint64_t room = size > (SIZE_MAX / 2) / MEMORY_PER_BYTE ? SIZE_MAX / 2 : size * MEMORY_PER_BYTE;
    if (__builtin_add_overflow(g->arena.max_bytes, (size_t)room, &g->arena.max_bytes))
        g->arena.max_bytes = SIZE_MAX;
}

/* Before it is made: a copy that is too large would end the process, not the call. */
static kt_status check_copy(const kt__gguf *g, const char *path, const kt__gguf_open_params *params,
                            kt_error *err) {
    kt__file_info st;
    if (params->use_mmap || !params->copy_max || !kt__file_look(path, &st) || !st.is_file)
        return KT_OK;
    uint64_t all = st.bytes;
    for (int i = 0; i < g->n_parts; i++) all += g->parts[i].size;
    if (all <= params->copy_max) return KT_OK;
    return kt__fail_at(err, KT_E_NOMEM, path, UINT64_MAX,
                       "a copy of the model takes %.0f MiB or more, %.0f MiB may be used: map the "
                       "file instead (without --no-mmap)",
                       (double)all / (1 << 20), (double)params->copy_max / (1 << 20));
}

static kt_status open_part(kt__gguf *g, const char *path, const kt__gguf_open_params *params,
                           kt_error *err) {
    kt_status status = check_copy(g, path, params, err);
    if (status != KT_OK) return status;
    kt__gguf_part *part = part_new(g, path, err);
    if (!part) return KT_E_NOMEM;
    status = kt__filemap_open(path, params->use_mmap, params->use_mlock && !params->vocab_only,
                              &part->map, err);
    if (status != KT_OK) return status;
    part->has_map = true;
    part_set_bytes(g, part, part->map.data, part->map.size);
    return kt__gguf_parse_meta(g, part, err);
}

/* ---- tensors of all parts ---- */

static kt_status index_tensors(kt__gguf *g, kt_error *err) {
    char shown[KT__GGUF_SHOWN_BYTES];
    uint32_t dup[2];
    uint32_t *order = kt__arena_alloc(&g->arena, g->n_tensors * sizeof *order);
    if (!order) return kt__fail_nomem(err, "the tensor index", g->n_tensors * sizeof *order);
    if (kt__name_index_build(&g->tensor_index, g->tensors, sizeof *g->tensors, g->n_tensors, order,
                             dup))
        return KT_OK;
    const kt__gguf_tensor *first = &g->tensors[dup[0]];
    kt__gguf_tensor *second = &g->tensors[dup[1]];
    return kt__gguf_fail_tensor(g, second, second->file_offset, err,
                                "tensor %s occurs twice (first in %s)",
                                kt__gguf_show(first->name, shown), g->parts[first->part].path);
}

/* By file, then by place in it. */
static int compare_places(const void *a, const void *b) {
    const kt__gguf_tensor *x = *(kt__gguf_tensor *const *)a, *y = *(kt__gguf_tensor *const *)b;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    return (x->file_offset > y->file_offset) - (x->file_offset < y->file_offset);
}

/* No two tensors may lie in the same bytes: one of the two descriptors is wrong. */
static kt_status check_overlaps(kt__gguf *g, kt_error *err) {
    char name[KT__GGUF_SHOWN_BYTES], before[KT__GGUF_SHOWN_BYTES];
    kt_status status = KT_OK;
    uint32_t n = 0;
    kt__gguf_tensor **placed = kt__calloc(g->n_tensors + 1, sizeof(kt__gguf_tensor *));
    if (!placed) return kt__fail_nomem(err, "the tensors' places", g->n_tensors * sizeof *placed);
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].data) placed[n++] = &g->tensors[i];
    }
    qsort(placed, n, sizeof *placed, compare_places);
    for (uint32_t i = 1, last = 0; i < n && status == KT_OK; i++) {
        kt__gguf_tensor *t = placed[i], *p = placed[last];
        if (t->part == p->part && t->file_offset < p->file_offset + p->size)
            status = kt__gguf_fail_tensor(
                g, t, t->file_offset, err,
                "tensor %s begins at byte %" PRIu64 ", inside tensor %s: the file is damaged",
                kt__gguf_show(t->name, name), t->file_offset, kt__gguf_show(p->name, before));
        else
            last = i;
    }
    kt__free(placed);
    return status;
}

static kt_status load_tensors(kt__gguf *g, kt_error *err) {
    uint64_t total = 0;
    for (int i = 0; i < g->n_parts; i++) total += g->parts[i].n_tensors;
    if (total > KT__GGUF_MAX_TENSORS)
        return kt__fail_at(err, KT_E_LIMIT, g->parts[0].path, UINT64_MAX,
                           "%" PRIu64 " tensors in all parts; the limit is %d", total,
                           KT__GGUF_MAX_TENSORS);
    g->tensors = kt__arena_calloc(&g->arena, (size_t)total, sizeof *g->tensors);
    if (!g->tensors)
        return kt__fail_nomem(err, "tensor descriptors", (size_t)total * sizeof *g->tensors);
    for (int i = 0; i < g->n_parts; i++) {
        KT__STEP(kt__gguf_parse_tensors(g, i, g->n_tensors, err));
        g->n_tensors += (uint32_t)g->parts[i].n_tensors;
    }
    KT__STEP(index_tensors(g, err));
    return check_overlaps(g, err);
}

/* ---- split sets: NAME-00001-of-0000N.gguf ---- */

typedef struct split_name {
    int prefix_len;     /* of NAME */
    uint32_t no, count; /* no counts from 1, as in the name */
} split_name;

static bool five_digits(const char *s, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9') return false;
        *out = *out * 10 + (uint32_t)(s[i] - '0');
    }
    return true;
}

static bool parse_split_name(const char *path, split_name *out) {
    static const char pattern[] = "-00000-of-00000.gguf";
    size_t len = strlen(path), tail = sizeof pattern - 1;
    if (len < tail || len > INT32_MAX) return false;
    const char *s = path + len - tail;
    out->prefix_len = (int)(len - tail);
    return s[0] == '-' && five_digits(s + 1, &out->no) && memcmp(s + 6, "-of-", 4) == 0 &&
           five_digits(s + 10, &out->count) && strcmp(s + 15, ".gguf") == 0;
}

/* For kt__free. */
static char *split_path(const char *path, const split_name *name, uint32_t no) {
    size_t size = strlen(path) + 1;
    char *out = kt__malloc(size);
    if (out)
        snprintf(out, size, "%.*s-%05" PRIu32 "-of-%05" PRIu32 ".gguf", name->prefix_len, path,
                 no % 100000, name->count % 100000);
    return out;
}

static kt_status fail_not_first(const kt__gguf_part *part, uint32_t no, uint32_t count,
                                kt_error *err) {
    split_name name;
    char *first = parse_split_name(part->path, &name) ? split_path(part->path, &name, 1) : NULL;
    kt_status status = kt__fail_at(err, KT_E_ARG, part->path, UINT64_MAX,
                                   "this is part %" PRIu32 " of %" PRIu32
                                   " of a split model: open %s instead",
                                   no + 1, count, first ? first : "its first part");
    kt__free(first);
    return status;
}

/* Reads split.no and split.count of a part; *count is 1 for a file that is no part of a set. */
static kt_status read_split_keys(const kt__gguf_part *part, uint32_t *no, uint32_t *count,
                                 kt_error *err) {
    bool found;
    *no = 0;
    *count = 1;
    KT__STEP(kt__gguf_part_get_u32(part, "split.count", &found, count, err));
    KT__STEP(kt__gguf_part_get_u32(part, "split.no", &found, no, err));
    if (*count == 0) *count = 1;
    if (*count > 1 && !found)
        return kt__fail_at(err, KT_E_FORMAT, part->path, UINT64_MAX,
                           "split.count is %" PRIu32 ", but split.no is missing", *count);
    if (*count > KT__GGUF_MAX_SPLITS)
        return kt__fail_at(err, KT_E_LIMIT, part->path, UINT64_MAX,
                           "split.count is %" PRIu32 "; the limit is %d", *count,
                           KT__GGUF_MAX_SPLITS);
    return KT_OK;
}

static kt_status open_sibling(kt__gguf *g, const split_name *name, uint32_t no,
                              const kt__gguf_open_params *params, kt_error *err) {
    uint32_t found_no, found_count;
    kt_status status;
    char *path = split_path(g->parts[0].path, name, no + 1);
    if (!path) return kt__fail_nomem(err, "a path", 0);
    KT__TRY(open_part(g, path, params, err));
    const kt__gguf_part *part = &g->parts[no];
    KT__TRY(read_split_keys(part, &found_no, &found_count, err));
    if (found_no != no || found_count != name->count)
        status = kt__fail_at(err, KT_E_FORMAT, part->path, UINT64_MAX,
                             "its keys say part %" PRIu32 " of %" PRIu32
                             "; its name says part %" PRIu32 " of %" PRIu32,
                             found_no + 1, found_count, no + 1, name->count);
out:
    kt__free(path);
    return status;
}

static kt_status check_split_total(const kt__gguf *g, kt_error *err) {
    bool found;
    uint32_t expected = 0;
    uint64_t total = 0;
    for (int i = 0; i < g->n_parts; i++) total += g->parts[i].n_tensors;
    kt_status status = kt__gguf_part_get_u32(&g->parts[0], "split.tensors.count", &found, &expected,
                                             err);
    if (status != KT_OK || !found || expected == total) return status;
    return kt__fail_at(err, KT_E_FORMAT, g->parts[0].path, UINT64_MAX,
                       "split.tensors.count is %" PRIu32 ", but the %d parts hold %" PRIu64
                       " tensors",
                       expected, g->n_parts, total);
}

/* Opens parts 2..count of the set whose first part is open. */
static kt_status open_siblings(kt__gguf *g, const kt__gguf_open_params *params, kt_error *err) {
    uint32_t no, count;
    split_name name = {0};
    kt_status status = read_split_keys(&g->parts[0], &no, &count, err);
    if (status != KT_OK || count == 1) return status;
    if (no != 0) return fail_not_first(&g->parts[0], no, count, err);
    if (g->vocab_only) return KT_OK; /* the first part has all metadata */
    if (!parse_split_name(g->parts[0].path, &name) || name.no != 1 || name.count != count)
        return kt__fail_at(err, KT_E_FORMAT, g->parts[0].path, UINT64_MAX,
                           "this is the first of %" PRIu32
                           " parts, so its name must end in -00001-of-%05" PRIu32
                           ".gguf to find the others",
                           count, count);
    kt__gguf_part *parts = kt__realloc_array(g->parts, count, sizeof *parts);
    if (!parts) return kt__fail_nomem(err, "split parts", count * sizeof *parts);
    g->parts = parts;
    memset(parts + 1, 0, (count - 1) * sizeof *parts);
    for (uint32_t i = 1; i < count; i++) KT__TRY(open_sibling(g, &name, i, params, err));
    KT__TRY(check_split_total(g, err));
out:
    return status;
}

/* ---- the interface ---- */

kt_status kt__gguf_open(const char *path, const kt__gguf_open_params *params, kt__gguf **out,
                        kt_error *err) {
    kt_status status;
    *out = NULL;
    kt__gguf *g = gguf_new(1, params->vocab_only, params->tolerant);
    if (!g) return kt__fail_nomem(err, "a model file", sizeof *g);
    KT__TRY(open_part(g, path, params, err));
    KT__TRY(open_siblings(g, params, err));
    KT__TRY(load_tensors(g, err));
    *out = g;
out:
    if (status != KT_OK) kt__gguf_close(g);
    return status;
}

/* Refuses parts of a set: memory has no further files. */
static kt_status check_whole(const kt__gguf *g, kt_error *err) {
    uint32_t no, count;
    kt_status status = read_split_keys(&g->parts[0], &no, &count, err);
    if (status != KT_OK || count == 1 || g->vocab_only) return status;
    return kt__fail_at(err, KT_E_UNSUPPORTED, g->parts[0].path, UINT64_MAX,
                       "part %" PRIu32 " of %" PRIu32
                       " of a split model cannot be opened from memory",
                       no + 1, count);
}

kt_status kt__gguf_open_memory(const void *data, size_t size, bool vocab_only, kt__gguf **out,
                               kt_error *err) {
    kt_status status;
    *out = NULL;
    kt__gguf *g = gguf_new(1, vocab_only, false);
    if (!g) return kt__fail_nomem(err, "a model file", sizeof *g);
    kt__gguf_part *part = part_new(g, "(memory)", err);
    if (!part) {
        status = KT_E_NOMEM;
        goto out;
    }
    if (!vocab_only && size && (uintptr_t)data % DATA_ALIGNMENT != 0) {
        part->copy = kt__aligned_alloc(DATA_ALIGNMENT, size);
        if (!part->copy) {
            status = kt__fail_nomem(err, "an aligned copy of the model", size);
            goto out;
        }
        data = memcpy(part->copy, data, size);
    }
    part_set_bytes(g, part, data, size);
    KT__TRY(kt__gguf_parse_meta(g, part, err));
    KT__TRY(check_whole(g, err));
    KT__TRY(load_tensors(g, err));
    *out = g;
out:
    if (status != KT_OK) kt__gguf_close(g);
    return status;
}

const struct kt__filemap *kt__gguf_part_bytes(const kt__gguf *g, int part, const uint8_t **data,
                                              uint64_t *size) {
    const kt__gguf_part *p = &g->parts[part];
    *data = p->data;
    *size = p->size;
    return p->has_map ? &p->map : NULL;
}

const struct kt__filemap *kt__gguf_map_of(const kt__gguf *g, const uint8_t *data, uint64_t *at) {
    for (int i = 0; i < g->n_parts; i++) {
        const kt__gguf_part *p = &g->parts[i];
        if (!p->has_map || !p->map.mapped || data < p->data || data >= p->data + p->size) continue;
        *at = (uint64_t)(data - p->data);
        return &p->map;
    }
    return NULL;
}

void kt__gguf_read_sparsely(const kt__gguf *g, const kt__gguf_tensor *t) {
    const kt__gguf_part *p = &g->parts[t->part];
    if (p->has_map && t->data) kt__filemap_read_sparsely(&p->map, t->data, t->size);
}

/* One after the other, and each too small for large pages. */
void kt__gguf_read_expert_parts(const kt__gguf *g) {
    for (size_t i = 0; i < g->n_tensors; i++) {
        const kt__gguf_tensor *t = &g->tensors[i];
        const kt__gguf_part *p = &g->parts[t->part];
        if (t->n_dims == 3 && p->has_map && t->data)
            kt__filemap_read_stretches(&p->map, t->data, t->size);
    }
}

kt_status kt__gguf_check(const kt__gguf *g, kt_error *err) {
    for (int i = 0; i < g->n_parts; i++)
        if (g->parts[i].has_map) KT__STEP(kt__filemap_check(&g->parts[i].map, err));
    return KT_OK;
}

const char *kt__gguf_path(const kt__gguf *g) {
    return g->parts[0].path;
}
uint32_t kt__gguf_version(const kt__gguf *g) {
    return g->parts[0].version;
}
uint64_t kt__gguf_alignment(const kt__gguf *g) {
    return g->parts[0].alignment;
}
int kt__gguf_n_parts(const kt__gguf *g) {
    return g->n_parts;
}

uint64_t kt__gguf_file_bytes(const kt__gguf *g) {
    uint64_t bytes = 0;
    for (int i = 0; i < g->n_parts; i++) bytes += g->parts[i].size;
    return bytes;
}

size_t kt__gguf_n_kv(const kt__gguf *g) {
    return g->parts[0].n_kv;
}

const kt__gguf_kv *kt__gguf_kv_at(const kt__gguf *g, size_t index) {
    return index < g->parts[0].n_kv ? &g->parts[0].kv[index] : NULL;
}

size_t kt__gguf_n_tensors(const kt__gguf *g) {
    return g->n_tensors;
}

const kt__gguf_tensor *kt__gguf_tensor_at(const kt__gguf *g, size_t index) {
    return index < g->n_tensors ? &g->tensors[index] : NULL;
}

const kt__gguf_tensor *kt__gguf_find_tensor(const kt__gguf *g, const char *name) {
    return kt__name_index_find(&g->tensor_index, (kt__str){name, strlen(name)});
}
