/* White space between the parts of JSON: where it may be, and how much.
 *
 * A model that may not write the blanks it was trained with meets tokens that it never saw there,
 * and writes something else than it meant. What is taken here is what models write by themselves,
 * bounded so that no answer runs away in blanks: each run of blanks has its end, and is taken only
 * where a part can follow it. */
#include <string.h>

#include "grammar/grammar_impl.h"

/* s->blanks: 0; SPACE; after a line's end LINE and the number of spaces, or TABS and that of tabs. */
enum { SPACE = 1, LINE = 2, TABS = 192 };

/* The step of the indent, in KT__FM_INDENT's place: not known yet; one tab; or FLUSH and a number of
 * spaces. */
enum { UNKNOWN = 0, FLUSH = 1, MOST_SPACES = 8, TAB = 15, STEPS = 16 };
enum { MOST_LEVELS = 16, LEVELS = KT__FM_BASE / KT__FM_LEVEL };

static uint32_t meta_of(const kt__grammar *g, const kt__gstate *s) {
    return s->frame ? kt__gframe_word(g, s->frame, KT__F_META) : 0;
}

static bool set_meta(kt__grammar *g, kt__gstate *s, uint32_t meta) {
    uint32_t words[KT__F_N];
    memcpy(words, kt__g_data(&g->t.pool, s->frame), sizeof words);
    words[KT__F_META] = meta;
    s->frame = kt__gpool_intern(&g->t.pool, KT__G_FRAME, words, KT__F_N);
    return !g->t.pool.failed;
}

static uint32_t step_of(uint32_t meta) {
    return meta / KT__FM_INDENT % STEPS;
}

static uint32_t level_of(uint32_t meta) {
    return meta / KT__FM_LEVEL % LEVELS;
}

static uint32_t base_of(uint32_t meta) {
    return meta % KT__FM_DEPTH / KT__FM_BASE;
}

static bool ends_container(const kt__gstate *s) {
    return s->mode == KT__M_AFTER;
}

/* ---- where ---- */

/* After a colon, a comma or an opening bracket; before a closing one, as after the opening one. */
static bool may_be_space(kt__grammar *g, const kt__gstate *s, kt__layout_fn *part) {
    switch (s->mode) {
    case KT__M_KEY:
    case KT__M_VALUE: return true;
    case KT__M_KEY_OR_END:
    case KT__M_ITEM_OR_END: return part(g, s);
    case KT__M_AFTER: return meta_of(g, s) & KT__FM_ROOMY && part(g, s);
    default: return false;
    }
}

/* Before a container's first part; where that is on a line of its own, before others and the
 * closing bracket, too. */
static bool may_be_line(kt__grammar *g, const kt__gstate *s, kt__layout_fn *part) {
    uint32_t meta = meta_of(g, s);
    switch (s->mode) {
    case KT__M_KEY_OR_END:
    case KT__M_ITEM_OR_END: return level_of(meta) < MOST_LEVELS && part(g, s);
    case KT__M_KEY: return meta & KT__FM_LINES;
    case KT__M_VALUE: return meta & KT__FM_ARRAY && meta & KT__FM_LINES; /* no colon's */
    case KT__M_AFTER: return meta & KT__FM_LINES && part(g, s);
    default: return false;
    }
}

/* ---- how much ---- */

/* Whether one more blank follows the n that a line begins with. */
static bool may_indent(const kt__gstate *s, uint32_t meta, uint8_t b) {
    uint32_t step = step_of(meta), levels = level_of(meta) - ends_container(s);
    uint32_t base = base_of(meta);
    uint32_t n = s->blanks - (uint32_t)(s->blanks >= TABS ? TABS : LINE);
    if (b == '\t') {
        if (n > 0 && s->blanks < TABS) return false;
        return step == TAB ? n < base + levels : step == UNKNOWN && n <= base;
    }
    if (b != ' ' || s->blanks >= TABS || step == TAB) return false;
    return n < base + (step == UNKNOWN ? MOST_SPACES : (step - FLUSH) * levels);
}

static bool first_blank(kt__grammar *g, kt__gstate *s, uint8_t b, kt__layout_fn *part) {
    bool opens = s->mode == KT__M_KEY_OR_END || s->mode == KT__M_ITEM_OR_END;
    uint32_t meta = meta_of(g, s);
    if (b == ' ') {
        if (!may_be_space(g, s, part)) return false;
        s->blanks = SPACE;
        return !opens || set_meta(g, s, meta | KT__FM_ROOMY);
    }
    if (b != '\n' || !may_be_line(g, s, part)) return false;
    s->blanks = LINE;
    return !opens || set_meta(g, s, (meta | KT__FM_LINES) + KT__FM_LEVEL);
}

static bool usual_blank(kt__grammar *g, kt__gstate *s, uint8_t b, kt__layout_fn *part) {
    if (!s->frame) return false;
    if (s->blanks == 0) return first_blank(g, s, b, part);
    if (s->blanks < LINE || !may_indent(s, meta_of(g, s), b)) return false;
    s->blanks = b == '\t' && s->blanks == LINE ? TABS + 1 : (uint8_t)(s->blanks + 1);
    return true;
}

/* One space; or a line end and a few blanks. */
static bool any_blank(kt__gstate *s, uint8_t b) {
    if (s->mode == KT__M_END) return false;
    if (s->blanks == 0) {
        s->blanks = b == '\n' ? LINE : SPACE;
        return b == '\n' || b == ' ';
    }
    return s->blanks >= LINE && b != '\n' && b != '\r' && s->blanks++ < LINE + KT__GRAMMAR_BLANKS;
}

/* After a comma or a colon a space, or a line's end where the container's first part has a line of its own: what a text
 * that has begun so has next. */
uint8_t kt__layout_usual(const kt__grammar *g, const kt__gstate *s) {
    bool part = s->mode == KT__M_KEY || s->mode == KT__M_VALUE;
    if (g->layout == KT__LAYOUT_NONE || !part || !s->frame || s->blanks > 0) return 0;
    uint32_t meta = meta_of(g, s);
    bool item = s->mode == KT__M_KEY || meta & KT__FM_ARRAY;
    return g->layout == KT__LAYOUT_USUAL && item && meta & KT__FM_LINES ? '\n' : ' ';
}

bool kt__layout_blank(kt__grammar *g, kt__gstate *s, uint8_t b, kt__layout_fn *part) {
    switch (g->layout) {
    case KT__LAYOUT_USUAL: return usual_blank(g, s, b, part);
    case KT__LAYOUT_ANY: return any_blank(s, b);
    default: return false;
    }
}

/* ---- a part begins ---- */

/* The first line's indent is the step of all. */
static bool keep_step(kt__grammar *g, kt__gstate *s, uint32_t meta) {
    uint32_t n = s->blanks - (uint32_t)(s->blanks >= TABS ? TABS : LINE), base = base_of(meta);
    if (s->blanks >= TABS ? n != base + 1 : n < base) return false;
    uint32_t step = s->blanks >= TABS ? TAB : n - base + FLUSH;
    return set_meta(g, s, meta + step * KT__FM_INDENT);
}

static bool line_is_indented(const kt__gstate *s, uint32_t meta) {
    uint32_t step = step_of(meta), levels = level_of(meta) - ends_container(s);
    uint32_t base = base_of(meta);
    if (step == TAB) return s->blanks == (base + levels ? TABS + base + levels : LINE);
    return s->blanks == LINE + base + (step - FLUSH) * levels;
}

bool kt__layout_part(kt__grammar *g, kt__gstate *s, uint8_t b) {
    uint32_t meta = meta_of(g, s);
    bool closes = b == '}' || b == ']', closing_place = ends_container(s);
    bool usual = g->layout == KT__LAYOUT_USUAL, line = s->blanks >= LINE;
    if (usual && closes != closing_place) return false;
    if (usual && line && step_of(meta) == UNKNOWN) {
        if (!keep_step(g, s, meta)) return false;
    } else if (usual && line && !line_is_indented(s, meta)) {
        return false;
    }
    s->blanks = 0;
    return true;
}
