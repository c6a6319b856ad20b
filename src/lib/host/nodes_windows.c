/* Windows spreads no memory over nodes of itself, and machines with several are left to it. */
#include "host/affinity.h"

int kt__nodes_of_at(const char *root, const cpu_set_t *cpus, cpu_set_t *out) {
    (void)root;
    (void)cpus;
    CPU_ZERO(out);
    CPU_SET(0, out);
    return 1;
}

bool kt__nodes_several(void) {
    return false;
}

void kt__nodes_spread(void *p, size_t bytes, const kt__affinity *affinity) {
    (void)p;
    (void)bytes;
    (void)affinity;
}
