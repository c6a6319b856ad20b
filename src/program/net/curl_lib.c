#include "net/curl_lib.h"

#include <string.h>

#include "base/error.h"
#include "base/system.h"

/* POSIX lets dlsym's object pointer be a function; ISO C has no cast for it. */
static bool find_curl_symbol(void *lib, const char *name, void *function) {
    void *symbol = kt__library_find(lib, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

kt_status kt__curl_open(const char *purpose, kt__curl *out, kt_error *err) {
    bool whole = true;
    memset(out, 0, sizeof *out);
    void *lib = kt__library_open("libcurl.so.4");
    if (!lib) lib = kt__library_open("libcurl-gnutls.so.4");
    if (!lib && kt__process_is_static())
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "%s needs libcurl, and this is the static binary, which loads no library: "
                        "get the file with another program and give its name with -m, or use "
                        "kentang as a Debian package or built from source",
                        purpose);
    if (!lib)
        return kt__fail(err, KT_E_UNSUPPORTED,
                        "%s needs libcurl, which is not installed; on Debian: apt-get install "
                        "libcurl4",
                        purpose);
#define X(name) whole &= find_curl_symbol(lib, "curl_" #name, &out->name);
    KT__CURL_FUNCTIONS(X)
#undef X
    if (whole && out->global_init(CURL_GLOBAL_ALL) == 0) return KT_OK;
    memset(out, 0, sizeof *out);
    return kt__fail(err, KT_E_UNSUPPORTED, "this libcurl is too old: version 7.62 is needed");
}
