/* libcurl, found when it is first needed.
 *
 * Owns: the library's handle and the functions that are called. Loading it takes milliseconds and some
 * thirty further libraries, so only what reaches for a hub or for servers with a URL does. One thread
 * opens it; the table is constant then, and every thread may use it. */
#ifndef KT_NET_CURL_LIB_H
#define KT_NET_CURL_LIB_H

#define CURL_DISABLE_TYPECHECK /* calls go through pointers */
#include <curl/curl.h>
#include <kentang.h>

/* under their names less "curl_" */
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
#define X(name) __typeof__(&curl_##name) name;
    KT__CURL_FUNCTIONS(X)
#undef X
} kt__curl;

/* purpose: what needs it, the beginning of the message where there is none: KT_E_UNSUPPORTED with the
 * package's name. It stays loaded: its threads and exit handlers may outlive its use. */
kt_status KT_CHECKED kt__curl_open(const char *purpose, kt__curl *out, kt_error *err);

#endif
