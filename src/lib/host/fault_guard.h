/* The fault guard's table of mapped files.
 *
 * Owns: a fixed, lock-free table of address ranges and the SIGBUS handler of kt_install_fault_guard
 * (kentang.h): a fault inside a registered range gets zero pages from there to the range's end and
 * the range is marked; any other fault goes to the handler that was there before. This table and
 * that handler are the library's only process-wide state; without the handler the table has no
 * effect. Any thread; the handler calls async-signal-safe functions only. */
#ifndef KT_HOST_FAULT_GUARD_H
#define KT_HOST_FAULT_GUARD_H

#include <stdbool.h>
#include <stddef.h>

/* The slot of [data, data + size), or -1 when the table is full: the range is then not guarded. */
int kt__fault_guard_add(const void *data, size_t size);
void kt__fault_guard_remove(int slot); /* -1 allowed; before the range is unmapped */
bool kt__fault_guard_hit(int slot);    /* some page of the range was replaced */

#endif
