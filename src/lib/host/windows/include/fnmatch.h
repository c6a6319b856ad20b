/* Patterns of names: ../text.c. */
int kt__win_fnmatch(const char *pattern, const char *text, int flags);
#define fnmatch kt__win_fnmatch
#define FNM_NOMATCH 1
