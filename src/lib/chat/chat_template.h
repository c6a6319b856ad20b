/* Chat templates: messages in, the prompt a model was trained on out.
 *
 * Owns: a parsed template (Jinja, as transformers configures it), rendering it over messages, the
 * rule for system messages that a template refuses or drops, and the form of contents (a text, or
 * parts with a type, or no null) that a template reads. Does not know tokens: it says
 * which bytes of the prompt the template wrote, so that the encoder recognises control tokens there
 * and nowhere else. A template is immutable once parsed and may be rendered from any thread, by
 * several at once. */
#ifndef KT_CHAT_CHAT_TEMPLATE_H
#define KT_CHAT_CHAT_TEMPLATE_H

#include <kentang.h>

typedef struct kt__chat_template kt__chat_template;

/* A stretch of the prompt with one origin. Control tokens may be recognised only where one lies
 * wholly inside a from_template segment; everything between two recognised tokens is ordinary text
 * and is encoded as one piece, across segment borders (a role and the newline after it have
 * different origins). */
typedef struct kt__chat_seg {
    size_t offset, len;
    bool from_template;
} kt__chat_seg;

/* segs[n_segs] cover text[len] in order, without gaps; none is empty, adjacent ones differ in
 * origin. From the template: literal text, string literals, bos_token and eos_token, the text of
 * numbers, and roles that are one of the usual names (some templates write '<|' + role + '|>'). All
 * else that comes in with the messages, tools and variables is data, through whichever filter it
 * went. */
typedef struct kt__chat_out {
    char *text; /* NUL-terminated; a NUL inside is not counted as the end: use len */
    size_t len;
    kt__chat_seg *segs;
    size_t n_segs;
    bool system_merged; /* the system messages were merged into the first user message */
} kt__chat_out;

typedef struct kt__chat_params {
    /* NULL: undefined in the template, which prints as nothing */
    const char *bos_token, *eos_token;
    /* for strftime_now: seconds since 1970 in local time; kt__chat_now_local() */
    int64_t now_local_s;
    /* Variables that Llama's, functionary's and firefunction's templates read are there, unless something else sets
     * them: date_string ("29 Nov 2026") and datetime ("Nov 29 2026"), the day of now_local_s, and functions, the
     * tools as a JSON text, or "". Without it they are undefined, as in transformers. */
    bool extras;
    bool add_generation_prompt;
    /* The last message, an assistant's after others, is how the answer begins: it is not rendered,
     * and its content is after the generation prompt, as data. Where that opens thoughts, those of
     * the message and their end are between. KT_E_ARG: it is not. */
    bool continue_last;
    /* A JSON object of further variables, NUL-terminated; NULL: none. KT_E_FORMAT, KT_E_ARG. */
    const char *vars;
} kt__chat_params;

/* Parses source[len] (copied), and renders it once or twice to see which form of contents it reads.
 * KT_E_TEMPLATE with a line number where it is not a template this interpreter knows; KT_E_LIMIT
 * where it is over a stated limit. */
kt_status kt__chat_template_parse(const char *source, size_t len, kt__chat_template **out,
                                  kt_error *err) KT_CHECKED;
void kt__chat_template_free(kt__chat_template *tmpl); /* NULL is allowed */

/* Renders messages[n]; contents and roles must be UTF-8. `tools` and `documents` are none, as in
 * transformers. KT_E_TEMPLATE also where the template leaves out what the user says. *out is filled
 * on KT_OK only, and released with kt__chat_out_free. */
kt_status kt__chat_render(const kt__chat_template *tmpl, const kt_message *messages, size_t n,
                          const kt__chat_params *params, kt__chat_out *out,
                          kt_error *err) KT_CHECKED;
/* The same from JSON: an array of messages, or an object {"messages": [...], "tools": [...],
 * "add_generation_prompt": true, ...} whose further members become template variables. An
 * add_generation_prompt in the object overrides params. */
kt_status kt__chat_render_json(const kt__chat_template *tmpl, const char *json, size_t json_len,
                               const kt__chat_params *params, kt__chat_out *out,
                               kt_error *err) KT_CHECKED;
void kt__chat_out_free(kt__chat_out *out); /* a zeroed kt__chat_out is allowed */

/* Source of a template that models without one are often used with: "chatml", "llama3", "gemma", "command-r". NULL: unknown name.
 * Whether to use it is the caller's decision; it is never assumed. */
const char *kt__chat_template_builtin(const char *name);

/* Seconds since 1970 on the local wall clock. */
int64_t kt__chat_now_local(void);

#endif
