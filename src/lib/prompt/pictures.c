#include "prompt/pictures.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

/* ---- opening ---- */

static kt_status check_request(const kt__views *views, const kt_request_params *r, kt_error *err) {
    if (!views)
        return kt__fail_at(err, KT_E_UNSUPPORTED, "pictures", UINT64_MAX,
                           "this model was opened without an encoder of pictures: give the mmproj "
                           "file that belongs to it");
    if (!r->prompt.chat_json)
        return kt__fail_at(err, KT_E_ARG, "pictures", UINT64_MAX,
                           "pictures are of a conversation in JSON, whose parts of the type "
                           "\"image\" say where they are");
    if (r->seq || r->logprobs.prompt || r->embedding.pooling != KT_POOLING_NONE)
        return kt__fail_at(err, KT_E_UNSUPPORTED, "pictures", UINT64_MAX,
                           "pictures do not go with a sequence, an embedding, or the prompt's "
                           "log-probabilities");
    return KT_OK;
}

static kt_status fail_picture(size_t i, kt_status status, kt_error *err) {
    if (!err) return status;
    char message[sizeof err->message];
    int64_t retry_ms = err->retry_ms;
    snprintf(message, sizeof message, "%s", err->message);
    char place[32];
    snprintf(place, sizeof place, "pictures[%zu]", i);
    (void)kt__fail_at(err, status, place, UINT64_MAX, "picture %zu: %s", i + 1, message);
    err->retry_ms = retry_ms;
    return status;
}

kt_status kt__pictures_open(kt__pictures *p, kt__views *views, const kt_request_params *r,
                            kt_error *err) {
    *p = (kt__pictures){0};
    if (!r->prompt.n_pictures) return KT_OK;
    KT__STEP(check_request(views, r, err));
    p->views = views;
    p->held = kt__calloc(r->prompt.n_pictures, sizeof *p->held);
    if (!p->held) return kt__fail_nomem(err, "pictures", r->prompt.n_pictures * sizeof *p->held);
    for (size_t i = 0; i < r->prompt.n_pictures; i++) {
        const kt_picture *picture = &r->prompt.pictures[i];
        kt_status status = kt__views_open(views, picture->data, picture->len, &p->held[i], err);
        if (status != KT_OK) return fail_picture(i, status, err);
        p->n_held++;
    }
    return KT_OK;
}

void kt__pictures_free(kt__pictures *p) {
    for (size_t i = 0; i < p->n_held; i++) kt__view_release(p->views, p->held[i]);
    kt__free(p->held);
    kt__free(p->list);
    kt__free(p->spans);
    kt__free(p->grids);
    *p = (kt__pictures){0};
}

/* ---- texts ---- */

static const kt__vision *vision_of(const kt__pictures *p) {
    return p->held[0]->vision;
}

/* Where the segment's next marker begins, from `from` on; its end: none. */
static size_t find_marker(const kt__chat_out *rendered, const kt__chat_seg *seg, size_t from,
                          const char *marker) {
    const char *text = rendered->text + seg->offset;
    if (!seg->from_template) return seg->len;
    const char *at = memmem(text + from, seg->len - from, marker, strlen(marker));
    return at ? (size_t)(at - text) : seg->len;
}

/* Parts between markers, and for each marker a picture's text, whose place is in texts. */
typedef struct part_list {
    kt__tok_segment *parts;
    size_t n;
    size_t *text_at; /* of parts that are a picture's text: its end in texts, else 0 */
} part_list;

static size_t count_markers(const kt__chat_out *rendered, const char *marker) {
    size_t n = 0;
    for (size_t i = 0; i < rendered->n_segs; i++) {
        const kt__chat_seg *seg = &rendered->segs[i];
        size_t at = find_marker(rendered, seg, 0, marker);
        for (; at < seg->len; at = find_marker(rendered, seg, at + strlen(marker), marker)) n++;
    }
    return n;
}

static void add_part(part_list *l, const kt__chat_out *rendered, const kt__chat_seg *seg,
                     size_t from, size_t to) {
    if (from == to) return;
    l->parts[l->n++] = (kt__tok_segment){rendered->text + seg->offset + from, to - from,
                                         seg->from_template};
}

static void add_parts(const kt__pictures *p, const kt__chat_out *rendered, kt__buf *texts,
                      part_list *l) {
    const char *marker = vision_of(p)->family->marker;
    size_t picture = 0;
    for (size_t i = 0; i < rendered->n_segs; i++) {
        const kt__chat_seg *seg = &rendered->segs[i];
        size_t from = 0, at = find_marker(rendered, seg, 0, marker);
        for (; at < seg->len; at = find_marker(rendered, seg, from, marker)) {
            add_part(l, rendered, seg, from, at);
            kt__vision_write(vision_of(p), &p->held[picture++]->tiling, texts);
            l->text_at[l->n] = texts->len;
            l->parts[l->n++].from_template = true;
            from = at + strlen(marker);
        }
        add_part(l, rendered, seg, from, seg->len);
    }
}

kt_status kt__pictures_write(const kt__pictures *p, const kt__chat_out *rendered, kt__buf *texts,
                             kt__tok_segment **segments, size_t *n_segments, kt_error *err) {
    size_t n = count_markers(rendered, vision_of(p)->family->marker), before = 0;
    *segments = NULL;
    if (n != p->n_held)
        return kt__fail(err, KT_E_TEMPLATE,
                        "the chat template wrote %zu marks of pictures (%s), and there are %zu "
                        "pictures: it has no place for them, or the messages have not",
                        n, vision_of(p)->family->marker, p->n_held);
    part_list l = {0};
    l.parts = kt__calloc(rendered->n_segs + 2 * n + 1, sizeof *l.parts);
    l.text_at = kt__calloc(rendered->n_segs + 2 * n + 1, sizeof *l.text_at);
    if (l.parts && l.text_at) add_parts(p, rendered, texts, &l);
    for (size_t i = 0; i < l.n; i++) { /* now that texts stays where it is */
        if (!l.text_at[i]) continue;
        l.parts[i].s = texts->data + before;
        l.parts[i].len = l.text_at[i] - before;
        before = l.text_at[i];
    }
    bool failed = !l.parts || !l.text_at || texts->failed;
    kt__free(l.text_at);
    if (failed) {
        kt__free(l.parts);
        return kt__fail_nomem(err, "a prompt with pictures", texts->len);
    }
    *segments = l.parts;
    *n_segments = l.n;
    return KT_OK;
}

/* ---- tokens ---- */

static size_t count_tokens(const int32_t *ids, size_t n, int32_t token) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++) found += ids[i] == token;
    return found;
}

static size_t count_tiles(const kt__pictures *p, size_t *n_rows) {
    size_t n = 0;
    *n_rows = 0;
    for (size_t i = 0; i < p->n_held; i++) {
        n += (size_t)p->held[i]->tiling.n_tile;
        *n_rows += (size_t)p->held[i]->n_rows;
    }
    return n;
}

static kt_status fail_too_long(size_t n, size_t most, kt_error *err) {
    (void)kt__fail(err, KT_E_CONTEXT_FULL,
                   "a prompt of %zu tokens, with its pictures, is too large: it exceeds the "
                   "available context size of %zu tokens; shorten it, or raise the context",
                   n, most);
    return kt__error_set_context(err, n, most);
}

/* Tiles are in the order of their tokens. */
static size_t put_tokens(kt__pictures *p, const int32_t *ids, size_t n, int32_t token,
                         int32_t *out) {
    bool keeps = vision_of(p)->family->has & KT__EYE_KEEPS_TOKEN;
    size_t to = 0, picture = 0;
    int tile = 0;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] != token || keeps) out[to++] = ids[i];
        if (ids[i] != token) continue;
        kt__view *view = p->held[picture];
        kt__sight *s = &p->list[p->n++];
        *s = (kt__sight){view, (int32_t)to, view->tiling.n_rows, tile * view->tiling.n_rows};
        for (int32_t k = 0; k < s->n; k++) out[to++] = kt__view_token(view, s->row0 + k);
        if (++tile < view->tiling.n_tile) continue;
        tile = 0;
        picture++;
    }
    return to;
}

static kt_status make_lists(kt__pictures *p, size_t n, kt_error *err) {
    kt__free(p->list);
    kt__free(p->spans);
    kt__free(p->grids);
    p->spans = NULL;
    p->grids = NULL;
    p->n = 0;
    unsigned has = vision_of(p)->family->has;
    p->list = kt__calloc(n + 1, sizeof *p->list);
    if (has & KT__EYE_BOTH_WAYS) p->spans = kt__calloc(n + 1, sizeof *p->spans);
    if (has & KT__EYE_ANY_SIZE) p->grids = kt__calloc(n + 1, sizeof *p->grids);
    if (p->list && (p->spans || !(has & KT__EYE_BOTH_WAYS)) &&
        (p->grids || !(has & KT__EYE_ANY_SIZE)))
        return KT_OK;
    return kt__fail_nomem(err, "a prompt's pictures", n * sizeof *p->list);
}

/* A picture takes as many of the text model's positions as its longer side has rows. */
static void put_grids(kt__pictures *p) {
    int64_t before = 0; /* positions that are fewer than tokens, so far */
    for (size_t i = 0; i < p->n; i++) {
        const kt__sight *s = &p->list[i];
        int n_x = s->view->tiling.rows_x, n_y = s->n / n_x;
        int64_t at = s->at - before, longer = n_x > n_y ? n_x : n_y;
        p->grids[i] = (kt__grid){s->at, s->at + s->n, at, at + longer, n_x};
        before += s->n - longer;
    }
}

kt_status kt__pictures_expand(kt__pictures *p, const kt__tokenizer *tok, const int32_t *ids,
                              size_t n, size_t most, int32_t **out, size_t *n_out, kt_error *err) {
    const kt__vision *v = vision_of(p);
    const char *marker = v->family->marker;
    int32_t token = kt__tokenizer_find(tok, marker, strlen(marker));
    size_t n_rows, tiles = count_tiles(p, &n_rows);
    size_t all = n + n_rows;
    *out = NULL;
    if (token < 0 || count_tokens(ids, n, token) != tiles)
        return kt__fail(err, KT_E_TEMPLATE,
                        "the vocabulary has no token %s for pictures, or the conversation itself "
                        "has it",
                        marker);
    if (!(v->family->has & KT__EYE_KEEPS_TOKEN)) all -= tiles;
    if (all > most) return fail_too_long(all, most, err);
    KT__STEP(make_lists(p, tiles, err));
    *out = kt__calloc(all + 1, sizeof **out);
    if (!*out) return kt__fail_nomem(err, "a prompt's tokens", all * sizeof **out);
    *n_out = put_tokens(p, ids, n, token, *out);
    for (size_t i = 0; p->spans && i < p->n; i++)
        p->spans[i] = (kt__span){p->list[i].at, p->list[i].at + p->list[i].n};
    if (p->grids) put_grids(p);
    if (*n_out && (*out)[*n_out - 1] >= 0) return KT_OK;
    kt__free(*out);
    *out = NULL;
    return kt__fail(err, KT_E_TEMPLATE, "a prompt that ends with a picture: nothing asks about it");
}

const kt__sight *kt__pictures_from(const kt__pictures *p, int32_t pos) {
    for (size_t i = 0; p && i < p->n; i++)
        if (p->list[i].at + p->list[i].n > pos) return &p->list[i];
    return NULL;
}
