#include "model/expert_place.h"

#include "base/alloc.h"
#include "base/error.h"
#include "host/pages.h"

/* ---- what there is ---- */

static int file_number(kt__expert_place *place, const kt__filemap *map) {
    for (int i = 0; i < place->n_file; i++)
        if (place->maps[i] == map) return i;
    place->maps[place->n_file] = map;
    return place->n_file++;
}

/* Wherever within a unit of reads it begins. */
static int size_number(kt__expert_place *place, size_t bytes) {
    size_t unit = kt__direct_read_unit(), room = (bytes + 2 * (unit - 1)) / unit * unit;
    for (int i = 0; i < place->n_size; i++)
        if (place->sizes[i].room == room) return i;
    place->sizes[place->n_size] = (kt__expert_size){.room = room};
    return place->n_size++;
}

/* False: it is in no mapped file. */
static bool find_matrix(kt__expert_place *place, const kt__gguf *gguf, const kt__expert_weights *w,
                        kt__expert_matrix *out) {
    const uint8_t **where = out->where;
    *out = (kt__expert_matrix){.w = *w, .where = where};
    out->w.where = where;
    if (!w->w.data) return true;
    const kt__filemap *map = kt__gguf_map_of(gguf, w->w.data, &out->at);
    if (!map) return false;
    out->file = file_number(place, map);
    out->in_file = w->stride;
    out->bytes = w->w.row_bytes * (size_t)w->w.n_row;
    out->size = size_number(place, out->bytes);
    place->sizes[out->size].n_all += place->n_expert;
    place->bytes += (uint64_t)place->n_expert * out->bytes;
    return true;
}

static bool find_layer(kt__expert_place *place, const kt__gguf *gguf, const kt__layer *layer,
                       int i) {
    const kt__expert_weights *parts[] = {&layer->gate_exps, &layer->up_exps, &layer->down_exps};
    for (int p = 0; p < KT__EXPERT_PARTS; p++)
        if (!find_matrix(place, gguf, parts[p], &place->layers[i][p])) return false;
    for (int size = 0; size < place->n_size; size++) {
        int64_t n = 0;
        for (int p = 0; p < KT__EXPERT_PARTS; p++)
            if (place->layers[i][p].bytes && place->layers[i][p].size == size) n += place->n_expert;
        if (place->sizes[size].n_least < n) place->sizes[size].n_least = n;
    }
    return true;
}

static bool allocate_places(kt__expert_place *place, int n_file) {
    size_t n = (size_t)place->n_layer * KT__EXPERT_PARTS, n_expert = (size_t)place->n_expert;
    place->layers = kt__calloc((size_t)place->n_layer, sizeof *place->layers);
    place->sizes = kt__calloc(n, sizeof *place->sizes);
    place->maps = kt__calloc((size_t)n_file, sizeof *place->maps);
    place->files = kt__calloc((size_t)n_file, sizeof *place->files);
    const uint8_t **where = kt__calloc(n * n_expert, sizeof *where);
    if (place->layers) place->layers[0][0].where = where;
    if (!place->layers || !place->sizes || !place->maps || !place->files || !where) return false;
    for (size_t i = 0; i < n; i++)
        place->layers[i / KT__EXPERT_PARTS][i % KT__EXPERT_PARTS].where = where + i * n_expert;
    return true;
}

kt_status kt__expert_place_init(kt__expert_place *place, const kt__net *net, const kt__gguf *gguf,
                                bool *fits, kt_error *err) {
    *place = (kt__expert_place){.n_expert = net->hp.n_expert,
                                .n_layer = net->hp.n_layer + (net->mtp ? 1 : 0)};
    *fits = false;
    if (net->hp.n_expert == 0) return KT_OK;
    if (!allocate_places(place, kt__gguf_n_parts(gguf)))
        return kt__fail_nomem(err, "the places of experts", 0);
    *fits = true;
    for (int i = 0; i < place->n_layer; i++)
        *fits = *fits && find_layer(place, gguf, &net->layers[i], i);
    *fits = *fits && place->bytes > 0;
    for (int i = 0; i < place->n_size; i++) {
        kt__expert_size *size = &place->sizes[i];
        place->room += (uint64_t)size->n_all * size->room;
        place->least += (uint64_t)size->n_least * size->room;
        size->free = kt__calloc((size_t)size->n_all, sizeof *size->free);
        if (!size->free) return kt__fail_nomem(err, "the places of experts", 0);
    }
    return KT_OK;
}

void kt__expert_place_free(kt__expert_place *place) {
    kt__expert_place_close(place);
    for (int i = 0; i < place->n_size; i++) kt__free(place->sizes[i].free);
    if (place->layers) kt__free(place->layers[0][0].where);
    kt__free(place->layers);
    kt__free(place->sizes);
    kt__free(place->maps);
    kt__free(place->files);
    *place = (kt__expert_place){0};
}

/* ---- memory ---- */

/* What one layer needs, and of the rest as large a share of each size. */
static void share_out(kt__expert_place *place, uint64_t bytes) {
    double rest = bytes < place->room ? (double)(bytes - place->least) : 0;
    double all = (double)(place->room - place->least);
    double share = bytes < place->room ? rest / all : 1;
    place->memory_bytes = 0;
    for (int i = 0; i < place->n_size; i++) {
        kt__expert_size *size = &place->sizes[i];
        size->n_place = size->n_least + (int64_t)(share * (double)(size->n_all - size->n_least));
        place->memory_bytes += (size_t)size->n_place * size->room;
    }
}

static void free_places(kt__expert_place *place) {
    uint8_t *at = place->memory;
    for (int i = 0; i < place->n_size; i++) {
        kt__expert_size *size = &place->sizes[i];
        for (size->n_free = 0; size->n_free < size->n_place; at += size->room)
            size->free[size->n_free++] = at;
    }
}

kt_status kt__expert_place_open(kt__expert_place *place, uint64_t bytes, kt_error *err) {
    kt_status status = KT_OK;
    for (int i = 0; i < place->n_file; i++)
        place->files[i] = (kt__direct_read){.direct = -1, .cached = -1};
    share_out(place, bytes > place->least ? bytes : place->least);
    place->memory = kt__pages_alloc(place->memory_bytes);
    if (!place->memory) return kt__fail_nomem(err, "experts", place->memory_bytes);
    free_places(place);
    for (int i = 0; i < place->n_file; i++)
        KT__TRY(kt__direct_read_open(place->maps[i], &place->files[i], err));
out:
    if (status != KT_OK) kt__expert_place_close(place);
    return status;
}

void kt__expert_place_close(kt__expert_place *place) {
    if (!place->memory) return;
    for (int i = 0; i < place->n_file; i++) kt__direct_read_close(&place->files[i]);
    kt__pages_free(place->memory, place->memory_bytes);
    place->memory = NULL;
}

/* ---- one matrix ---- */

static uint64_t offset_of(const kt__expert_matrix *m, int expert) {
    return m->at + (uint64_t)expert * m->in_file;
}

bool kt__expert_place_take(kt__expert_place *place, int layer, int part, int expert) {
    kt__expert_matrix *m = &place->layers[layer][part];
    kt__expert_size *size = &place->sizes[m->size];
    if (size->n_free == 0) return false;
    size_t unit = kt__direct_read_unit();
    m->where[expert] = size->free[--size->n_free] + offset_of(m, expert) % unit;
    return true;
}

void kt__expert_place_give(kt__expert_place *place, int layer, int part, int expert) {
    kt__expert_matrix *m = &place->layers[layer][part];
    kt__expert_size *size = &place->sizes[m->size];
    size_t before = offset_of(m, expert) % kt__direct_read_unit();
    size->free[size->n_free++] = (uint8_t *)(uintptr_t)m->where[expert] - before;
    m->where[expert] = NULL;
}

kt_status kt__expert_place_read(const kt__expert_place *place, int layer, int part, int expert,
                                kt_error *err) {
    const kt__expert_matrix *m = &place->layers[layer][part];
    return kt__direct_read_part(&place->files[m->file], offset_of(m, expert), m->bytes,
                                (uint8_t *)(uintptr_t)m->where[expert], err);
}
