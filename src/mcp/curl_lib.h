/* libcurl, found when it is first needed.
 *
 * Owns: the library's handle and the functions that are called. Loading it takes milliseconds and some
 * thirty further libraries, so only a host of HTTP servers does. One thread opens it; the table is
 * constant then. */
#ifndef KT_MCP_CURL_LIB_H
#define KT_MCP_CURL_LIB_H

#define CURL_DISABLE_TYPECHECK /* calls go through pointers */
#include <curl/curl.h>
#include <kentang.h>

/* under their names less "curl_" */
#define KT__MCP_CURL_FUNCTIONS(X) \
    X(global_init)                \
    X(easy_init)                  \
    X(easy_cleanup)               \
    X(easy_setopt)                \
    X(easy_perform)               \
    X(easy_getinfo)               \
    X(easy_strerror)              \
    X(slist_append)               \
    X(slist_free_all)             \
    X(url)                        \
    X(url_cleanup)                \
    X(url_set)                    \
    X(url_get)                    \
    X(free)

#undef curl_easy_setopt
#undef curl_easy_getinfo

typedef struct kt__mcp_curl {
#define X(name) __typeof__(&curl_##name) name;
    KT__MCP_CURL_FUNCTIONS(X)
#undef X
} kt__mcp_curl;

/* It stays loaded: its threads and exit handlers may outlive its use. KT_E_UNSUPPORTED: there is none. */
kt_status KT_CHECKED kt__mcp_curl_open(kt__mcp_curl *out, kt_error *err);

#endif
