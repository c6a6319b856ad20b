#include "tutor/asked.h"

#include "base/error.h"
#include "requests/inbox.h"

enum { RETRY_MS = 200 };

kt_status kt__asked_write(kt_engine *engine, const kt__lesson_own *own, const int32_t *ids,
                          size_t n, float temperature, uint64_t seed, int32_t *out, size_t cap,
                          size_t *n_out, bool *ended, kt_error *err) {
    kt_request_params request = kt_request_params_default();
    kt_request *r = NULL;
    kt_event event;
    kt_status status = KT_E_BUSY;
    *n_out = 0;
    *ended = false;
    request.ids = ids;
    request.n_ids = n;
    request.priority = own->priority;
    request.gen = kt_gen_params_default();
    request.gen.sampling.temperature = temperature;
    request.gen.sampling.seed = seed;
    request.gen.n_predict = (int32_t)cap;
    while (status == KT_E_BUSY) {
        if (own->go_on && !own->go_on(own->go_on_user))
            return kt__fail(err, KT_E_CANCELLED, "the training was cancelled");
        status = kt_engine_submit(engine, &request, &r, err);
        if (status == KT_E_BUSY) kt__inbox_wait_for_room(engine->inbox, RETRY_MS);
    }
    if (status != KT_OK) return status;
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
