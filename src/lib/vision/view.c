#include "vision/view.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"
#include "base/thread.h"
#include "picture/picture.h"

enum { SEED = 0x7e5 }; /* of digests of pictures */

struct kt__views {
    const kt__vision *vision;
    uint8_t identity[32];
    uint64_t secret[2];
    pthread_mutex_t decoding; /* one at a time: a file's pixels may take hundreds of megabytes */
    pthread_mutex_t lock;
    kt__view *newest, *oldest;
    size_t bytes;
    uint64_t serial;
};

kt_status kt__views_create(const kt__vision *vision, const uint8_t identity[32], kt__views **out,
                           kt_error *err) {
    *out = NULL;
    kt__views *v = kt__calloc(1, sizeof *v);
    if (!v || pthread_mutex_init(&v->lock, NULL) != 0) {
        kt__free(v);
        return kt__fail_nomem(err, "pictures", sizeof *v);
    }
    if (pthread_mutex_init(&v->decoding, NULL) != 0) {
        pthread_mutex_destroy(&v->lock);
        kt__free(v);
        return kt__fail_nomem(err, "pictures", sizeof *v);
    }
    v->vision = vision;
    memcpy(v->identity, identity, sizeof v->identity);
    if (!kt__random_bytes(v->secret, sizeof v->secret)) v->secret[0] = (uint64_t)kt__now_ns();
    *out = v;
    return KT_OK;
}

static void free_view(kt__view *view) {
    if (!view) return;
    kt__free(view->tiles);
    kt__free(view->rows);
    kt__free(view);
}

void kt__views_destroy(kt__views *v) {
    if (!v) return;
    while (v->newest) {
        kt__view *view = v->newest;
        v->newest = view->older;
        free_view(view);
    }
    pthread_mutex_destroy(&v->decoding);
    pthread_mutex_destroy(&v->lock);
    kt__free(v);
}

/* ---- the list, under the lock ---- */

static void unlink_view(kt__views *v, kt__view *view) {
    *(view->newer ? &view->newer->older : &v->newest) = view->older;
    *(view->older ? &view->older->newer : &v->oldest) = view->newer;
    view->newer = view->older = NULL;
}

static void put_newest(kt__views *v, kt__view *view) {
    view->older = v->newest;
    *(v->newest ? &v->newest->newer : &v->oldest) = view;
    v->newest = view;
}

static kt__view *find_view(kt__views *v, const uint64_t name[2]) {
    for (kt__view *view = v->newest; view; view = view->older) {
        if (view->name[0] != name[0] || view->name[1] != name[1]) continue;
        view->n_held++;
        unlink_view(v, view);
        put_newest(v, view);
        return view;
    }
    return NULL;
}

/* What is held stays; false: it takes too much. */
static bool make_room(kt__views *v, size_t bytes) {
    for (kt__view *view = v->oldest; view && v->bytes + bytes > KT__VIEWS_BYTES;) {
        kt__view *next = view->newer;
        if (view->n_held == 0) {
            v->bytes -= view->bytes;
            unlink_view(v, view);
            free_view(view);
        }
        view = next;
    }
    return v->bytes + bytes <= KT__VIEWS_BYTES;
}

/* ---- making one ---- */

static kt_status cut_file(const kt__vision *vision, const void *data, size_t len, kt__view *view,
                          kt_error *err) {
    kt__picture picture;
    KT__STEP(kt__picture_decode(data, len, &picture, err));
    kt_status status = kt__vision_cut(vision, &picture, &view->tiling, &view->tiles, err);
    kt__picture_free(&picture);
    return status;
}

static kt_status make_view(kt__views *v, const void *data, size_t len, kt__view **out,
                           kt_error *err) {
    kt_status status;
    kt__hash hash;
    kt__view *view = kt__calloc(1, sizeof *view);
    if (!view) return kt__fail_nomem(err, "a picture", sizeof *view);
    view->vision = v->vision;
    view->n_held = 1;
    KT__TRY(cut_file(v->vision, data, len, view, err));
    view->n_rows = view->tiling.n_tile * view->tiling.n_rows;
    size_t n = (size_t)view->n_rows * (size_t)v->vision->d_row;
    view->rows = kt__calloc(n, sizeof *view->rows);
    if (!view->rows) KT__TRY(kt__fail_nomem(err, "a picture's rows", n * sizeof *view->rows));
    view->bytes = n * sizeof *view->rows + kt__tiling_bytes(&view->tiling);
    kt__hash_init(&hash, SEED);
    kt__hash_add(&hash, v->identity, sizeof v->identity);
    kt__hash_add(&hash, data, len);
    view->digest = kt__hash_end(&hash);
    *out = view;
    view = NULL;
out:
    free_view(view);
    return status;
}

static kt_status add_view(kt__views *v, const uint64_t name[2], kt__view *view, kt_error *err) {
    memcpy(view->name, name, sizeof view->name);
    pthread_mutex_lock(&v->lock);
    bool fits = make_room(v, view->bytes);
    if (fits) {
        v->bytes += view->bytes;
        view->serial = ++v->serial;
        put_newest(v, view);
    }
    pthread_mutex_unlock(&v->lock);
    if (fits) return KT_OK;
    size_t bytes = view->bytes;
    free_view(view);
    if (bytes > KT__VIEWS_BYTES)
        return kt__fail(err, KT_E_LIMIT, "a picture of %zu MB in the form that the model sees",
                        bytes >> 20);
    (void)kt__fail(err, KT_E_BUSY,
                   "pictures of other requests take all the room of %d MB: try again later",
                   KT__VIEWS_BYTES >> 20);
    if (err) err->retry_ms = 1000;
    return KT_E_BUSY;
}

kt_status kt__views_open(kt__views *v, const void *data, size_t len, kt__view **out,
                         kt_error *err) {
    uint64_t name[2];
    kt_status status = KT_OK;
    kt__siphash128(v->secret, data, len, name);
    pthread_mutex_lock(&v->decoding); /* who decodes the same file is waited for */
    pthread_mutex_lock(&v->lock);
    *out = find_view(v, name);
    pthread_mutex_unlock(&v->lock);
    if (!*out) {
        status = make_view(v, data, len, out, err);
        if (status == KT_OK) status = add_view(v, name, *out, err);
        if (status != KT_OK) *out = NULL;
    }
    pthread_mutex_unlock(&v->decoding);
    return status;
}

void kt__view_hold(kt__views *v, kt__view *view) {
    pthread_mutex_lock(&v->lock);
    view->n_held++;
    pthread_mutex_unlock(&v->lock);
}

void kt__view_release(kt__views *v, kt__view *view) {
    if (!view) return;
    pthread_mutex_lock(&v->lock);
    view->n_held--;
    pthread_mutex_unlock(&v->lock);
}

void kt__view_complete(kt__views *v, kt__view *view) {
    size_t bytes = kt__tiling_bytes(&view->tiling);
    pthread_mutex_lock(&v->lock);
    uint8_t *tiles = view->tiles;
    view->tiles = NULL;
    view->bytes -= bytes;
    v->bytes -= bytes;
    pthread_mutex_unlock(&v->lock);
    kt__free(tiles);
}

/* A mix of 64 bits (Steele et al. 2014, SplitMix) */
int32_t kt__view_token(const kt__view *view, int32_t index) {
    uint64_t x = view->digest.w[index & 3] + 0x9e3779b97f4a7c15u * ((uint64_t)index + 1);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return -2 - (int32_t)((x ^ x >> 31) & 0x3fffffff);
}
