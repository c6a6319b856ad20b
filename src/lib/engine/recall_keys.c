/* kt_recall_keys: the hidden states of a text, as keys. */
#include <kentang.h>

#include "base/error.h"

kt_status kt_recall_keys(kt_engine *engine, const int32_t *ids, size_t n, size_t first,
                         const kt_adapter_use *adapters, size_t n_adapters, int8_t *keys,
                         kt_error *err) {
    kt_request_params request = kt_request_params_default();
    kt_request *req;
    kt_event event = {.kind = KT_EVENT_STARTED};
    kt__error_clear(err);
    if (first >= n) return kt__fail(err, KT_E_ARG, "no state is asked for");
    request.ids = ids;
    request.n_ids = n;
    request.pooling = KT_POOLING_MEAN;
    request.adapters = adapters;
    request.n_adapters = n_adapters;
    request.keys = keys;
    request.keys_first = first;
    kt_status status = kt_engine_submit(engine, &request, &req, err);
    if (status != KT_OK) return status;
    while (event.kind != KT_EVENT_FINISHED && kt_request_next_event(req, &event, -1)) {
    }
    if (event.finish == KT_FINISH_CANCELLED) {
        status = kt__fail(err, KT_E_CANCELLED, "cancelled");
    } else if (!event.embedding) {
        status = event.error ? event.error->code : KT_E_INTERNAL;
        if (err && event.error) *err = *event.error;
    }
    kt_request_close(req);
    return status;
}
