#include "jinja/jinja_names.h"

#include <string.h>

static uint16_t find_name(const char *const *names, size_t n, const char *name, size_t len) {
    for (size_t i = 0; i < n; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0) return (uint16_t)i;
    }
    return UINT16_MAX;
}

uint16_t kt__j_find_filter(const char *name, size_t len) {
#define F(filter, function) #filter,
    static const char *const names[] = {
#include "jinja/jinja_filters.def"
    };
#undef F
    return find_name(names, KT__JF_COUNT, name, len);
}

uint16_t kt__j_find_test(const char *name, size_t len) {
#define T(test, text) text,
    static const char *const names[] = {
#include "jinja/jinja_tests.def"
    };
#undef T
    return find_name(names, KT__JTEST_COUNT, name, len);
}

uint16_t kt__j_find_global(const char *name, size_t len) {
#define G(global) #global,
    static const char *const names[] = {
#include "jinja/jinja_globals.def"
    };
#undef G
    return find_name(names, KT__JG_COUNT, name, len);
}
