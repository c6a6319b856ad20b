/* What process 0 tells the others: a message of numbers and bytes.
 *
 * Owns: its form: 32-bit words, of which the first say what it is and how many there are. Writing never fails before
 * it is sent; reading beyond the end, or a number out of the range that is asked for, marks the message as bad. Knows
 * no kinds. One thread at a time. */
#ifndef KT_PEERS_MESSAGE_H
#define KT_PEERS_MESSAGE_H

#include <stdint.h>

#include "peers/peers.h"

typedef struct kt__message {
    int32_t *words;
    size_t n, cap; /* n: words written, or received */
    size_t at;     /* where reading is */
    bool bad;      /* no memory was left, or it is not what the reader expects */
} kt__message;

void kt__message_free(kt__message *m);

/* ---- process 0 ---- */
void kt__message_begin(kt__message *m, int32_t kind);
void kt__message_put(kt__message *m, int32_t x);
void kt__message_put_64(kt__message *m, int64_t x);
void kt__message_put_words(kt__message *m, const int32_t *x, size_t n);
void kt__message_put_bytes(kt__message *m, const void *bytes, size_t n); /* with their number */
kt_status kt__message_send(kt__message *m, kt__peers *peers, kt_error *err) KT_CHECKED;
/* The same, of what nobody waits for: a failure is reported with the next batch, and names `what` could not be sent. */
bool kt__message_notify(kt__message *m, kt__peers *peers, const char *what);

/* To one process, as a letter. */
kt_status kt__message_post(kt__message *m, kt__peers *peers, int rank, kt_error *err) KT_CHECKED;
/* A letter, if one has come; *rank -1: none has. Any process. */
kt_status kt__message_look(kt__message *m, kt__peers *peers, int *rank, int32_t *kind,
                           kt_error *err) KT_CHECKED;

/* ---- the others ---- */
/* Waits for one. */
kt_status kt__message_receive(kt__message *m, kt__peers *peers, int32_t *kind,
                              kt_error *err) KT_CHECKED;
/* A number from low to high; low where it is not, which marks the message. */
int32_t kt__message_take(kt__message *m, int32_t low, int32_t high);
int64_t kt__message_take_64(kt__message *m, int64_t low, int64_t high);
/* n words in place, valid until the next message; NULL: there are fewer. */
const int32_t *kt__message_take_words(kt__message *m, size_t n);
/* Any number of bytes, *n, with a 0 after them. NULL: something else is there. */
const char *kt__message_take_text(kt__message *m, size_t *n);
/* Bytes of that number exactly, or, with n 0, of any: with a 0 after them. NULL: others are there. */
const void *kt__message_take_bytes(kt__message *m, size_t n);

#endif
