#include "services/web.h"

#include <string.h>

#define X(symbol, name, path, type) \
    extern const unsigned char kt__web_##symbol[], kt__web_##symbol##_end[];
#include "services/web_files.def"
#undef X

static const kt__web_file web_files[] = {
#define IS_GZIP(path) \
    (sizeof path > 4 && path[sizeof path - 4] == '.' && path[sizeof path - 3] == 'g')
#define X(symbol, name, path, type) \
    {name, type, IS_GZIP(path), kt__web_##symbol, kt__web_##symbol##_end},
#include "services/web_files.def"
#undef X
};

const kt__web_file *kt__web_find(const char *name) {
    for (size_t i = 0; i < sizeof web_files / sizeof web_files[0]; i++) {
        if (!strcmp(web_files[i].name, name)) return &web_files[i];
    }
    return NULL;
}

const kt__web_file *kt__web_page(void) {
    return &web_files[0];
}
