#include "tutor/patience.h"

#include "base/error.h"
#include "requests/inbox.h"

enum { RETRY_MS = 200 };

kt_status kt__patience_check(const kt__tutor_patience *p, kt_error *err) {
    if (!p || !p->go_on || p->go_on(p->user)) return KT_OK;
    return kt__fail(err, KT_E_CANCELLED, "the training was cancelled");
}

bool kt__patience_again(kt_engine *engine, kt_status status) {
    if (status != KT_E_BUSY) return false;
    kt__inbox_wait_for_room(engine->inbox, RETRY_MS);
    return true;
}

kt_status kt__patience_submit(kt_engine *engine, const kt_request_params *request,
                              const kt__tutor_patience *patience, kt_request **out, kt_error *err) {
    kt_status status;
    do {
        KT__STEP(kt__patience_check(patience, err));
        status = kt_engine_submit(engine, request, out, err);
    } while (kt__patience_again(engine, status));
    return status;
}
