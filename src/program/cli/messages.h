/* The messages of a conversation, and the file that /save writes and /load reads.
 *
 * Owns: their texts, on the heap; roles are constants. The file is a JSON array of {"role":
 * "system" | "user" | "assistant" | "tool", "content": TEXT}, or an object with such an array at
 * "messages". One thread. */
#ifndef KT_CLI_MESSAGES_H
#define KT_CLI_MESSAGES_H

#include <kentang.h>

typedef struct kt__messages {
    kt_message *items;
    size_t n, cap;
} kt__messages;

void kt__messages_free(kt__messages *m);
kt_status KT_CHECKED kt__messages_add(kt__messages *m, const char *role, const char *content,
                                      kt_error *err);
/* Drops all from the n-th on. */
void kt__messages_cut(kt__messages *m, size_t n);
/* 1 where the first one is a system message, else 0. */
size_t kt__messages_n_system(const kt__messages *m);
/* Sets, replaces or, where text is NULL, removes the system message. */
kt_status KT_CHECKED kt__messages_set_system(kt__messages *m, const char *text, kt_error *err);
/* Drops the oldest question with all that was said up to the next; the system message stays. false:
 * there is only one question. */
bool kt__messages_drop_oldest(kt__messages *m);

kt_status KT_CHECKED kt__messages_save(const kt__messages *m, const char *path, kt_error *err);
/* Replaces all messages; on failure they are as before. */
kt_status KT_CHECKED kt__messages_load(kt__messages *m, const char *path, kt_error *err);
/* The same from text[len]; where is named in errors. */
kt_status KT_CHECKED kt__messages_parse(kt__messages *m, const char *text, size_t len,
                                        const char *where, kt_error *err);

#endif
