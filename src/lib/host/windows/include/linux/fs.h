/* Of renameat2. */
#define RENAME_NOREPLACE 1
