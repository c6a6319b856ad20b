/* What the files of a constraint share.
 *
 * Owns: the constraint's parts, the modes of a state and the frames of open containers; the reading of texts made of
 * pieces (pieces.c). One user at a time. */
#ifndef KT_GRAMMAR_GRAMMAR_IMPL_H
#define KT_GRAMMAR_GRAMMAR_IMPL_H

#include "grammar/grammar_types.h"
#include "grammar/schema_value.h"

struct kt__gmask_cache;

/* What the items before leave of a term, where items must differ. */
typedef struct kt__gleft {
    kt__gid term, used;
    uint32_t stamp; /* as in kt__svmemo */
    kt__gid left;
} kt__gleft;
enum { KT__GRAMMAR_LEFT = 8 };

struct kt__grammar {
    kt__grammar_kind kind;
    bool is_json, ordered;
    kt__schema_use use;
    kt__glayout layout;
    bool is_pieces; /* JSON values among other texts; is_json is true, too */
    kt__gmark mark; /* how the vocabulary spells them */
    char *around;   /* what is before the body, then what is after it */
    size_t n_before, n_after;
    kt__terms t;
    kt__schema schema;
    kt__svalue_ctx v;
    kt__gleft left[KT__GRAMMAR_LEFT]; /* by a hash of term and used */
    kt__gid root;                     /* its term; of JSON: the formula of the whole value */
    struct kt__gmask_cache *masks;    /* mask.c; NULL before the first */
    void (*free_masks)(struct kt__gmask_cache *masks);
    size_t mask_bytes;
};

typedef enum kt__gmode {
    KT__M_END,
    KT__M_TEXT, /* no JSON: term */
    /* a value comes: value is what it is read under; n_text, of a whole text: its line's indent */
    KT__M_VALUE,
    KT__M_ITEM_OR_END, /* after [ */
    KT__M_KEY_OR_END,  /* after { */
    KT__M_KEY,         /* after , in an object: term is what the name may be */
    KT__M_COLON,
    KT__M_AFTER,   /* after a value in a container */
    KT__M_STRING,  /* term, a VEC of terms */
    KT__M_NAME,    /* term, name, used, patterns; text and chunk: what was read */
    KT__M_NUMBER,  /* value; text: what was read, two characters a byte */
    KT__M_LITERAL, /* value: the outcome; hex: which; lex: how far */
    KT__M_BEFORE,  /* hex: bytes read of what is before the body */
    KT__M_BEHIND   /* hex: bytes read of what is after it */
} kt__gmode;

/* Where a string is. */
typedef enum kt__glex {
    KT__L_PLAIN,  /* between two characters */
    KT__L_CONT_1, /* so many continuation bytes come; hex: the least and greatest of the next */
    KT__L_CONT_2,
    KT__L_CONT_3,
    KT__L_ESCAPE, /* after a backslash */
    KT__L_HEX_4,  /* so many hexadecimal digits come */
    KT__L_HEX_3,
    KT__L_HEX_2,
    KT__L_HEX_1,
    KT__L_LOW_BACKSLASH, /* the second half of a surrogate pair comes */
    KT__L_LOW_U
} kt__glex;

/* Words of a KT__G_FRAME. */
typedef enum kt__gframe {
    KT__F_PARENT,
    KT__F_META, /* bits below */
    KT__F_FORMULA,
    KT__F_SUBS,
    KT__F_SET, /* names used, or hashes of items */
    KT__F_KEY, /* KT__G_TEXT of the member that is being read */
    KT__F_HASH_LOW,
    KT__F_HASH_HIGH,
    KT__F_N
} kt__gframe;
enum {
    KT__FM_ARRAY = 1,
    KT__FM_HASHES = 2, /* values within are hashed */
    KT__FM_UNIQUE = 4, /* items must differ, or it matters whether they do */
    KT__FM_LINES = 8,  /* its first part is on a line of its own */
    KT__FM_ROOMY = 16, /* a space is before its first part */
    /* The rest of layout.c's business: what a level is indented by, the containers, this one
     * included, that have LINES, and what the line is indented by that the text begins in; inherited
     * by what is within. */
    KT__FM_INDENT = 32,
    KT__FM_LEVEL = 512,
    KT__FM_BASE = 512 * 32,
    KT__FM_DEPTH = 512 * 32 * 32 /* times the depth */
};

bool kt__json_step(kt__grammar *g, kt__gstate *s, uint8_t byte);
/* layout.c: a byte of white space between the parts of JSON, which is not begun where `part` says
 * that nothing can follow; whether a part may begin with `byte` after that of s->blanks, which is over
 * then. */
typedef bool kt__layout_fn(kt__grammar *g, const kt__gstate *s);
bool kt__layout_blank(kt__grammar *g, kt__gstate *s, uint8_t byte, kt__layout_fn *part);
bool kt__layout_part(kt__grammar *g, kt__gstate *s, uint8_t byte);
/* The blank that most likely comes where others may; 0: none is more likely. */
uint8_t kt__layout_usual(const kt__grammar *g, const kt__gstate *s);
bool kt__text_step(kt__grammar *g, kt__gstate *s, uint8_t byte);
/* A byte of what is around the body. */
bool kt__around_step(kt__grammar *g, kt__gstate *s, uint8_t byte);
bool kt__json_accepts(kt__grammar *g, const kt__gstate *s);
/* Ends the string that is being read, as the quote does. */
bool kt__json_close_string(kt__grammar *g, kt__gstate *s);
/* KT__G_KEY of a name that ends here: its index among the schema's (0: none of them) and the
 * patterns it fits. */
kt__gid kt__json_name_key(kt__grammar *g, const kt__gstate *s, uint32_t name);
/* Ends the name as one of this key; it is not added to the names that were used. */
bool kt__json_close_name_as(kt__grammar *g, kt__gstate *s, kt__gid key);

bool kt__pieces_step(kt__grammar *g, kt__gstate *s, uint8_t byte); /* pieces.c */
static inline bool kt__gstate_step(kt__grammar *g, kt__gstate *s, uint8_t byte) {
    if (s->mode >= KT__M_BEFORE) return kt__around_step(g, s, byte);
    if (g->is_pieces) return kt__pieces_step(g, s, byte);
    return g->is_json ? kt__json_step(g, s, byte) : kt__text_step(g, s, byte);
}
static inline uint32_t kt__gframe_word(const kt__grammar *g, kt__gid frame, kt__gframe word) {
    return kt__g_arg(&g->t.pool, frame, (uint32_t)word);
}

/* A byte of a string or a name that is not the quote at its end. */
bool kt__json_string_step(kt__grammar *g, kt__gstate *s, uint8_t byte);
/* A byte of UTF-8, where lex and hex say what may come. */
bool kt__utf8_step(kt__gstate *s, uint8_t byte);

static inline uint64_t kt__ghash_mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * UINT64_C(0x9FB21C651E98DF25);
    return h ^ h >> 29;
}

/* Texts made of pieces: fixed ones, JSON values, and characters up to a mark.
 *
 * Reading the description of such a text. It is one JSON object: {"prefixItems": [schema...], "pieces": PIECE}, and a
 * PIECE is a text as it is; a list of pieces, one after the other; or {"any": [PIECE...]} one of them {"json": N} a
 * JSON value by schema N {"text": N, "until": MARK} characters without MARK in them; as a JSON string of them, valid
 * by schema N (without "text": any) {"each": [PIECE...], "must": [N...], "with": T} each at most once, in any order,
 * those of "must" in any case, T between them {"some": PIECE, "min": N, "max": N, "with": T} so many times (no "max":
 * any number) "later", a list, has texts that a caller begins by their number (kt__grammar_start_later). Where a JSON
 * value may be, nothing else may begin as it does, and no other JSON value. One user at a time. */

/* The schemas are read already. KT_E_FORMAT where the description is malformed, KT_E_LIMIT. */
kt_status KT_CHECKED kt__pieces_read(kt__grammar *g, kt__gid *root, kt_error *err);

/* The state where a text of this term begins. */
void kt__pieces_begin(kt__grammar *g, kt__gstate *s, kt__gid term);
bool kt__pieces_accepts(kt__grammar *g, const kt__gstate *s);

#endif
