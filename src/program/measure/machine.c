#include "measure/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "host/textfile.h"
#include "kt_revision.h" /* written by cmake/revision.cmake: KT_REVISION */

/* The word in brackets: "always [madvise] never". */
void kt__machine_thp(char *out, size_t size) {
    char line[64];
    out[0] = '\0';
    if (!kt__text_line("", "/sys/kernel/mm/transparent_hugepage", "enabled", line, sizeof line))
        return;
    const char *open = strchr(line, '[');
    if (open) snprintf(out, size, "%.*s", (int)strcspn(open + 1, "]"), open + 1);
}

void kt__machine_system(char *out, size_t size) {
    struct utsname name;
    out[0] = '\0';
    if (uname(&name) == 0)
        snprintf(out, size, "%s %s %s", name.sysname, name.release, name.machine);
}

const char *kt__machine_revision(void) {
    return KT_REVISION;
}
