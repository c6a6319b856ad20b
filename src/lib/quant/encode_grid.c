/* The search for the nearest block of a codebook type.
 *
 * A vector of 8 or 4 weights x costs, with entry e at scale s, sum w (x - s e)^2: less than nothing
 * at all by the gain 2 s a - s^2 b with a = sum w x e, b = sum w e^2. Over all scales few entries
 * are ever the best (the points (b, a) on the upper hull), so those that are best at one of some
 * scales across the likely range are kept, and a block's scales are then searched with these alone. */
#include "quant/codec.h"

#include <math.h>
#include <string.h>

#include "quant/blocks.h"
#include "quant/grids.h"

enum { MAX_ENTRIES = 2048, MAX_KEPT = 16, MAX_VECTORS = 64, MAX_PARTS = 81 };

/* ---- what the types are ---- */

typedef struct grid_form {
    const uint16_t *codes;
    int n_entry, n_base; /* base 3: 8 weights; base 8: 4 */
    float level[8];      /* of a digit */
    float unit;          /* d's factor in a weight: unit * d * (2 s + 1) * level */
    int n_scale;         /* of a block: 8 or 16 */
    int scale_top;       /* largest s */
    bool even;           /* an even number of weights of each 8 is negative */
    float shift;         /* is added to all levels of a vector, or taken off; 0: signs are free */
    bool shift_by_group; /* the same for the vectors of 32 weights */
    float range_lo,
        range_hi; /* scales that are tried, in units of largest weight / largest level */
} grid_form;

static const grid_form forms[] = {
#define IQ2_LEVELS .n_base = 3, .level = {8, 25, 43}, .unit = 0.125f, .scale_top = 15
#define IQ1_LEVELS                                                                        \
    .codes = kt__codes_iq1, .n_entry = 2048, .n_base = 3, .level = {-1, 0, 1}, .unit = 1, \
    .scale_top = 7, .shift = 0.125f, .range_lo = 0.35f, .range_hi = 1.4f
#define FREE_RANGE .range_lo = 0.45f, .range_hi = 2.2f
    {.codes = kt__codes_iq2_xxs,
     .n_entry = 256,
     IQ2_LEVELS,
     .n_scale = 8,
     .even = true,
     FREE_RANGE},
    {.codes = kt__codes_iq2_xs,
     .n_entry = 512,
     IQ2_LEVELS,
     .n_scale = 16,
     .even = true,
     FREE_RANGE},
    {.codes = kt__codes_iq2_s, .n_entry = 1024, IQ2_LEVELS, .n_scale = 16, FREE_RANGE},
    {.codes = kt__codes_iq3_xxs,
     .n_entry = 256,
     .n_base = 8,
     .level = {4, 12, 20, 28, 36, 44, 52, 62},
     .unit = 0.25f,
     .n_scale = 8,
     .scale_top = 15,
     .even = true,
     FREE_RANGE},
    {.codes = kt__codes_iq3_s,
     .n_entry = 512,
     .n_base = 8,
     .level = {1, 3, 5, 7, 9, 11, 13, 15},
     .unit = 1,
     .n_scale = 8,
     .scale_top = 15,
     FREE_RANGE},
    {IQ1_LEVELS, .n_scale = 8, .shift_by_group = true},
    {IQ1_LEVELS, .n_scale = 16},
};
enum { IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ1_S, IQ1_M };

static int vector_length(const grid_form *form) {
    return form->n_base == 3 ? 8 : 4;
}

static float top_level(const grid_form *form) {
    return form->level[form->n_base - 1] + form->shift;
}

/* ---- one vector ---- */

typedef struct kept_entries {
    int n, at[MAX_KEPT];
    float a[MAX_KEPT], b[MAX_KEPT];
} kept_entries;

/* The block at work. */
typedef struct grid_search {
    const grid_form *form;
    int n_try;          /* scales that shortlists are made with */
    const float *x, *w; /* [256] */
    float size[256];    /* x with its sign taken off; the chosen one of an odd
                                                number keeps its own */
    uint8_t signs[32];
    kept_entries kept[2][MAX_VECTORS];    /* [shifted down] */
    float a[MAX_ENTRIES], b[MAX_ENTRIES]; /* of the vector at hand */
    /* the answer */
    int scale[16], entry[MAX_VECTORS];
    bool down[MAX_VECTORS];
    float d;
} grid_search;

/* Sums of half a vector for every value that its digits have. */
static void half_sums(const grid_form *form, float shift, const float *x, const float *w, float *a,
                      float *b) {
    int n = vector_length(form) / 2, n_part = 1;
    a[0] = b[0] = 0;
    for (int j = 0; j < n; j++, n_part *= form->n_base) {
        for (int digit = form->n_base - 1; digit >= 0; digit--) { /* the first overwrites */
            float level = form->level[digit] + shift;
            float da = w[j] * x[j] * level, db = w[j] * level * level;
            for (int p = 0; p < n_part; p++) {
                a[digit * n_part + p] = a[p] + da;
                b[digit * n_part + p] = b[p] + db;
            }
        }
    }
}

/* a and b of every entry for one vector. */
static void entry_sums(grid_search *s, float shift, const float *x, const float *w) {
    const grid_form *form = s->form;
    const int half = vector_length(form) / 2, n_part = form->n_base == 3 ? 81 : 64;
    float a[2][MAX_PARTS], b[2][MAX_PARTS];
    half_sums(form, shift, x, w, a[0], b[0]);
    half_sums(form, shift, x + half, w + half, a[1], b[1]);
    for (int e = 0; e < form->n_entry; e++) {
        int low = form->codes[e] % n_part, high = form->codes[e] / n_part;
        s->a[e] = a[0][low] + a[1][high];
        s->b[e] = b[0][low] + b[1][high];
    }
}

/* The entry with the largest gain at a scale. */
static int best_entry(const grid_search *s, float scale) {
    enum { WIDE = 16 };
    const float twice = 2.0f * scale, square = scale * scale;
    float lane[WIDE], most = -INFINITY;
    for (int l = 0; l < WIDE; l++) lane[l] = -INFINITY;
    for (int e = 0; e < s->form->n_entry; e += WIDE) {
        for (int l = 0; l < WIDE; l++) {
            float gain = twice * s->a[e + l] - square * s->b[e + l];
            lane[l] = gain > lane[l] ? gain : lane[l];
        }
    }
    for (int l = 0; l < WIDE; l++) most = lane[l] > most ? lane[l] : most;
    for (int e = 0; e < s->form->n_entry; e++)
        if (twice * s->a[e] - square * s->b[e] >= most) return e;
    return 0; /* sums that are no numbers */
}

/* The k-th: of a range, and last that with which the largest weight has the lowest level, so that
 * equal weights are exact. */
static float scale_tried(const grid_search *s, float top, int k) {
    const grid_form *form = s->form;
    float step = (float)k / (float)(s->n_try - 2);
    if (k == s->n_try - 1 && form->shift == 0) return top / form->level[0];
    return top / top_level(form) * form->range_lo * powf(form->range_hi / form->range_lo, step);
}

static void keep_entries(grid_search *s, float top, kept_entries *kept) {
    kept->n = 0;
    for (int k = 0; k < s->n_try; k++) {
        int e = best_entry(s, scale_tried(s, top, k));
        if (kept->n && kept->at[kept->n - 1] == e) continue;
        kept->at[kept->n] = e;
        kept->a[kept->n] = s->a[e];
        kept->b[kept->n++] = s->b[e];
    }
}

static int best_kept(const kept_entries *kept, float scale, float *gain) {
    int best = 0;
    for (int k = 0; k < kept->n; k++) {
        float here = 2.0f * scale * kept->a[k] - scale * scale * kept->b[k];
        if (k && !(here > *gain)) continue;
        *gain = here;
        best = k;
    }
    return best;
}

/* ---- signs ---- */

/* Takes the signs off; where their number must be even and is not, the weight with the least to lose
 * gets the other sign. */
static void split_signs(grid_search *s) {
    for (int i = 0; i < 256; i += 8) {
        int signs = 0, least = i;
        for (int j = i; j < i + 8; j++) {
            s->size[j] = fabsf(s->x[j]);
            if (s->x[j] < 0) signs |= 1 << (j - i);
            if (s->w[j] * s->size[j] < s->w[least] * s->size[least]) least = j;
        }
        if (s->form->even && __builtin_parity((unsigned)signs)) {
            signs ^= 1 << (least - i);
            s->size[least] = -s->size[least];
        }
        s->signs[i / 8] = (uint8_t)signs;
    }
}

/* ---- scales ---- */

/* A run of vectors [from, to) at a scale, all shifted as `down` says (-1: each as it is best). */
static float run_gain(const grid_search *s, int from, int to, int down, float scale, float *a,
                      float *b) {
    float sum = 0;
    *a = *b = 0;
    for (int v = from; v < to; v++) {
        float gain = 0, other = 0;
        const kept_entries *kept = &s->kept[down > 0][v];
        int k = best_kept(kept, scale, &gain);
        if (down < 0 && s->form->shift != 0) {
            int k2 = best_kept(&s->kept[1][v], scale, &other);
            if (other > gain) gain = other, k = k2, kept = &s->kept[1][v];
        }
        sum += gain;
        *a += kept->a[k];
        *b += kept->b[k];
    }
    return sum;
}

/* The vectors of a scale: their largest gain, whichever way they are shifted. */
static float scale_gain(const grid_search *s, int g, float scale, float *a, float *b) {
    int n = 256 / vector_length(s->form) / s->form->n_scale;
    if (!s->form->shift_by_group) return run_gain(s, g * n, (g + 1) * n, -1, scale, a, b);
    float a_down, b_down, up = run_gain(s, g * n, (g + 1) * n, 0, scale, a, b);
    float down = run_gain(s, g * n, (g + 1) * n, 1, scale, &a_down, &b_down);
    if (!(down > up)) return up;
    *a = a_down, *b = b_down;
    return down;
}

/* The scale that suits group g alone: the best that is tried, then where its entries have their
 * least error. */
static float own_scale(const grid_search *s, int g, float top) {
    float best = 0, best_gain = 0, a, b;
    for (int k = 0; k < s->n_try; k++) {
        float scale = scale_tried(s, top, k), gain = scale_gain(s, g, scale, &a, &b);
        if (!(gain > best_gain)) continue;
        best_gain = gain;
        best = b > 0 ? a / b : scale;
    }
    return best;
}

/* The integer scale of group g for d: the better of those around what suits it alone. */
static int integer_scale(const grid_search *s, int g, float d, float own, float *gain, float *a,
                         float *b) {
    int near = (int)((own / d - 1.0f) * 0.5f), best = 0; /* rounded down */
    *gain = -INFINITY;
    for (int k = near; k <= near + 1; k++) {
        int scale = k < 0 ? 0 : k > s->form->scale_top ? s->form->scale_top : k;
        float a_here, b_here, odd = (float)(2 * scale + 1);
        float here = scale_gain(s, g, d * odd, &a_here, &b_here);
        if (!(here > *gain)) continue;
        *gain = here;
        *a = a_here * odd;
        *b = b_here * odd * odd;
        best = scale;
    }
    return best;
}

/* The gain of a block with d (unit included), and d where the same entries would have the least
 * error. */
static float block_gain(const grid_search *s, const float *own, float d, int *scale,
                        float *better) {
    float sum = 0, sum_a = 0, sum_b = 0;
    for (int g = 0; g < s->form->n_scale; g++) {
        float gain, a = 0, b = 0;
        scale[g] = integer_scale(s, g, d, own[g], &gain, &a, &b);
        sum += gain;
        sum_a += a;
        sum_b += b;
    }
    *better = sum_b > 0 ? sum_a / sum_b : d;
    return sum;
}

/* d in f16, as blocks have it, times the unit. */
static float d_rounded(const grid_form *form, float d) {
    return kt__f16_to_f32(kt__f16_saturate(d / form->unit)) * form->unit;
}

static void try_d(grid_search *s, const float *own, float d, float *most, float *better) {
    int scale[16];
    d = d_rounded(s->form, d);
    if (!(d > 0)) return;
    float gain = block_gain(s, own, d, scale, better);
    if (!(gain > *most)) return;
    *most = gain;
    s->d = d;
    memcpy(s->scale, scale, sizeof scale);
}

/* The block's d: that which makes the largest scale one of the largest odd numbers, refined. */
static void find_d(grid_search *s, const float *own, kt__effort effort) {
    const int odd_top = 2 * s->form->scale_top + 1, n_top = effort == KT__EFFORT_CAREFUL ? 7 : 3;
    float largest = 0, most = 0, better = 0;
    s->d = 0;
    memset(s->scale, 0, sizeof s->scale);
    for (int g = 0; g < s->form->n_scale; g++) largest = own[g] > largest ? own[g] : largest;
    if (!(largest > 0)) return;
    for (int k = 0; k < n_top; k++) {
        float from = (float)odd_top + 1.0f - (float)k * (float)odd_top / 12.0f;
        try_d(s, own, largest / from, &most, &better);
        for (int i = 0; i < 2 && effort == KT__EFFORT_CAREFUL; i++)
            try_d(s, own, better, &most, &better);
    }
}

/* ---- entries ---- */

/* The best entries of vectors [from, to), and their gain. */
static float choose_run(grid_search *s, int from, int to, bool down, float scale) {
    float sum = 0;
    for (int v = from; v < to; v++) {
        float gain = 0;
        s->entry[v] = s->kept[down][v].at[best_kept(&s->kept[down][v], scale, &gain)];
        s->down[v] = down;
        sum += gain;
    }
    return sum;
}

static void choose_entries(grid_search *s) {
    const int length = vector_length(s->form), run = s->form->shift_by_group ? 32 / length : 1;
    for (int v = 0; v < 256 / length; v += run) {
        float scale = s->d * (float)(2 * s->scale[v * length * s->form->n_scale / 256] + 1);
        if (s->form->shift == 0) {
            choose_run(s, v, v + run, false, scale);
            continue;
        }
        if (choose_run(s, v, v + run, true, scale) > choose_run(s, v, v + run, false, scale))
            choose_run(s, v, v + run, true, scale);
    }
}

/* The best entry of vector v at a scale among all, and its gain. */
static int exact_entry(grid_search *s, int v, float scale, float *gain) {
    int length = vector_length(s->form);
    entry_sums(s, 0, s->size + v * length, s->w + v * length);
    int e = best_entry(s, scale);
    *gain = 2.0f * scale * s->a[e] - scale * scale * s->b[e];
    return e;
}

/* Of 8 weights whose number of signs is odd: which one takes the other sign, now that the scale is
 * known. */
static void choose_flip(grid_search *s, int eight) {
    const int length = vector_length(s->form), n = 8 / length, first = eight * n;
    float scale = s->d * (float)(2 * s->scale[eight * 8 * s->form->n_scale / 256] + 1);
    float *size = s->size + 8 * eight, plain[2], best = -INFINITY;
    int plain_entry[2], entry[2] = {0, 0}, flip = 0;
    for (int j = 0; j < 8; j++) size[j] = fabsf(size[j]);
    for (int v = 0; v < n; v++) plain_entry[v] = exact_entry(s, first + v, scale, &plain[v]);
    for (int j = 0; j < 8; j++) {
        int v = j / length;
        float gain;
        size[j] = -size[j];
        int e = exact_entry(s, first + v, scale, &gain);
        size[j] = -size[j];
        if (!(gain - plain[v] > best)) continue;
        best = gain - plain[v];
        flip = j;
        for (int u = 0; u < n; u++) entry[u] = u == v ? e : plain_entry[u];
    }
    int signs = 1 << flip;
    for (int j = 0; j < 8; j++)
        if (s->x[8 * eight + j] < 0) signs ^= 1 << j;
    s->signs[eight] = (uint8_t)signs;
    size[flip] = -size[flip];
    for (int v = 0; v < n; v++) s->entry[first + v] = entry[v];
}

static void choose_flips(grid_search *s) {
    for (int eight = 0; eight < 32; eight++) {
        bool odd = false;
        for (int j = 8 * eight; j < 8 * eight + 8; j++) odd ^= s->x[j] < 0;
        if (odd) choose_flip(s, eight);
    }
}

/* d where the chosen entries have their least error. */
static void refine_d(grid_search *s) {
    const grid_form *form = s->form;
    const int length = vector_length(form);
    float a = 0, b = 0;
    for (int i = 0; i < 256; i++) {
        int v = i / length, code = form->codes[s->entry[v]];
        for (int j = i % length; j > 0; j--) code /= form->n_base;
        float level = form->level[code % form->n_base] + (s->down[v] ? -form->shift : form->shift);
        float q = level * (float)(2 * s->scale[i * form->n_scale / 256] + 1);
        a += s->w[i] * (form->shift != 0 ? s->x[i] : s->size[i]) * q;
        b += s->w[i] * q * q;
    }
    if (b > 0 && a > 0) s->d = d_rounded(form, a / b);
}

/* ---- a block ---- */

static float largest_size(const float *x, int n) {
    float top = 0;
    for (int i = 0; i < n; i++) top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
    return top;
}

static void search_block(grid_search *s, int type, kt__effort effort, const float *x,
                         const float *w) {
    const grid_form *form = s->form = &forms[type];
    const int length = vector_length(form), per_scale = 256 / form->n_scale;
    float own[16];
    s->x = x, s->w = w;
    s->n_try = effort == KT__EFFORT_CAREFUL ? MAX_KEPT : 8;
    split_signs(s);
    const float *size = form->shift != 0 ? x : s->size;
    for (int g = 0; g < form->n_scale; g++) {
        float top = largest_size(x + g * per_scale, per_scale);
        for (int v = g * per_scale / length; v < (g + 1) * per_scale / length; v++) {
            entry_sums(s, form->shift, size + v * length, w + v * length);
            keep_entries(s, top, &s->kept[0][v]);
            if (form->shift == 0) continue;
            entry_sums(s, -form->shift, size + v * length, w + v * length);
            keep_entries(s, top, &s->kept[1][v]);
        }
        own[g] = own_scale(s, g, top);
    }
    memset(s->down, 0, sizeof s->down);
    find_d(s, own, effort);
    choose_entries(s);
    if (form->even && s->d > 0) choose_flips(s);
    refine_d(s);
}

static kt__f16 d_of(const grid_search *s) {
    return kt__f16_saturate(s->d / s->form->unit);
}

static void pack_nibble_scales(const int *scale, int n, uint8_t *out) {
    for (int i = 0; i < n; i += 2) out[i / 2] = (uint8_t)(scale[i] | scale[i + 1] << 4);
}

static uint32_t with_field(uint32_t x, int at, uint32_t mask, uint32_t value) {
    return (x & ~(mask << at)) | value << at;
}

static uint8_t with_bits(uint8_t x, int at, int mask, int value) {
    return (uint8_t)with_field(x, at, (uint32_t)mask, (uint32_t)value);
}

/* The entries and signs of eight weights, the i-th of a block's 32. */
static void put_eight(int type, void *block, int i, const int *entry, uint8_t signs) {
    if (type == IQ2_XXS) {
        kt__iq2_xxs *b = block;
        b->group[i / 4].index[i % 4] = (uint8_t)entry[0];
        b->group[i / 4].rest = with_field(b->group[i / 4].rest, i % 4 * 7, 127, signs & 127);
    } else if (type == IQ2_XS) {
        ((kt__iq2_xs *)block)->qs[i] = (uint16_t)(entry[0] | (signs & 127) << 9);
    } else if (type == IQ2_S) {
        kt__iq2_s *b = block;
        b->qs[i] = (uint8_t)entry[0];
        b->qh[i / 4] = with_bits(b->qh[i / 4], i % 4 * 2, 3, entry[0] >> 8);
        b->signs[i] = signs;
    } else if (type == IQ3_XXS) {
        kt__iq3_xxs *b = block;
        for (int k = 0; k < 2; k++) b->qs[2 * i + k] = (uint8_t)entry[k];
        b->rest[i / 4] = with_field(b->rest[i / 4], i % 4 * 7, 127, signs & 127);
    } else {
        kt__iq3_s *b = block;
        for (int k = 0; k < 2; k++) {
            b->qs[2 * i + k] = (uint8_t)entry[k];
            b->qh[i / 4] = with_bits(b->qh[i / 4], (2 * i + k) % 8, 1, entry[k] >> 8);
        }
        b->signs[i] = signs;
    }
}

static void put_eights(const grid_search *s, int type, int from, int to, void *block) {
    const int n = 8 / vector_length(s->form);
    for (int i = from; i < to; i++) put_eight(type, block, i, s->entry + n * i, s->signs[i]);
}

void kt__encode_IQ2_XXS(kt__effort effort, const float *x, const float *w, void *block) {
    grid_search s;
    kt__iq2_xxs *b = block;
    search_block(&s, IQ2_XXS, effort, x, w);
    b->d = d_of(&s);
    for (int g = 0; g < 8; g++) b->group[g].rest = (uint32_t)s.scale[g] << 28;
    put_eights(&s, IQ2_XXS, 0, 32, b);
}

void kt__encode_IQ2_XS(kt__effort effort, const float *x, const float *w, void *block) {
    grid_search s;
    kt__iq2_xs *b = block;
    search_block(&s, IQ2_XS, effort, x, w);
    b->d = d_of(&s);
    pack_nibble_scales(s.scale, 16, b->scales);
    put_eights(&s, IQ2_XS, 0, 32, b);
}

void kt__encode_IQ2_S(kt__effort effort, const float *x, const float *w, void *block) {
    grid_search s;
    kt__iq2_s *b = block;
    search_block(&s, IQ2_S, effort, x, w);
    b->d = d_of(&s);
    pack_nibble_scales(s.scale, 16, b->scales);
    put_eights(&s, IQ2_S, 0, 32, b);
}

void kt__encode_IQ3_XXS(kt__effort effort, const float *x, const float *w, void *block) {
    grid_search s;
    kt__iq3_xxs *b = block;
    search_block(&s, IQ3_XXS, effort, x, w);
    b->d = d_of(&s);
    for (int g = 0; g < 8; g++) b->rest[g] = (uint32_t)s.scale[g] << 28;
    put_eights(&s, IQ3_XXS, 0, 32, b);
}

void kt__encode_IQ3_S(kt__effort effort, const float *x, const float *w, void *block) {
    grid_search s;
    kt__iq3_s *b = block;
    search_block(&s, IQ3_S, effort, x, w);
    b->d = d_of(&s);
    pack_nibble_scales(s.scale, 8, b->scales);
    put_eights(&s, IQ3_S, 0, 32, b);
}

/* ---- some weights of a block anew, its scales kept ---- */

static void choose_again(int type, const kt__super *now, const float *x, const float *w, int first,
                         int n, void *block) {
    grid_search s;
    float all_x[256] = {0}, all_w[256] = {0};
    const grid_form *form = s.form = &forms[type];
    const int length = vector_length(form);
    memcpy(all_x + first, x, (size_t)n * sizeof *x);
    memcpy(all_w + first, w, (size_t)n * sizeof *w);
    s.x = all_x, s.w = all_w, s.d = now->d;
    for (int g = 0; g < form->n_scale; g++)
        s.scale[g] = (now->scale[g * 16 / form->n_scale] - 1) / 2;
    split_signs(&s);
    for (int v = first / length; v < (first + n) / length; v++) {
        float gain, scale = s.d * (float)now->scale[v * length / 16];
        s.entry[v] = exact_entry(&s, v, scale, &gain);
    }
    if (form->even && s.d > 0) choose_flips(&s);
    put_eights(&s, type, first / 8, (first + n) / 8, block);
}

#define CHOOSE(NAME)                                                                               \
    void kt__choose_##NAME(const kt__super *now, const float *x, const float *w, int first, int n, \
                           void *block) {                                                          \
        choose_again(NAME, now, x, w, first, n, block);                                            \
    }
CHOOSE(IQ2_XXS)
CHOOSE(IQ2_XS)
CHOOSE(IQ2_S)
CHOOSE(IQ3_XXS)
CHOOSE(IQ3_S)

/* ---- IQ1 ---- */

void kt__encode_IQ1_S(kt__effort effort, const float *x, const float *w, void *block) {
    grid_search s;
    kt__iq1_s *b = block;
    search_block(&s, IQ1_S, effort, x, w);
    b->d = d_of(&s);
    for (int g = 0; g < 8; g++)
        b->qh[g] = (uint16_t)(s.scale[g] << 12 | (s.down[4 * g] ? 0x8000 : 0));
    for (int v = 0; v < 32; v++) {
        b->qs[v] = (uint8_t)s.entry[v];
        b->qh[v / 4] |= (uint16_t)((s.entry[v] >> 8) << v % 4 * 3);
    }
}

void kt__encode_IQ1_M(kt__effort effort, const float *x, const float *w, void *block) {
    grid_search s;
    kt__iq1_m *b = block;
    search_block(&s, IQ1_M, effort, x, w);
    memset(b, 0, sizeof *b);
    for (int i = 0; i < 4; i++) b->scales[i] = (uint16_t)((d_of(&s) >> 4 * i & 15) << 12);
    for (int g = 0; g < 16; g++) b->scales[g / 4] |= (uint16_t)(s.scale[g] << g % 4 * 3);
    for (int v = 0; v < 32; v++) {
        b->qs[v] = (uint8_t)s.entry[v];
        b->qh[v / 2] |= (uint8_t)((s.entry[v] >> 8 | (s.down[v] ? 8 : 0)) << v % 2 * 4);
    }
}
