/* On Windows libcurl is linked: there is no package of it to find. */
#include "net/curl_lib.h"

#include <string.h>

#include "base/error.h"

kt_status kt__curl_open(const char *purpose, kt__curl *out, kt_error *err) {
#define X(name) out->name = curl_##name;
    KT__CURL_FUNCTIONS(X)
#undef X
    if (out->global_init(CURL_GLOBAL_ALL) == 0) return KT_OK;
    memset(out, 0, sizeof *out);
    return kt__fail(err, KT_E_UNSUPPORTED, "%s needs Windows's TLS, which does not start", purpose);
}
