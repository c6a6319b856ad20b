#include "services/access.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* The name of "name:port" and "[v6]:port"; false: neither. */
static bool split_host(const char *text, const char **name, size_t *len) {
    size_t n = strlen(text);
    *name = text;
    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        if (!end) return false;
        *name = text + 1;
        *len = (size_t)(end - text) - 1;
        text = end + 1;
    } else {
        *len = strcspn(text, ":");
        text += *len;
    }
    if (!*len || n > 255) return false;
    if (!*text) return true;
    return *text == ':' && text[1] && strspn(text + 1, "0123456789") == strlen(text + 1);
}

static bool is_same_name(const char *a, const char *name, size_t len) {
    return strlen(a) == len && !strncasecmp(a, name, len);
}

/* "127.1.2.3", "::1" */
static bool is_loopback_name(const char *name, size_t len) {
    char text[INET6_ADDRSTRLEN];
    struct in_addr four;
    struct in6_addr six;
    if (len >= sizeof text) return false;
    memcpy(text, name, len);
    text[len] = '\0';
    if (inet_pton(AF_INET, text, &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, text, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool kt__access_host(const kt__config *config, const char *address, const char *host) {
    const char *name;
    size_t len;
    for (size_t i = 0; i < config->hosts.n; i++) {
        if (!strcmp(config->hosts.items[i], "*")) return true;
    }
    if (!host || !split_host(host, &name, &len)) return false;
    if (is_same_name("localhost", name, len) || is_loopback_name(name, len)) return true;
    if (address && is_same_name(address, name, len)) return true;
    for (size_t i = 0; i < config->hosts.n; i++) {
        if (is_same_name(config->hosts.items[i], name, len)) return true;
    }
    return false;
}

bool kt__access_origin(const kt__config *config, const char *address, const char *origin) {
    const char *host = strstr(origin, "://");
    return host && kt__access_host(config, address, host + 3);
}

const char *kt__access_cors(const kt__config *config, const char *origin) {
    for (size_t i = 0; i < config->cors.n; i++) {
        if (!strcasecmp(config->cors.items[i], origin)) return config->cors.items[i];
    }
    return NULL;
}

static bool is_type(const char *type, const char *name) {
    size_t len = strlen(name);
    if (!type || strncasecmp(type, name, len) != 0) return false;
    type += len;
    while (*type == ' ' || *type == '\t') type++;
    return !*type || *type == ';';
}

bool kt__access_is_json(const char *type) {
    return is_type(type, "application/json");
}

bool kt__access_is_untold(const char *type) {
    return !type || is_type(type, "application/x-www-form-urlencoded");
}

const char *kt__access_key(const kt__keys *keys, const char *authorization, const char *api_key) {
    if (authorization && !strncasecmp(authorization, "Bearer ", 7)) {
        const char *key = authorization + 7;
        while (*key == ' ') key++;
        return kt__keys_find(keys, key, strlen(key));
    }
    return api_key ? kt__keys_find(keys, api_key, strlen(api_key)) : NULL;
}
