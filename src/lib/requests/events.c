#include "requests/request.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "requests/inbox.h"

enum { USUAL_EVENT_TEXT = 64 };

/* Room for what one step may bring beyond the mark at which answers pause. */
kt_status kt__events_init(kt__submitted *sub, kt_error *err) {
    if (sub->on_event) return KT_OK;
    int per_step = sub->req.engine->params.n_draft + 4;
    sub->ring_cap = KT__HELD_EVENTS + sub->n_choices * per_step;
    sub->ring = kt__calloc((size_t)sub->ring_cap, sizeof *sub->ring);
    if (!sub->ring) return kt__fail_nomem(err, "a request's events", 0);
    for (int i = 0; i < sub->ring_cap; i++) {
        kt__stored *slot = &sub->ring[i];
        kt__buf_init(&slot->text, SIZE_MAX / 2);
        kt__buf_init(&slot->part_text, SIZE_MAX / 2);
        if (!kt__buf_reserve(&slot->text, USUAL_EVENT_TEXT))
            return kt__fail_nomem(err, "a request's events", USUAL_EVENT_TEXT);
        if (sub->n_logprobs <= 0) continue;
        slot->top = kt__calloc((size_t)sub->n_logprobs, sizeof *slot->top);
        if (!slot->top) return kt__fail_nomem(err, "a request's events", 0);
    }
    return KT_OK;
}

/* ---- by the driver ---- */

static void set_held(kt__submitted *sub, bool held) {
    for (int i = 0; i < sub->n_choices; i++)
        atomic_store_explicit(&sub->choices[i].work.task.held, held, memory_order_relaxed);
}

static bool store_parts(kt__stored *slot, const kt_event *event) {
    if (!kt__vec_reserve(slot->parts, slot->cap_parts, event->n_parts)) return false;
    slot->event.parts = slot->parts;
    return kt__parts_copy(slot->parts, event->parts, event->n_parts, &slot->part_text);
}

/* The lock is held. An event whose text finds no memory would be a lie: the answer ends. */
static void store_event(kt__choice *choice, const kt_event *event) {
    kt__submitted *sub = choice->sub;
    assert(sub->ring_n < sub->ring_cap);
    kt__stored *slot = &sub->ring[(sub->ring_at + sub->ring_n) % sub->ring_cap];
    kt_logprob *top = slot->top;
    slot->event = *event;
    kt__buf_clear(&slot->text);
    slot->text.failed = false;
    if (event->len && !kt__buf_append(&slot->text, event->text, event->len)) {
        (void)kt__fail_nomem(&choice->work.error, "an answer's text", event->len);
        choice->work.task.finish = KT_FINISH_ERROR;
        slot->event.len = 0;
    }
    slot->event.text = slot->text.data;
    if (event->n_parts && !store_parts(slot, event)) {
        (void)kt__fail_nomem(&choice->work.error, "an answer's parts", event->n_parts);
        choice->work.task.finish = KT_FINISH_ERROR;
        slot->event.n_parts = 0;
    }
    if (event->n_top) memcpy(top, event->top, event->n_top * sizeof *top);
    slot->event.top = top;
    sub->ring_n++;
    if (sub->ring_n >= KT__HELD_EVENTS) set_held(sub, true);
    pthread_cond_broadcast(&sub->changed);
    if (sub->on_ready) sub->on_ready(sub->user); /* the lock keeps the request from closing */
}

/* The lock is held; it is free while the callback runs, which may close the request. */
static void call_back(kt__submitted *sub, const kt_event *event) {
    sub->calling = true;
    sub->caller = pthread_self();
    pthread_mutex_unlock(&sub->lock);
    sub->on_event(sub->user, event);
    pthread_mutex_lock(&sub->lock);
    sub->calling = false;
    pthread_cond_broadcast(&sub->changed);
}

void kt__events_emit(kt__choice *choice, kt_event *event) {
    kt__submitted *sub = choice->sub;
    event->req = &sub->req;
    event->user = sub->user;
    event->choice = choice->index;
    event->t_us = kt__now_us();
    if (event->kind == KT_EVENT_FINISHED)
        kt__inbox_note_finished(sub->req.engine->inbox, event->finish);
    pthread_mutex_lock(&sub->lock);
    if (event->kind == KT_EVENT_FINISHED) {
        event->last = --sub->n_open == 0;
        choice->ended = true;
    }
    bool full = event->kind == KT_EVENT_PROGRESS && sub->ring_n >= KT__HELD_EVENTS;
    if (!sub->detached && !sub->on_event && !full) store_event(choice, event);
    if (!sub->detached && sub->on_event) call_back(sub, event);
    pthread_mutex_unlock(&sub->lock);
}

void kt__events_emit_text(kt__choice *choice, int32_t id, const kt_logprob *logprobs,
                          int n_logprobs) {
    kt_event event = {.kind = KT_EVENT_TOKEN, .id = id};
    kt_error err;
    if (kt__answer_text(&choice->answer, &event, &err) != KT_OK) {
        choice->work.error = err;
        choice->work.task.finish = KT_FINISH_ERROR;
    }
    if (logprobs) {
        event.logprob = logprobs[0].logprob;
        event.top = logprobs + 1;
        event.n_top = (size_t)n_logprobs;
    }
    kt__events_emit(choice, &event);
}

/* ---- by other threads ---- */

/* The lock is held. Returns whether the answer, which had paused, continues. */
static bool drop_read(kt__submitted *sub) {
    if (!sub->ring_busy) return false;
    sub->ring_busy = false;
    sub->ring_at = (sub->ring_at + 1) % sub->ring_cap;
    sub->ring_n--;
    if (sub->ring_n != KT__HELD_EVENTS / 2) return false;
    set_held(sub, false);
    return true;
}

void kt__events_drop_read(kt__submitted *sub) {
    pthread_mutex_lock(&sub->lock);
    bool goes_on = drop_read(sub);
    pthread_mutex_unlock(&sub->lock);
    if (goes_on) kt__inbox_wake(sub->req.engine->inbox);
}

bool kt__events_read(kt__submitted *sub, kt_event *out, int64_t timeout_ms) {
    struct timespec until = timeout_ms > 0 ? kt__time_in_ms(timeout_ms) : (struct timespec){0};
    pthread_mutex_lock(&sub->lock);
    while (sub->ring_n == 0 && sub->n_open > 0 && timeout_ms != 0) {
        if (timeout_ms < 0) {
            pthread_cond_wait(&sub->changed, &sub->lock);
        } else if (pthread_cond_timedwait(&sub->changed, &sub->lock, &until) != 0) {
            break;
        }
    }
    bool found = sub->ring_n > 0;
    if (found) *out = sub->ring[sub->ring_at].event;
    sub->ring_busy = found;
    pthread_mutex_unlock(&sub->lock);
    return found;
}

/* The event that follows the giving back wakes it. */
bool kt__events_wait_for_seq(kt__submitted *sub, int64_t timeout_ms) {
    const struct timespec until = kt__time_in_ms(timeout_ms);
    int rc = 0;
    pthread_mutex_lock(&sub->lock);
    while (atomic_load(&sub->has_seq) && rc == 0)
        rc = pthread_cond_timedwait(&sub->changed, &sub->lock, &until);
    pthread_mutex_unlock(&sub->lock);
    return !atomic_load(&sub->has_seq);
}

bool kt__events_are_over(kt__submitted *sub) {
    pthread_mutex_lock(&sub->lock);
    bool over = sub->ring_n == 0 && sub->n_open == 0;
    pthread_mutex_unlock(&sub->lock);
    return over;
}

bool kt__events_detach(kt__submitted *sub) {
    pthread_mutex_lock(&sub->lock);
    while (sub->calling && !pthread_equal(sub->caller, pthread_self()))
        pthread_cond_wait(&sub->changed, &sub->lock);
    sub->detached = true;
    bool done = sub->done;
    pthread_mutex_unlock(&sub->lock);
    return done;
}
