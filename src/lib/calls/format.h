/* The descriptors of call formats and reasoning markers.
 *
 * Owns: the rows' members. Literals are the text that the format's template writes; when an answer
 * is read, a blank in one means any white space or none. Read-only: any thread. */
#ifndef KT_CALLS_FORMAT_H
#define KT_CALLS_FORMAT_H

#include "calls/calls.h"

typedef enum kt__call_kind {
    KT__CALLS_NONE,
    KT__CALLS_OBJECT, /* {"name": "f", "arguments": {..}} */
    KT__CALLS_NAMED,  /* open f name_end {..} close */
    KT__CALLS_TAGGED, /* open f name_end (param_open k key_end v param_close)* close */
    KT__CALLS_PYTHON, /* [f(a=1, b="x"), g()] */
    KT__CALLS_BARE,   /* open f{k:v,..} close, strings in `quote` */
    KT__CALLS_HARMONY /* channels with recipients */
} kt__call_kind;

typedef enum kt__call_id_rule {
    KT__ID_FREE,     /* call_ and 24 hexadecimal digits */
    KT__ID_ALNUM_9,  /* nine letters and digits */
    KT__ID_FUNCTIONS /* functions.NAME:N */
} kt__call_id_rule;

enum { KT__FORMAT_SIGNS = 3, KT__REASON_DROPS = 4, KT__REASON_ENDS = 2 };

struct kt__call_format {
    const char *name;
    const char *signs[KT__FORMAT_SIGNS]; /* a template with all of them has this format */
    kt__call_kind kind;
    const char *section_open, *section_close; /* around the calls; NULL: none */
    bool section_each;                        /* each call in one of its own */
    bool section_loose;                       /* models leave section_open out */
    bool array;                               /* the calls are in a JSON array */
    const char *open, *name_end, *close;      /* of a call; NULL: nothing */
    const char *id_open; /* NAMED: before an id, which is between the name and name_end */
    const char *id_head; /* NAMED: after an id, which is between open and the name */
    const char
        *answer_name;    /* NAMED: in a name's place, before text of the answer; byte for byte */
    const char *between; /* calls */
    const char *lead;    /* between content and the first call */
    const char *name_key, *args_key, *id_key; /* OBJECT; without name_key the name is the key */
    const char *param_open, *key_end, *param_close; /* TAGGED */
    const char *pad;                                /* around a value */
    const char *gap;                                /* after the name and after each parameter */
    bool pad_optional;                              /* pad and gap may be left out */
    const char *true_end,
        *false_end;          /* key_end of strings and of other values; then key_end is NULL */
    bool close_has_key;      /* param_close is followed by the key and > */
    bool cdata;              /* a value may be a CDATA section */
    const char *quote;       /* BARE: around a string */
    bool at_start;           /* a call is all of the answer or nothing */
    const char *start_tag;   /* at_start: may come before it, */
    const char *start_end;   /* and this next to it, where the tag is around text before the call */
    const char *tagged_call; /* between a name after start_tag and arguments as Python has them */
    bool single;             /* one call an answer */
    kt__call_id_rule id_rule;
    bool shows_tools; /* false: the template does not; they are written into the system message */
};

struct kt__reason_format {
    const char *name;
    const char *signs[2];
    const char *open, *close;           /* NULL: none */
    bool open_is_text;                  /* open is part of the reasoning */
    bool anywhere;                      /* it may come after content, too */
    bool blind;                         /* a call within it is no call */
    bool blanks_after;                  /* white space after close belongs to it */
    const char *ends[KT__REASON_ENDS];  /* markers of the answer itself, where close was left out */
    const char *drop[KT__REASON_DROPS]; /* markers of the answer itself, left out */
};

/* Whether the text of a control token is part of a marker of the style: a parser needs to see
 * it. */
bool kt__call_style_marks(const kt__call_style *style, const char *text, size_t len);

extern const kt__call_format kt__call_formats[];
extern const size_t kt__n_call_formats;
/* What foreign.c reads <parameter=K>V</parameter> as. */
extern const kt__call_format kt__foreign_params;
extern const kt__reason_format kt__reason_formats[];
extern const size_t kt__n_reason_formats;

#endif
