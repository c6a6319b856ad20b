#include "tutor/asked.h"

#include "base/error.h"

enum { MAX_ANSWER = 160 };

kt_status kt__asked_write(kt_engine *engine, const kt__lesson_own *own, const int32_t *ids,
                          size_t n, float temperature, uint64_t seed, int32_t *out, size_t cap,
                          size_t *n_out, bool *ended, kt_error *err) {
    kt_request_params request = kt_request_params_default();
    kt_request *r = NULL;
    kt_event event;
    kt_status status = KT_OK;
    *n_out = 0;
    *ended = false;
    request.ids = ids;
    request.n_ids = n;
    request.priority = own->priority;
    request.gen = kt_gen_params_default();
    request.gen.sampling.temperature = temperature;
    request.gen.sampling.seed = seed;
    request.gen.n_predict = (int32_t)cap;
    KT__STEP(kt__patience_submit(engine, &request, &own->patience, &r, err));
    while (kt_request_next_event(r, &event, -1)) {
        if (event.kind == KT_EVENT_TOKEN && event.id >= 0 && *n_out < cap &&
            !kt_token_is_eog(engine->model, event.id))
            out[(*n_out)++] = event.id;
        if (event.kind != KT_EVENT_FINISHED) continue;
        *ended = event.finish == KT_FINISH_EOG;
        if (event.error && err) *err = *event.error;
        if (event.error) status = event.error->code;
    }
    kt_request_close(r);
    return status;
}

kt_status kt__asked_add(kt__lesson *lesson, kt_engine *engine, const kt__lesson_own *own,
                        const int32_t *prompt, size_t n, kt__sample_use use, kt_error *err) {
    int32_t answer[MAX_ANSWER + 1], end = kt__lesson_end_token(engine->model);
    size_t n_answer;
    bool ended;
    KT__STEP(kt__asked_write(engine, own, prompt, n, 0.0f, 1, answer, MAX_ANSWER, &n_answer, &ended,
                             err));
    if (n_answer == 0) return KT_OK;
    if (ended && end >= 0) answer[n_answer++] = end;
    const kt__sample like = {
        .kind = KT__SAMPLE_NEIGHBOUR, .weight = 1.0f, .group = lesson->next_group++, .use = use};
    return kt__lesson_add_tokens(lesson, prompt, n, answer, n_answer, &like, err);
}
