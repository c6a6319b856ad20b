#include "model/expert_store.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "host/pages.h"

#include <string.h>

/* ---- slots ---- */

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

/* ---- the store ---- */

enum {
    READERS = 4, /* a disk is fastest with several reads at once */
    READER_STACK = 64 << 10
};

typedef enum part_state { PART_ABSENT, PART_QUEUED, PART_READING, PART_READY } part_state;

typedef struct stored_expert {
    uint8_t state[KT__EXPERT_PARTS]; /* part_state */
    bool needed, expected;
    float share; /* of passes that needed it */
} stored_expert;

typedef struct read_job {
    int32_t number; /* of the expert among all */
    int32_t part;
} read_job;

typedef struct read_queue {
    read_job *jobs; /* [KT__EXPERT_PARTS * n_expert] */
    int first, n;
} read_queue;

struct kt__expert_store {
    kt__expert_place place;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    /* under the lock */
    stored_expert *experts; /* [n_layer * n_expert] */
    read_queue needs, guesses;
    int32_t *needed;                        /* [n_needed] their numbers */
    int n_needed, n_left[KT__EXPERT_PARTS]; /* parts of these that are not there */
    int layer;                              /* that needs them */
    uint64_t need;                          /* calls */
    uint64_t budget;
    kt_status failed;
    kt_error failure;
    kt__expert_counts counts;
    bool quit;
    pthread_t readers[READERS];
    int n_readers;
};

/* ---- creation ---- */

static bool allocate_tables(kt__expert_store *s) {
    size_t n = (size_t)s->place.n_expert, all = n * (size_t)s->place.n_layer;
    s->experts = kt__calloc(all, sizeof *s->experts);
    s->needed = kt__calloc(n, sizeof *s->needed);
    s->needs.jobs = kt__calloc(n * KT__EXPERT_PARTS, sizeof *s->needs.jobs);
    s->guesses.jobs = kt__calloc(n * KT__EXPERT_PARTS, sizeof *s->guesses.jobs);
    return s->experts && s->needed && s->needs.jobs && s->guesses.jobs;
}

static void free_store(kt__expert_store *s) {
    kt__expert_place_free(&s->place);
    kt__free(s->experts);
    kt__free(s->needed);
    kt__free(s->needs.jobs);
    kt__free(s->guesses.jobs);
    kt__free(s);
}

static bool make_locks(kt__expert_store *s) {
    if (pthread_mutex_init(&s->lock, NULL) != 0) return false;
    if (pthread_cond_init(&s->work, NULL) == 0) {
        if (pthread_cond_init(&s->done, NULL) == 0) return true;
        pthread_cond_destroy(&s->work);
    }
    pthread_mutex_destroy(&s->lock);
    return false;
}

kt_status kt__expert_store_create(const kt__net *net, const kt__gguf *gguf, kt__expert_store **out,
                                  kt_error *err) {
    bool fits = false;
    *out = NULL;
    kt__expert_store *s = kt__calloc(1, sizeof *s);
    if (!s) return kt__fail_nomem(err, "the store of experts", sizeof *s);
    kt_status status = kt__expert_place_init(&s->place, net, gguf, &fits, err);
    if (status == KT_OK && fits) {
        if (allocate_tables(s) && make_locks(s)) {
            float share = (float)net->hp.n_expert_used / (float)net->hp.n_expert;
            for (int i = 0; i < s->place.n_layer * s->place.n_expert; i++)
                s->experts[i].share = share;
            *out = s;
            return KT_OK;
        }
        status = kt__fail_nomem(err, "the store of experts", 0);
    }
    free_store(s);
    return status;
}

void kt__expert_store_destroy(kt__expert_store *s) {
    if (!s) return;
    kt__expert_store_stop(s);
    pthread_cond_destroy(&s->done);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free_store(s);
}

uint64_t kt__expert_store_file_bytes(const kt__expert_store *s) {
    return s->place.bytes;
}
uint64_t kt__expert_store_room(const kt__expert_store *s) {
    return s->place.room;
}
uint64_t kt__expert_store_least(const kt__expert_store *s) {
    return s->place.least;
}
uint64_t kt__expert_store_bytes(const kt__expert_store *s) {
    return s ? s->budget : 0;
}

const kt__expert_weights *kt__expert_store_part(const kt__expert_store *s, int layer, int part) {
    return &s->place.layers[layer][part].w;
}

/* ---- what is kept ---- */

static int layer_of(const kt__expert_store *s, int number) {
    return number / s->place.n_expert;
}

static bool is_of_size(const kt__expert_store *s, int number, int part, int size) {
    return s->place.layers[layer_of(s, number)][part].size == size;
}

/* Passes until an expert is needed that could go; negative: it has to stay. */
static float next_use_of(const kt__expert_store *s, int number, bool for_guess) {
    const stored_expert *e = &s->experts[number];
    if (e->needed) return -1.0f;
    if (e->expected) return for_guess ? -1.0f : 0.0f;
    int n = s->place.n_layer, ahead = layer_of(s, number) - s->layer;
    return kt__expert_next_use(e->share, ahead > 0 ? ahead : ahead + n, n);
}

static int part_of_size(const kt__expert_store *s, int number, int size) {
    for (int part = 0; part < KT__EXPERT_PARTS; part++)
        if (s->experts[number].state[part] == PART_READY && is_of_size(s, number, part, size))
            return part;
    return -1;
}

/* Of what is in memory, a matrix of the expert that is needed last goes. */
static bool drop_last(kt__expert_store *s, int size, bool for_guess) {
    int last = -1, n = s->place.n_layer * s->place.n_expert;
    float latest = for_guess ? 2.0f / (float)s->place.n_layer : -0.5f;
    for (int i = 0; i < n; i++) {
        if (part_of_size(s, i, size) < 0) continue;
        float next = next_use_of(s, i, for_guess);
        if (next <= latest) continue;
        latest = next;
        last = i;
    }
    if (last < 0) return false;
    int part = part_of_size(s, last, size);
    kt__expert_place_give(&s->place, layer_of(s, last), part, last % s->place.n_expert);
    s->experts[last].state[part] = PART_ABSENT;
    return true;
}

static bool take_place(kt__expert_store *s, read_job job, bool for_guess) {
    int layer = layer_of(s, job.number), expert = job.number % s->place.n_expert;
    if (kt__expert_place_take(&s->place, layer, job.part, expert)) return true;
    return drop_last(s, s->place.layers[layer][job.part].size, for_guess) &&
           kt__expert_place_take(&s->place, layer, job.part, expert);
}

/* ---- reading ---- */

static void push_job(kt__expert_store *s, read_queue *q, int number, int part) {
    q->jobs[q->first + q->n++] = (read_job){number, part};
    s->experts[number].state[part] = PART_QUEUED;
}

static read_job pop_job(read_queue *q) {
    q->n--;
    return q->jobs[q->first++];
}

static void clear_queue(kt__expert_store *s, read_queue *q) {
    while (q->n) {
        read_job job = pop_job(q);
        s->experts[job.number].state[job.part] = PART_ABSENT;
    }
    q->first = 0;
}

/* The next part to read, with its place; false: there is none, or no place before something ends. */
static bool take_job(kt__expert_store *s, read_job *out) {
    bool guess = s->needs.n == 0;
    read_queue *q = guess ? &s->guesses : &s->needs;
    while (q->n) {
        *out = q->jobs[q->first];
        bool there_is = take_place(s, *out, guess);
        if (!there_is && !guess) return false;
        (void)pop_job(q);
        s->experts[out->number].state[out->part] = there_is ? PART_READING : PART_ABSENT;
        if (there_is) return true;
    }
    return false;
}

static void end_job(kt__expert_store *s, read_job job, kt_status status, const kt_error *why) {
    stored_expert *e = &s->experts[job.number];
    if (status == KT_OK) {
        e->state[job.part] = PART_READY;
        s->counts.read_bytes += s->place.layers[layer_of(s, job.number)][job.part].bytes;
    } else {
        e->state[job.part] = PART_ABSENT;
        kt__expert_place_give(&s->place, layer_of(s, job.number), job.part,
                              job.number % s->place.n_expert);
    }
    if (s->needs.n) pthread_cond_broadcast(&s->work); /* there may be a place now */
    if (!e->needed) return;
    if (status != KT_OK) {
        s->failed = status;
        s->failure = *why;
    } else if (--s->n_left[job.part] > 0) {
        return;
    }
    pthread_cond_broadcast(&s->done);
}

static void *read_parts(void *arg) {
    kt__expert_store *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->quit) {
        read_job job;
        kt_error err = {0};
        if (!take_job(s, &job)) {
            pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        pthread_mutex_unlock(&s->lock);
        kt_status status = kt__expert_place_read(&s->place, layer_of(s, job.number), job.part,
                                                 job.number % s->place.n_expert, &err);
        pthread_mutex_lock(&s->lock);
        end_job(s, job, status, &err);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- on and off ---- */

static void join_readers(kt__expert_store *s) {
    pthread_mutex_lock(&s->lock);
    s->quit = true;
    pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < s->n_readers; i++) pthread_join(s->readers[i], NULL);
    s->n_readers = 0;
    s->quit = false;
}

kt_status kt__expert_store_start(kt__expert_store *s, uint64_t bytes, kt_error *err) {
    if (s->budget) return KT_OK;
    KT__STEP(kt__expert_place_open(&s->place, bytes, err));
    s->budget = bytes;
    while (s->n_readers < READERS) {
        int rc = kt__thread_start(&s->readers[s->n_readers], "kt-experts", READER_STACK, read_parts,
                                  s);
        if (rc == 0) {
            s->n_readers++;
            continue;
        }
        if (s->n_readers) break; /* one is enough */
        kt__expert_store_stop(s);
        return kt__fail(err, KT_E_NOMEM, "cannot start a thread that reads experts: %s",
                        strerror(rc));
    }
    return KT_OK;
}

void kt__expert_store_stop(kt__expert_store *s) {
    if (!s || !s->budget) return;
    join_readers(s);
    clear_queue(s, &s->needs);
    clear_queue(s, &s->guesses);
    for (int i = 0; i < s->place.n_layer * s->place.n_expert; i++) {
        stored_expert *e = &s->experts[i];
        *e = (stored_expert){.share = e->share};
    }
    s->n_needed = 0;
    s->budget = 0;
    s->failed = KT_OK;
    kt__expert_place_close(&s->place);
}

/* ---- what a pass needs ---- */

static void forget_needs(kt__expert_store *s) {
    clear_queue(s, &s->needs);
    for (int i = 0; i < s->guesses.n; i++)
        s->experts[s->guesses.jobs[s->guesses.first + i].number].expected = false;
    clear_queue(s, &s->guesses);
    for (int i = 0; i < s->n_needed; i++) s->experts[s->needed[i]].needed = false;
    s->n_needed = 0;
    s->failed = KT_OK;
    memset(s->n_left, 0, sizeof s->n_left);
}

static bool lacks_part(const kt__expert_store *s, int number, int part) {
    return s->place.layers[layer_of(s, number)][part].bytes &&
           s->experts[number].state[part] != PART_READY;
}

static void count_use(kt__expert_store *s, int number) {
    stored_expert *e = &s->experts[number];
    bool lacks = lacks_part(s, number, 0) || lacks_part(s, number, 1) || lacks_part(s, number, 2);
    s->counts.n_used++;
    s->counts.n_missed += lacks;
    s->counts.n_foreseen += e->expected;
}

static void note_needed(kt__expert_store *s, const kt__routing *routing, bool first) {
    int before = s->layer * s->place.n_expert;
    for (int i = 0; i < routing->n_piece; i++) {
        int number = before + routing->pieces[i].expert;
        if (s->experts[number].needed) continue;
        s->experts[number].needed = true;
        s->needed[s->n_needed++] = number;
        if (first) count_use(s, number);
    }
    for (int i = before; i < before + s->place.n_expert; i++) {
        stored_expert *e = &s->experts[i];
        e->expected = false;
        if (first) e->share = kt__expert_share(e->share, e->needed);
    }
}

uint64_t kt__expert_store_need(kt__expert_store *s, int layer, const kt__routing *routing,
                               bool first) {
    pthread_mutex_lock(&s->lock);
    forget_needs(s);
    s->layer = layer;
    note_needed(s, routing, first);
    for (int part = 0; part < KT__EXPERT_PARTS; part++)
        for (int i = 0; i < s->n_needed; i++) {
            int number = s->needed[i];
            if (!lacks_part(s, number, part)) continue;
            s->n_left[part]++;
            if (s->experts[number].state[part] == PART_ABSENT) push_job(s, &s->needs, number, part);
        }
    if (s->needs.n) pthread_cond_broadcast(&s->work);
    uint64_t need = ++s->need;
    pthread_mutex_unlock(&s->lock);
    return need;
}

bool kt__expert_store_is_last(kt__expert_store *s, uint64_t need) {
    pthread_mutex_lock(&s->lock);
    bool is = s->need == need;
    pthread_mutex_unlock(&s->lock);
    return is;
}

static void expect_expert(kt__expert_store *s, int number) {
    stored_expert *e = &s->experts[number];
    if (e->expected || e->needed) return;
    e->expected = true;
    s->counts.n_expected++;
    for (int part = 0; part < KT__EXPERT_PARTS; part++)
        if (lacks_part(s, number, part) && e->state[part] == PART_ABSENT)
            push_job(s, &s->guesses, number, part);
}

void kt__expert_store_expect(kt__expert_store *s, int layer, const kt__routing *routing) {
    int before = layer * s->place.n_expert;
    int n = routing ? routing->n_piece : s->place.n_expert;
    pthread_mutex_lock(&s->lock);
    if (s->guesses.first + s->guesses.n) n = 0; /* one layer at a time */
    for (int i = 0; i < n; i++)
        expect_expert(s, before + (routing ? routing->pieces[i].expert : i));
    if (s->guesses.n) pthread_cond_broadcast(&s->work);
    pthread_mutex_unlock(&s->lock);
}

kt_status kt__expert_store_wait(kt__expert_store *s, unsigned parts, kt_error *err) {
    pthread_mutex_lock(&s->lock);
    for (int part = 0; part < KT__EXPERT_PARTS; part++)
        while ((parts >> part & 1) && s->n_left[part] && s->failed == KT_OK)
            pthread_cond_wait(&s->done, &s->lock);
    kt_status status = s->failed;
    if (status != KT_OK && err) *err = s->failure;
    pthread_mutex_unlock(&s->lock);
    return status;
}

void kt__expert_store_counts(kt__expert_store *s, kt__expert_counts *out) {
    pthread_mutex_lock(&s->lock);
    *out = s->counts;
    pthread_mutex_unlock(&s->lock);
}
