#include "convert/notes.h"

#include <stdarg.h>
#include <stdio.h>

void kt__convert_note(const kt__convert_notes *notes, const char *fmt, ...) {
    char line[512];
    va_list args;
    if (!notes || !notes->fn) return;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    notes->fn(notes->user, line);
}
