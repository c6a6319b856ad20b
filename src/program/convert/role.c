#include "convert/role.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name; /* after "blk.N.", or whole outside the layers */
    kt__tensor_role role;
    bool in_layer;
} roles[] = {
#define X(name, role, features, pooling) {name, KT__TENSOR_##role, false},
#include "model/globals.def"
#undef X
#define X(slot, name, rows, cols, role, only, unless, needs, mixer) {name, KT__TENSOR_##role, true},
#include "model/weights.def"
#undef X
};

kt__tensor_role kt__tensor_role_of(const char *name, int *layer) {
    int n = 0;
    *layer = 0;
    bool in_layer = sscanf(name, "blk.%9d.%n", layer, &n) == 1 && n > 0;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (roles[i].in_layer == in_layer && strcmp(roles[i].name, name + n) == 0)
            return roles[i].role;
    return KT__TENSOR_VECTOR;
}
