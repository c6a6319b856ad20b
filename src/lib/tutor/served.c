#include "tutor/served.h"

#include "base/error.h"
#include "tutor/adapter_scope.h"

/* Whether what is answered are the tokens right[n], and then an end. */
static kt_status follow_answer(const kt_model *model, kt_request *r, const int32_t *right, size_t n,
                               bool *same, kt_error *err) {
    kt_status status = KT_OK;
    kt_event event;
    size_t at = 0;
    *same = true;
    while (kt_request_next_event(r, &event, -1)) {
        bool token = event.kind == KT_EVENT_TOKEN && event.id >= 0;
        if (token && !kt_token_is_eog(model, event.id) && *same) {
            *same = at < n && event.id == right[at];
            at++;
            if (!*same) kt_request_cancel(r); /* it cannot become right any more */
        }
        if (event.kind == KT_EVENT_FINISHED && event.error) {
            status = event.error->code;
            if (err) *err = *event.error;
        }
    }
    *same = *same && at == n;
    return status;
}

static kt_status ask_one(kt_learner *l, const kt_learned *with, const kt__feedback_item *item,
                         const kt__tutor_patience *patience, bool *same, kt_error *err) {
    const kt_model *model = l->engine->model;
    const kt_adapter_use use = {kt__adapter_for_item(with->adapter, with->bank, item), 1.0f};
    kt_request_params r = kt_request_params_default();
    kt_request *request;
    size_t n = item->n_right;
    while (n > 0 && kt_token_is_eog(model, item->right[n - 1])) n--;
    r.ids = item->prompt;
    r.n_ids = item->n_prompt;
    r.recall = with->recall;
    r.adapters = &use;
    r.n_adapters = use.adapter ? 1 : 0;
    r.gen.sampling.temperature = 0;
    r.gen.n_predict = (int32_t)n + 1;
    r.priority = -1;
    r.no_cache = true;
    KT__STEP(kt__patience_submit(l->engine, &r, patience, &request, err));
    kt_status status = follow_answer(model, request, item->right, n, same, err);
    kt_request_close(request);
    return status;
}

kt_status kt__served_ask(kt_learner *l, const kt_learned *with, const uint64_t *ids, size_t n,
                         const kt__tutor_patience *patience, kt__served_count *out, kt_error *err) {
    kt_status status = KT_OK;
    kt__feedback_item item;
    kt__buf buf;
    bool same;
    *out = (kt__served_count){0};
    kt__buf_init(&buf, (size_t)64 << 20);
    for (size_t i = 0; i < n; i++) {
        KT__TRY(kt__feedback_get(l->store, ids[i], &item, &buf, err));
        if (item.kind == KT__FEEDBACK_SCORE || item.n_prompt == 0 || item.n_right == 0) continue;
        KT__TRY(ask_one(l, with, &item, patience, &same, err));
        out->n_asked++;
        out->n_right += same;
    }
out:
    kt__buf_free(&buf);
    return status;
}
