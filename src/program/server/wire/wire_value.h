/* Values of a request's JSON, each read with its place.
 *
 * Owns: places (where in the body a value is, for errors), and the reading of single numbers, texts
 * and lists of texts. Knows no field. wire_read.c and its neighbours, and dialects that read a body
 * of their own shape (`request` may be NULL for these functions); the thread that reads the
 * request. */
#ifndef KT_WIRE_WIRE_VALUE_H
#define KT_WIRE_WIRE_VALUE_H

#include <jansson.h>

#include "wire/wire.h"

/* On the stack of the thread that reads; an object's member or an array's element. */
typedef struct kt__wire_place {
    const struct kt__wire_place *up; /* NULL: the body itself */
    const char *key;                 /* NULL: an array's element */
    size_t index;
} kt__wire_place;

typedef struct kt__wire_reader {
    kt__wire_request *request;
    kt__arena *arena;
    const char *prefix; /* begins the paths in errors, or NULL */
    kt_error *err;
    const kt__wire_eyes *eyes; /* or NULL */
} kt__wire_reader;

/* Errors: "PATH: text", with the path as `where`; the code is returned. */
kt_status kt__wire_fail_at(const kt__wire_reader *r, kt_status code, const kt__wire_place *at,
                           const char *fmt, ...) __attribute__((format(printf, 4, 5)));
kt_status kt__wire_fail_type(const kt__wire_reader *r, const kt__wire_place *at,
                             const char *expected, const json_t *found);
kt_status kt__wire_fail_nomem(const kt__wire_reader *r);
char *kt__wire_path(const kt__wire_reader *r, const kt__wire_place *at); /* in the arena, or NULL */
const char *kt__wire_type_name(const json_t *v);                         /* "an array" */

json_t *kt__wire_member(const json_t *object, const char *key); /* NULL: absent or null */
bool kt__wire_is_empty(const json_t *v); /* false, "", [] and {} ask for nothing */

kt_status KT_CHECKED kt__wire_read_number(const kt__wire_reader *r, const kt__wire_place *at,
                                          const json_t *v, double low, double high, double *out);
kt_status KT_CHECKED kt__wire_read_int(const kt__wire_reader *r, const kt__wire_place *at,
                                       const json_t *v, int64_t low, int64_t high, int64_t *out);
kt_status KT_CHECKED kt__wire_read_bool(const kt__wire_reader *r, const kt__wire_place *at,
                                        const json_t *v, bool *out);
/* A copy in the arena; *len may be NULL. jansson refuses a NUL within. */
kt_status KT_CHECKED kt__wire_read_string(const kt__wire_reader *r, const kt__wire_place *at,
                                          const json_t *v, char **out, size_t *len);
/* A text member of body; absent: *out stays. */
kt_status KT_CHECKED kt__wire_read_text(const kt__wire_reader *r, const json_t *body,
                                        const char *key, const char **out);
/* A string or an array of at most max; empty strings are left out. */
kt_status KT_CHECKED kt__wire_read_strings(const kt__wire_reader *r, const kt__wire_place *at,
                                           const json_t *v, size_t max, const char *const **out,
                                           size_t *n_out);

/* The parts of a body, each in a file of its own. */
kt_status KT_CHECKED kt__wire_read_fields(const kt__wire_reader *r, const json_t *body);
kt_status KT_CHECKED kt__wire_read_calling(const kt__wire_reader *r, const json_t *body);
/* After req.messages, which were read of list: calls, results and reasoning in them make it
 * req.chat_json. */
kt_status KT_CHECKED kt__wire_read_turns(const kt__wire_reader *r, const kt__wire_place *at,
                                         const json_t *list);
kt_status KT_CHECKED kt__wire_read_constraint(const kt__wire_reader *r, const json_t *body);
kt_status KT_CHECKED kt__wire_read_adapters(const kt__wire_reader *r, const json_t *body);
kt_status KT_CHECKED kt__wire_refuse_the_rest(const kt__wire_reader *r, const json_t *body);
kt_status KT_CHECKED kt__wire_read_subject(const kt__wire_reader *r, const json_t *body);

/* wire_pictures.c. A part of a user's message, or what is next to it, into req.pictures; whether a message has any, and
 * its content as chat_json has it, with {"type": "image"} where they are (NULL: no memory). */
bool kt__wire_is_picture(const char *type);
kt_status KT_CHECKED kt__wire_read_picture(const kt__wire_reader *r, const kt__wire_place *at,
                                           const json_t *part);
kt_status KT_CHECKED kt__wire_read_images(const kt__wire_reader *r, const kt__wire_place *up,
                                          const json_t *message, bool of_user);
bool kt__wire_has_pictures(const json_t *message);
/* Of a tool's message, those that the model is to see; they are shown after all results. */
size_t kt__wire_count_returned(const kt__wire_reader *r, const json_t *message);
json_t *kt__wire_picture_parts(const json_t *message,
                               size_t n_returned); /* n_returned: of tools, before them */
/* The engine's error is about one, and is put into the request's words. */
bool kt__wire_place_picture(const kt__wire_request *request, kt_error *err);

/* Notes that the member at `at` is left aside, and what it is: "tools[1]: a tool of type shell". */
kt_status KT_CHECKED kt__wire_note(const kt__wire_reader *r, const kt__wire_place *at,
                                   const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
