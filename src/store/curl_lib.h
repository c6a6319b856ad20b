/* libcurl, found when it is first needed.
 *
 * Owns: the library's handle and the functions we call. Loading takes milliseconds and some thirty
 * further libraries, so only commands that reach for a hub do it. Opened by one thread; the table is
 * then constant and every thread may use it. */
#ifndef KT_STORE_CURL_LIB_H
#define KT_STORE_CURL_LIB_H

#define CURL_DISABLE_TYPECHECK /* our calls go through pointers */
#include <curl/curl.h>
#include <kentang.h>

/* the functions that we call, each under its name less "curl_" */
#define KT__CURL_FUNCTIONS(X) \
    X(global_init)            \
    X(easy_init)              \
    X(easy_cleanup)           \
    X(easy_setopt)            \
    X(easy_perform)           \
    X(easy_getinfo)           \
    X(easy_strerror)          \
    X(slist_append)           \
    X(slist_free_all)         \
    X(url)                    \
    X(url_cleanup)            \
    X(url_set)                \
    X(url_get)                \
    X(free)

#undef curl_easy_setopt
#undef curl_easy_getinfo

typedef struct kt__curl {
    void *lib;
#define X(name) __typeof__(&curl_##name) name;
    KT__CURL_FUNCTIONS(X)
#undef X
} kt__curl;

/* KT_E_UNSUPPORTED with the package's name where there is none. Closed with kt__curl_close. */
kt_status kt__curl_open(kt__curl *out, kt_error *err) KT_CHECKED;
void kt__curl_close(kt__curl *curl); /* also of a zeroed one */

#endif
