/* The folder of a path: ../folders.c. */
char *kt__win_dirname(char *path);
#define dirname kt__win_dirname
