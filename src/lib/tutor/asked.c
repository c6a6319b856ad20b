#include "tutor/asked.h"

#include "base/error.h"

static kt_status submit_prompt(kt_engine *engine, const kt__lesson_own *own, const int32_t *ids,
                               size_t n, float temperature, uint64_t seed, size_t cap,
                               kt_request **out, kt_error *err) {
    kt_request_params request = kt_request_params_default();
    request.ids = ids;
    request.n_ids = n;
    request.priority = own->priority;
    request.gen = kt_gen_params_default();
    request.gen.sampling.temperature = temperature;
    request.gen.sampling.seed = seed;
    request.gen.n_predict = (int32_t)cap;
    return kt__patience_submit(engine, &request, &own->patience, out, err);
}

static kt_status read_answer(kt_engine *engine, kt_request *r, int32_t *out, size_t cap,
                             size_t *n_out, bool *ended, kt_error *err) {
    kt_event event;
    kt_status status = KT_OK;
    *n_out = 0;
    *ended = false;
    while (kt_request_next_event(r, &event, -1)) {
        if (event.kind == KT_EVENT_TOKEN && event.id >= 0 && *n_out < cap &&
            !kt_token_is_eog(engine->model, event.id))
            out[(*n_out)++] = event.id;
        if (event.kind != KT_EVENT_FINISHED) continue;
        *ended = event.finish == KT_FINISH_EOG;
        if (event.error && err) *err = *event.error;
        if (event.error) status = event.error->code;
    }
    return status;
}

kt_status kt__asked_write(kt_engine *engine, const kt__lesson_own *own, const int32_t *ids,
                          size_t n, float temperature, uint64_t seed, int32_t *out, size_t cap,
                          size_t *n_out, bool *ended, kt_error *err) {
    kt_request *r = NULL;
    KT__STEP(submit_prompt(engine, own, ids, n, temperature, seed, cap, &r, err));
    kt_status status = read_answer(engine, r, out, cap, n_out, ended, err);
    kt_request_close(r);
    return status;
}

kt_status kt__asked_drawn(kt_engine *engine, const kt__lesson_own *own, kt__ask *asks, size_t n,
                          float temperature, uint64_t seed, size_t cap, kt_error *err) {
    kt_request *requests[KT__ASKS_AT_ONCE] = {NULL};
    int32_t end = kt__lesson_end_token(engine->model);
    kt_status status = KT_OK;
    for (size_t i = 0; status == KT_OK && i < n; i++)
        status = submit_prompt(engine, own, asks[i].ids, asks[i].n, temperature, seed + i, cap,
                               &requests[i], err);
    for (size_t i = 0; i < n; i++) {
        kt__ask *a = &asks[i];
        bool ended = false;
        if (status == KT_OK)
            status = read_answer(engine, requests[i], a->answer, cap, &a->n_answer, &ended, err);
        if (!ended || end < 0) a->n_answer = 0;
        if (a->n_answer) a->answer[a->n_answer++] = end;
        if (requests[i]) kt_request_close(requests[i]);
    }
    return status;
}

kt_status kt__asked_all(kt_engine *engine, const kt__lesson_own *own, kt__ask *asks, size_t n,
                        kt_error *err) {
    return kt__asked_drawn(engine, own, asks, n, 0.0f, 1, KT__ANSWER_MAX, err);
}

kt_status kt__asked_add(kt__lesson *lesson, kt_engine *engine, const kt__lesson_own *own,
                        const int32_t *prompt, size_t n, kt__sample_use use, kt_error *err) {
    int32_t answer[KT__ANSWER_MAX + 1], end = kt__lesson_end_token(engine->model);
    size_t n_answer;
    bool ended;
    KT__STEP(kt__asked_write(engine, own, prompt, n, 0.0f, 1, answer, KT__ANSWER_MAX, &n_answer,
                             &ended, err));
    if (n_answer == 0) return KT_OK;
    if (ended && end >= 0) answer[n_answer++] = end;
    const kt__sample like = {
        .kind = KT__SAMPLE_NEIGHBOUR, .weight = 1.0f, .group = lesson->next_group++, .use = use};
    return kt__lesson_add_tokens(lesson, prompt, n, answer, n_answer, &like, err);
}
