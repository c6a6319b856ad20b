/* Inside a container the path of /proc/self/cgroup and the mounted subtree may not match; what
 * cannot be found is left out (Linux: Documentation/admin-guide/cgroup-v1, cgroup-v2.rst; proc(5)
 * for mountinfo). */
#include "host/cgroup.h"

#include "host/textfile.h"

#include <string.h>

enum {
    LINE_BYTES = 8192, /* longer lines are cut: the fields used are at the front */
    NAME_BYTES = 1024,
    MAX_MOUNTS = 4096
};

typedef struct cgroup_mount {
    char root[NAME_BYTES];  /* the cgroup that is mounted */
    char point[NAME_BYTES]; /* where */
    char super[NAME_BYTES]; /* v1: its controllers, among other options */
    bool v2;
} cgroup_mount;

static bool list_has(const char *list, const char *word) {
    size_t len = strlen(word);
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n == len && memcmp(list, word, len) == 0) return true;
        list += n;
        if (*list == ',') list++;
    }
    return false;
}

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void copy_unescaped(char *out, size_t size, const char *in) {
    size_t n = 0;
    while (*in && n + 1 < size) {
        bool octal = in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' &&
                     in[2] <= '7' && in[3] >= '0' && in[3] <= '7';
        if (octal) {
            out[n++] = (char)((in[1] - '0') << 6 | (in[2] - '0') << 3 | (in[3] - '0'));
            in += 4;
        } else {
            out[n++] = *in++;
        }
    }
    out[n] = '\0';
}

/* "36 35 98:0 /root /point options [tags] - type source super-options"; false if no cgroup's. */
static bool parse_mount(char *line, cgroup_mount *out) {
    char *dash = strstr(line, " - ");
    if (!dash) return false;
    *dash = '\0';
    char type[32] = "";
    out->super[0] = '\0';
    if (sscanf(dash + 3, "%31s %*s %1023s", type, out->super) < 1) return false;
    char root[NAME_BYTES], point[NAME_BYTES];
    if (sscanf(line, "%*s %*s %*s %1023s %1023s", root, point) != 2) return false;
    out->v2 = strcmp(type, "cgroup2") == 0;
    if (!out->v2 && strcmp(type, "cgroup") != 0) return false;
    copy_unescaped(out->root, sizeof out->root, root);
    copy_unescaped(out->point, sizeof out->point, point);
    return true;
}

/* The process's group in the hierarchy of `mount`, from /proc/self/cgroup ("id:controllers:path").
 */
static bool find_group(const char *root, const cgroup_mount *mount, const char *controller,
                       char *path, size_t size) {
    kt__text text;
    char line[LINE_BYTES];
    bool found = false;
    if (!kt__text_open(root, "", "/proc/self/cgroup", &text)) return false;
    while (!found && kt__text_next(&text, line, sizeof line)) {
        char *list = strchr(line, ':');
        char *group = list ? strchr(list + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        found = mount->v2 ? list[1] == '\0' : list_has(list + 1, controller);
        if (found) snprintf(path, size, "%s", group);
    }
    kt__text_close(&text);
    return found;
}

/* The directory of `group` below the mount point. A group outside the mounted subtree (another
 * cgroup namespace) is represented by the mount's own root, which is then the nearest visible
 * ancestor. */
static void group_dir(const cgroup_mount *mount, const char *group, char *dir, size_t size) {
    size_t len = strlen(mount->root);
    while (len > 0 && mount->root[len - 1] == '/') len--;
    bool below = strncmp(group, mount->root, len) == 0 && (group[len] == '/' || !group[len]);
    const char *rest = below && !strstr(group, "..") ? group + len : "";
    if (strcmp(rest, "/") == 0) rest = "";
    int n = snprintf(dir, size, "%s%s", mount->point, rest);
    if (n < 0 || (size_t)n >= size) snprintf(dir, size, "%s", mount->point);
}

/* From the process's group up to the mount point. Every step shortens dir. */
static void walk_up(const char *root, const cgroup_mount *mount, const char *controller,
                    kt__cgroup_level *level, void *arg) {
    char group[NAME_BYTES], dir[2 * NAME_BYTES];
    if (!find_group(root, mount, controller, group, sizeof group)) return;
    group_dir(mount, group, dir, sizeof dir);
    size_t top = strlen(mount->point);
    for (;;) {
        level(root, dir, mount->v2, arg);
        char *slash = strrchr(dir, '/');
        if (strlen(dir) <= top || !slash) return;
        *slash = '\0';
        if (strlen(dir) < top) return;
    }
}

void kt__cgroup_walk(const char *root, const char *controller, kt__cgroup_level *level, void *arg) {
    kt__text text;
    char line[LINE_BYTES];
    cgroup_mount mount;
    if (!kt__text_open(root, "", "/proc/self/mountinfo", &text)) return;
    for (int i = 0; i < MAX_MOUNTS && kt__text_next(&text, line, sizeof line); i++) {
        if (!strstr(line, " - cgroup") || !parse_mount(line, &mount)) continue;
        if (mount.v2 || list_has(mount.super, controller))
            walk_up(root, &mount, controller, level, arg);
    }
    kt__text_close(&text);
}
