/* Rendering a template, and what the interpreter's files share.
 *
 * Owns: one rendering from its variables to its text: the limits on steps, depth, text and memory, errors with their
 * line, and the helpers that every operation needs. Everything that a rendering makes lives in its arena; the parsed
 * template is only read. Knows nothing of messages or tokens: chat/ brings the variables. One thread a rendering; any
 * number of renderings of one template at once. */
#ifndef KT_JINJA_JINJA_RUN_H
#define KT_JINJA_JINJA_RUN_H

#include "base/error.h"
#include "jinja/jinja_ast.h"

/* Stated limits of one rendering. A step is a node evaluated, an item walked, or as many bytes of
 * text as take about the time of these: 64 that are searched or copied, fewer where each character
 * is looked at. Together the limits end a hostile template within half a second. Within the limits
 * on depth (this one and KT__J_MAX_DEPTH) 256 KiB of stack were enough when measured. */
#define KT__JX_MAX_STEPS UINT64_C(4000000)
#define KT__JX_STEPS_PER_BYTE 16 /* more, of what the template is given: see kt__jx_allow */
#define KT__JX_MAX_TEXT ((size_t)64 << 20)    /* bytes of output, and of any one string */
#define KT__JX_MAX_MEMORY ((size_t)256 << 20) /* bytes of the arena */
enum { KT__JX_MAX_DEPTH = 600 };              /* nesting of evaluation, macro calls included */
enum { KT__JX_MAX_RANGE = 100000 };           /* items of range(), as in Jinja's sandbox */

typedef struct kt__jslot {
    uint32_t name;
    kt__jv val;
} kt__jslot;

/* Variables of one scope. The outermost has a slot for every name of the template. */
typedef struct kt__jframe kt__jframe;
struct kt__jframe {
    kt__jframe *parent; /* NULL: the outermost */
    kt__jslot *slots;
    uint32_t n, cap;
    bool captured; /* a macro refers to it: it cannot be used again */
};

typedef enum kt__jflow { KT__JFLOW_NONE, KT__JFLOW_BREAK, KT__JFLOW_CONTINUE } kt__jflow;

typedef struct kt__jx {
    kt__arena arena;
    const kt__jinja *tmpl;
    kt__jframe root;
    uint64_t steps, max_steps; /* steps: left */
    uint32_t line;             /* of what is being evaluated, for errors */
    int depth;
    kt__jflow flow;
    bool raised; /* the template called raise_exception */
    int64_t now_local_s;
    kt_error *err;
} kt__jx;

/* ---- between the interpreter's files; all fill x->err ---- */

/* Nothing is held outside the arena, so a failure may leave at once. */
typedef struct kt__jkwarg {
    const kt__jstr *name;
    kt__jv val;
} kt__jkwarg;

typedef struct kt__jargs {
    const kt__jv *pos;
    size_t n_pos;
    const kt__jkwarg *kw;
    size_t n_kw;
} kt__jargs;

/* A filter over v, or a method of v. */
typedef kt_status kt__jfn(kt__jx *x, kt__jv v, const kt__jargs *args, kt__jv *out);

struct kt__jmethod {
    kt__jv self;
    const char *name;
    kt__jfn *fn;
};

struct kt__jmacro {
    const kt__jnode *def;
    kt__jframe *closure;
    kt_status (*call)(kt__jx *x, const kt__jmacro *macro, const kt__jargs *args, kt__jv *out);
};

/* The variable `loop` and what a {% for %} walks. */
struct kt__jloop {
    kt_status (*attr)(kt__jx *x, kt__jloop *loop, const kt__jstr *name, kt__jv *out);
    kt__jlist *list; /* what is walked; a copy for strings and dictionaries */
    size_t at;       /* of a list; generators keep their own place */
    const kt__jnode *node;
    kt__jframe *frame;      /* outside the loop */
    int64_t index0, length; /* length -1: not known yet */
    kt__jv cur, prev, ahead;
    bool has_ahead; /* the next item was looked at */
};

kt_status kt__jx_fail(kt__jx *x, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
kt_status kt__jx_nomem(kt__jx *x);
kt_status kt__jx_step(kt__jx *x, uint64_t n) KT_CHECKED; /* KT_E_LIMIT when they are used up */
kt_status kt__jx_enter(kt__jx *x) KT_CHECKED;            /* one level; x->depth-- on the way out */

void kt__jx_sink(kt__jx *x, kt__jsb *sink); /* an empty string to build, under the limit */
kt_status kt__jx_sink_done(kt__jx *x, kt__jsb *sink, kt__jv *out) KT_CHECKED;
kt_status kt__jx_sink_check(kt__jx *x, const kt__jsb *sink) KT_CHECKED;
/* The walkable values of v as an array: list items, keys, characters; empties a generator. */
kt_status kt__jx_items(kt__jx *x, kt__jv v, const kt__jv **items, size_t *n) KT_CHECKED;
bool kt__jx_is_iterable(kt__jv v);
kt_status kt__jx_length(kt__jx *x, kt__jv v, int64_t *out) KT_CHECKED;

/* ---- arguments ---- */

/* Puts arguments into slots[n] by position and name; KT__J_MISSING where not given. */
kt_status kt__jx_bind(kt__jx *x, const char *what, const kt__jargs *args, const char *const *names,
                      size_t n, size_t n_required, kt__jv *slots) KT_CHECKED;
kt_status kt__jx_no_args(kt__jx *x, const char *what, const kt__jargs *args) KT_CHECKED;
/* An integer (or boolean) argument; `otherwise` where it is missing. */
kt_status kt__jx_int(kt__jx *x, const char *what, kt__jv v, int64_t otherwise,
                     int64_t *out) KT_CHECKED;
kt_status kt__jx_text(kt__jx *x, const char *what, kt__jv v, const kt__jstr **out) KT_CHECKED;
/* A string value over a C string that outlives the rendering, from the template. */
kt_status kt__jx_literal(kt__jx *x, const char *text, kt__jv *out) KT_CHECKED;
kt_status kt__jx_sub(kt__jx *x, const kt__jstr *s, size_t from, size_t to, kt__jv *out) KT_CHECKED;
kt_status kt__jx_push(kt__jx *x, kt__jlist *list, kt__jv v) KT_CHECKED;
kt_status kt__jx_list(kt__jx *x, kt__jlist_kind kind, const kt__jv *items, size_t n,
                      kt__jlist **out) KT_CHECKED;
kt_status kt__jx_put(kt__jx *x, kt__jdict *dict, kt__jv key, kt__jv val) KT_CHECKED;
kt_status kt__jx_bad_key(kt__jx *x, kt__jv key); /* the error of a key that cannot be hashed */
kt_status kt__jx_undefined(kt__jx *x, kt__jv v); /* the error of using an undefined value */

/* ---- operations ---- */

/* jinja_op.c */
kt_status kt__jx_binary(kt__jx *x, kt__jop op, kt__jv a, kt__jv b, kt__jv *out) KT_CHECKED;
kt_status kt__jx_negate(kt__jx *x, kt__jv v, bool minus, kt__jv *out) KT_CHECKED;
kt_status kt__jx_compare(kt__jx *x, kt__jop op, kt__jv a, kt__jv b, bool *out) KT_CHECKED;
/* (*out)[n]: the places of keys in a stable sort. */
kt_status kt__jx_sort(kt__jx *x, const kt__jv *keys, size_t n, bool reverse,
                      uint32_t **out) KT_CHECKED;
kt_status kt__jx_slice(kt__jx *x, kt__jv obj, kt__jv start, kt__jv stop, kt__jv step,
                       kt__jv *out) KT_CHECKED;

/* jinja_str.c: for HTML; what passed through |safe stays */
kt_status kt__jx_escape(kt__jx *x, const kt__jstr *s, const kt__jstr **out) KT_CHECKED;

/* jinja_text.c */
kt_status kt__jx_str(kt__jx *x, kt__jv v, const kt__jstr **out) KT_CHECKED; /* Python's str() */
kt_status kt__jx_add_str(kt__jx *x, kt__jsb *sink, kt__jv v) KT_CHECKED;
/* json.dumps; indent < 0: on one line with ", " and ": " unless separators are given. */
typedef struct kt__jdump {
    bool ascii, sort_keys;
    const kt__jstr *indent; /* NULL: one line */
    const kt__jstr *item_sep, *key_sep;
} kt__jdump;
kt_status kt__jx_dump(kt__jx *x, kt__jv v, const kt__jdump *opt, const kt__jstr **out) KT_CHECKED;

/* jinja_format.c: "...".format(args) */
kt_status kt__jx_format(kt__jx *x, const kt__jstr *fmt, const kt__jargs *args,
                        kt__jv *out) KT_CHECKED;

/* jinja_scope.c: obj.name, obj[key] */
kt_status kt__jx_getattr(kt__jx *x, kt__jv obj, const kt__jstr *name, kt__jv *out) KT_CHECKED;
kt_status kt__jx_getitem(kt__jx *x, kt__jv obj, kt__jv key, kt__jv *out) KT_CHECKED;

/* jinja_filter*.c, jinja_test.c, jinja_method.c, jinja_global.c */
kt_status kt__jx_filter(kt__jx *x, uint16_t id, kt__jv v, const kt__jargs *args,
                        kt__jv *out) KT_CHECKED;
kt_status kt__jx_test(kt__jx *x, uint16_t id, kt__jv v, const kt__jargs *args,
                      bool *out) KT_CHECKED;
/* The method `name` of v's type: false if there is none. */
bool kt__jx_find_method(kt__jv v, const kt__jstr *name, kt__jmethod *out);
bool kt__jx_find_container_method(kt__jv v, const kt__jstr *name, kt__jmethod *out);
kt_status kt__jx_global(kt__jx *x, int64_t id, const kt__jargs *args, kt__jv *out) KT_CHECKED;

/* jinja_scope.c: variables */
kt__jframe *kt__jx_frame(kt__jx *x, kt__jframe *parent); /* NULL: no memory */
kt_status kt__jx_assign(kt__jx *x, const kt__jnode *target, kt__jframe *frame,
                        kt__jv val) KT_CHECKED;
kt_status kt__jx_bind_name(kt__jx *x, kt__jframe *frame, uint32_t name, kt__jv val) KT_CHECKED;
kt__jv kt__jx_lookup(kt__jx *x, const kt__jframe *frame, uint32_t name);

/* jinja_expr.c: expressions */
kt_status kt__jx_eval(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv *out) KT_CHECKED;
/* The filters of a block over what it wrote. */
kt_status kt__jx_eval_filters(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv input,
                              kt__jv *out) KT_CHECKED;

/* jinja_eval.c: what a {% for %} walks */
kt_status kt__jx_loop_begin(kt__jx *x, const kt__jnode *node, kt__jframe *frame, kt__jv source,
                            kt__jloop **out) KT_CHECKED;
kt_status kt__jx_loop_next(kt__jx *x, kt__jloop *loop, bool *more) KT_CHECKED; /* into loop->cur */

/* String operations that filters and methods share: case, stripping, replacing, splitting; each keeps the origin of
 * every byte that it copies (jinja_str.c). */

typedef enum kt__jcase {
    KT__JCASE_UPPER,
    KT__JCASE_LOWER,
    KT__JCASE_CAPITAL,     /* the first character in title case, the rest lower */
    KT__JCASE_TITLE,       /* str.title: a capital after every uncased character */
    KT__JCASE_FILTER_TITLE /* the filter: a capital after white space and one of -({[< */
} kt__jcase;

kt_status kt__js_case(kt__jx *x, const kt__jstr *s, kt__jcase mode, kt__jv *out) KT_CHECKED;
/* chars NULL: white space */
kt_status kt__js_strip(kt__jx *x, const kt__jstr *s, const kt__jstr *chars, bool left, bool right,
                       kt__jv *out) KT_CHECKED;
/* count < 0: all */
kt_status kt__js_replace(kt__jx *x, const kt__jstr *s, const kt__jstr *old, const kt__jstr *with,
                         int64_t count, kt__jv *out) KT_CHECKED;
/* sep NULL: runs of white space; max < 0: no limit; from_right: the last `max` places */
kt_status kt__js_split(kt__jx *x, const kt__jstr *s, const kt__jstr *sep, int64_t max,
                       bool from_right, kt__jlist **out) KT_CHECKED;
kt_status kt__js_lines(kt__jx *x, const kt__jstr *s, bool keep_ends, kt__jlist **out) KT_CHECKED;

/* The filters, one function each (jinja_filters.def). */

#define F(name, function) kt__jfn function;
#include "jinja/jinja_filters.def"
#undef F

/* The whole (jinja_eval.c). */

/* Starts a rendering of tmpl; kt__jx_free in any case. */
kt_status kt__jx_init(kt__jx *x, const kt__jinja *tmpl, int64_t now_local_s,
                      kt_error *err) KT_CHECKED;
void kt__jx_free(kt__jx *x);
/* More steps for a template that is given this much: some published ones go through the conversation
 * once for each of its messages. */
void kt__jx_allow(kt__jx *x, size_t input_bytes);
/* Gives the variable `name` a value; a name that the template does not use is ignored. */
void kt__jx_set(kt__jx *x, const char *name, size_t len, kt__jv value);
/* Renders into *out, a string of x's arena. */
kt_status kt__jx_render(kt__jx *x, const kt__jstr **out) KT_CHECKED;

#endif
