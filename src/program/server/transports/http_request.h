/* A request of HTTP, between the daemon and the routes.
 *
 * Owns: what http.c, http_refuse.c, http_answer.c and http_routes.c share. The daemon's thread. */
#ifndef KT_TRANSPORTS_HTTP_REQUEST_H
#define KT_TRANSPORTS_HTTP_REQUEST_H

#include "jobs/job.h"

struct MHD_Connection;

enum {
    KT__ROUTE_OPEN = 1,    /* no key is asked for */
    KT__ROUTE_METRICS = 2, /* nor here, where the configuration says so */
    KT__ROUTE_FORM = 4,    /* takes a form with a file, but of no browser's page */
    KT__ROUTE_BARE = 8,    /* a POST without a body will do */
    KT__ROUTE_NO_FILE =
        16 /* where other servers take files, of any size: refused before it comes */
};

typedef struct kt__http_request kt__http_request;

typedef struct kt__route {
    const char *method;
    const char *path;           /* with a star at the end: any that begins so */
    const kt__dialect *dialect; /* becomes a job, or: */
    /* writes the answer into request->reply at once; the status */
    int (*answer)(kt__http_request *request);
    kt__error_body_fn *error_body; /* of `answer`; NULL: OpenAI's. A dialect brings its own. */
    const char *type;              /* of what `answer` writes; NULL: JSON */
    const char *id_prefix;         /* of jobs */
    unsigned flags;
    /* before the job starts: what its dialect wants to know of the head; NULL: nothing */
    kt_status (*take_head)(kt__http_request *request, kt_error *err);
} kt__route;

struct kt__http_request {
    kt__shared *shared;
    kt__settings *settings; /* in force when it came */
    struct MHD_Connection *connection;
    const kt__route *route; /* NULL: there is nothing at its path */
    kt__job *job;
    kt__buf body, reply;
    const char *rest; /* of the path, after what a route with a star has; the daemon's */
    kt__error_body_fn *error_body; /* whose words a refusal has */
    char client[80];
    int file; /* with has_file: what is sent in place of reply; closed then */
    bool has_file;
    const char *type;       /* of reply, where it is not the route's */
    const char *encoding;   /* of reply: "gzip"; NULL: none */
    const char *cors;       /* the origin, where the configuration lets pages of it read answers */
    const char *listens_at; /* the address that the connection came to; NULL: a Unix socket */
    size_t max_body;
    size_t n_held; /* bytes of body, counted by kt__shared_hold until the job has them */
    int64_t retry_ms;
    bool started, answered;
    bool has_key;     /* client is a key's name */
    bool old_version; /* HTTP/1.0 */
    bool surplus;     /* its connection found no room */
    bool crowded_out; /* its body found none */
    bool page;        /* the reply is for a browser to show */
    bool close;       /* nothing that follows on the connection can be trusted to be a request */
};

/* NULL: no such path. *allowed: the method that it has, where it is another one than asked for,
 * else NULL. *rest: the path after what a route with a star has. A slash at the end is ignored. */
const kt__route *kt__http_find_route(const char *method, const char *path, const char **allowed,
                                     const char **rest);
/* In the words of those to whom the path belongs, be it there or not. */
kt__error_body_fn *kt__http_error_body(const kt__route *route, const char *path);

/* http_batches.c */
int kt__http_post_file(kt__http_request *request);
int kt__http_list_files(kt__http_request *request);
int kt__http_get_file(kt__http_request *request);
int kt__http_delete_file(kt__http_request *request);
int kt__http_post_batch(kt__http_request *request);
int kt__http_list_batches(kt__http_request *request);
int kt__http_get_batch(kt__http_request *request);
int kt__http_cancel_batch(kt__http_request *request);
/* http_responses.c */
int kt__http_get_response(kt__http_request *request);
int kt__http_delete_response(kt__http_request *request);
/* Ollama's answers that need no model's work: http_ollama.c */
int kt__ollama_tags(kt__http_request *request);
int kt__ollama_ps(kt__http_request *request);
int kt__ollama_blob(kt__http_request *request);
int kt__ollama_version(kt__http_request *request);

#endif
