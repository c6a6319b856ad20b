/* Small text files of the kernel.
 *
 * Owns: reading a line, a number or a keyed value from files of /proc and /sys, without the heap (a
 * running engine looks at its limits once a second). Knows nothing of what they mean. A path is
 * root + dir + "/" + name, so that tests can put a made-up machine under root ("" otherwise); dir
 * may be empty. What is missing or malformed reads as absent, never as an error. Any thread. */
#ifndef KT_HOST_TEXTFILE_H
#define KT_HOST_TEXTFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A file read line by line. */
typedef struct kt__text {
    int fd, at, len;
    char chunk[2048];
} kt__text;

bool kt__text_open(const char *root, const char *dir, const char *name, kt__text *out);
void kt__text_close(kt__text *text); /* one that was opened */
/* The next line without its newline, cut to fit; false at the end. */
bool kt__text_next(kt__text *text, char *line, int size);

/* The first line without its newline; false if there is none. */
bool kt__text_line(const char *root, const char *dir, const char *name, char *line, int size);
/* A number at the front of text; false for "max", "-1", overflow and anything else. */
bool kt__text_parse_u64(const char *text, uint64_t *out);
bool kt__text_u64(const char *root, const char *dir, const char *name, uint64_t *out);
/* The number of the first "key value" or "key: value" line, in the file's own unit. */
bool kt__text_keyed(const char *root, const char *dir, const char *name, const char *key,
                    uint64_t *out);

#endif
