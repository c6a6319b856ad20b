/* What an agent did, a line of JSON each: written as it happens, and played again.
 *
 * Owns: the file and the form of its lines: {"ms", "event", ...}. A transcript that is played gives
 * the tools and the results of the calls in their order, so that no server is needed. One
 * thread. */
#ifndef KT_AGENT_TRANSCRIPT_H
#define KT_AGENT_TRANSCRIPT_H

#include <jansson.h>
#include <kentang.h>
#include <stdio.h>

typedef struct kt__transcript {
    FILE *out; /* or NULL */
    int64_t begin_us;
    json_t *recorded; /* events that are played, or NULL */
    size_t at;        /* after the last result that was given */
} kt__transcript;

/* path: where to write, or NULL; replay: what to play, or NULL. KT_E_IO, KT_E_FORMAT. */
kt_status KT_CHECKED kt__transcript_open(const char *path, const char *replay, kt__transcript *out,
                                         kt_error *err);
void kt__transcript_close(kt__transcript *transcript);
/* Writes an event; fields is given up. */
void kt__transcript_add(kt__transcript *transcript, const char *event, json_t *fields);
/* The tools that were there when it was recorded; NULL: none are recorded. */
const json_t *kt__transcript_tools(const kt__transcript *transcript);
/* The result of the next recorded call, if it is one of this tool with these arguments; NULL: it is
 * not. */
const json_t *kt__transcript_next(kt__transcript *transcript, const char *tool, const json_t *args);

#endif
