/* Windows does not let a file become shorter while it is mapped, so there is nothing to guard. */
#include "host/filemap.h"

#include <kentang.h>

#include "base/error.h"

int kt__fault_guard_add(const void *data, size_t size) {
    (void)data;
    (void)size;
    return -1;
}

void kt__fault_guard_remove(int slot) {
    (void)slot;
}

bool kt__fault_guard_hit(int slot) {
    (void)slot;
    return false;
}

kt_status kt_install_fault_guard(kt_error *err) {
    kt__error_clear(err);
    return KT_OK;
}
