/* Bodies of forms with files: multipart/form-data (RFC 7578).
 *
 * Owns: finding the parts of a body that is in memory whole. Copies nothing. Any thread. */
#ifndef KT_SERVICES_MULTIPART_H
#define KT_SERVICES_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>

typedef struct kt__multipart {
    const char *body;
    size_t len, at;
    char boundary[80]; /* with the two dashes before it */
    size_t boundary_len;
} kt__multipart;

typedef struct kt__multipart_part {
    char name[64], filename[256]; /* "": none; cut to fit */
    const char *data;             /* in the body */
    size_t len;
} kt__multipart_part;

/* type: the Content-Type header; false: it is no such form, or its boundary is none. */
bool kt__multipart_begin(kt__multipart *form, const char *type, const char *body, size_t len);
/* false: there are no more, or the body is cut off. */
bool kt__multipart_next(kt__multipart *form, kt__multipart_part *out);

#endif
