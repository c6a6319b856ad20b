#include "store/curl_lib.h"

#include <dlfcn.h>
#include <string.h>

#include "base/error.h"

/* POSIX lets dlsym's object pointer be a function; ISO C has no cast for it. */
static bool curl_find(void *lib, const char *name, void *fn) {
    void *symbol = dlsym(lib, name);
    memcpy(fn, &symbol, sizeof symbol);
    return symbol != NULL;
}

kt_status kt__curl_open(kt__curl *out, kt_error *err) {
    bool whole = true;
    memset(out, 0, sizeof *out);
    out->lib = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!out->lib) out->lib = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!out->lib)
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "getting a model from a hub needs libcurl, which is not installed; on "
                        "Debian: apt-get install libcurl4");
#define X(name) whole = curl_find(out->lib, "curl_" #name, &out->name) && whole;
    KT__CURL_FUNCTIONS(X)
#undef X
    if (whole && out->global_init(CURL_GLOBAL_ALL) == 0) return KT_OK;
    kt__curl_close(out);
    return kt__fail(err, KT_E_UNSUPPORTED, "this libcurl is too old: version 7.62 is needed");
}

/* The library stays loaded: its own threads and exit handlers may outlive our use. */
void kt__curl_close(kt__curl *curl) {
    memset(curl, 0, sizeof *curl);
}
