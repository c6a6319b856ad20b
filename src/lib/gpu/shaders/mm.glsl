/* Weights of all types with integer products (NUMERICS, 6), as their shaders take them: in units of 256
 * columns, pieces of 64, halves of 32, groups of 16.
 *
 * KIND: 0 Q4_K, 1 Q5_K, 2 Q6_K, 3 Q2_K, 4 Q3_K, 5 Q4_0, 6 Q4_1, 7 Q5_0, 8 Q5_1, 9 Q8_0, 10 IQ4_NL. at: weights,
 * activations, out, bias, residual. n: bytes of a row, rows, columns, bytes of an activation row and where its d,
 * s16 and s32 are, floats of a row of out and of residual, 1 bias + 2 residual, tokens, units at once (as a power
 * of 2). A row begins at a whole word, or in the middle of one where its type has an odd number of halves.
 * at 5, 6 and 4 + 8 of the tenth number: runs.glsl.
 *
 * DOTS: the device multiplies four bytes by four at once. Else levels and activations are multiplied as floats:
 * sums of up to 32 products stay below 2^24, and are exact in any order. */
#extension GL_EXT_control_flow_attributes : require
#include "runs.glsl"

#ifdef DOTS
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int signed_dot(uint a, uint b, spirv_literal int packed_bytes);
#define Sum int
#define Four uint
const bool UPPER_AS_IT_IS = false; /* a byte of a dot has a sign */
#else
const bool UPPER_AS_IT_IS = KIND == 0;
#define Sum float
#define Four vec4
#endif

const bool BY_256 = KIND < 5;
const bool WIDE = KIND <= 1;         /* a scale counts for 32 columns, else for 16 */
const bool IN_PAIRS = WIDE || !BY_256; /* of groups */
const bool HAS_MIN = KIND <= 1 || KIND == 3 || KIND == 6 || KIND == 8;
const bool HAS_SIGN = KIND >= 9;
const int OFFSET = KIND == 2 ? 32 : KIND == 4 ? 4 : KIND == 5 ? 8 : KIND == 7 ? 16 : 0;
const bool NEEDS_SUM = HAS_MIN || OFFSET != 0;
const bool IN_WORDS = KIND <= 1 || KIND == 3 || KIND == 6 || KIND == 8; /* blocks are whole words */
const uint BLOCK[11] = uint[](144u, 176u, 210u, 84u, 110u, 18u, 20u, 22u, 24u, 34u, 18u);
uint unit_bytes() {
    uint block = BLOCK[KIND]; /* glslang folds no index into a constant of a specialization */
    return BY_256 ? block : 8u * block;
}

/* quant/blocks.h: the levels of IQ4_NL */
const int LEVELS[16] = int[](-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);

uint n_unit() { return (pc.n[2] + 255u) / 256u; }

#ifdef DOTS
Four activations_of(uint word) { return word; }
#else
vec4 activations_of(uint word) {
    int x = int(word);
    return vec4(bitfieldExtract(x, 0, 8), bitfieldExtract(x, 8, 8), bitfieldExtract(x, 16, 8), x >> 24);
}

vec4 floats_of(uint q) {
    if (HAS_SIGN) return activations_of(q);
    return vec4(q & 255u, q >> 8 & 255u, q >> 16 & 255u, q >> 24);
}

#endif

void add_products(inout Sum sum, uint q, Four x) {
#ifdef DOTS
    sum += signed_dot(q, x, 0);
#else
    vec4 f = floats_of(q);
    sum += f.x * x.x;
    sum += f.y * x.y;
    sum += f.z * x.z;
    sum += f.w * x.w;
#endif
}

/* A group's sum; its levels count 16 times where they are taken from their bytes' upper halves as they are. */
int whole_sum(Sum sum, bool upper) { return UPPER_AS_IT_IS && upper ? int(sum) >> 4 : int(sum); }

/* The four words of a quad, which begin two bytes later where `apart`. */
void four_words(Words w, bool apart, uint quad, out uint q[4]) {
    uvec4 a = Quads(uvec2(w)).v[quad];
    uint last = IN_WORDS || !apart ? 0u : w.v[4u * quad + 4u];
    bool as_it_is = IN_WORDS || !apart;
    q[0] = as_it_is ? a.x : a.x >> 16 | a.y << 16;
    q[1] = as_it_is ? a.y : a.y >> 16 | a.z << 16;
    q[2] = as_it_is ? a.z : a.z >> 16 | a.w << 16;
    q[3] = as_it_is ? a.w : a.w >> 16 | last << 16;
}

/* Those at an even byte. */
void words_at(Words w, uint at, out uint q[4]) {
    four_words(Words(moved(uvec2(w), at & ~3u)), (at & 2u) != 0u, 0u, q);
}

uint level_of(uint nibbles) {
    uint q = 0u;
    for (int i = 0; i < 32; i += 8)
        q |= (uint(LEVELS[bitfieldExtract(nibbles, i, 4)]) & 0xffu) << i;
    return q;
}

/* The unit's quad of activations of the piece's group: that group's number in the unit. */
uint quad_of(uint piece, uint group) {
    if (IN_PAIRS) return piece * 4u + group;
    return (piece >> 1) * 8u + group * 2u + (piece & 1u);
}

/* A half has two groups of its piece: neighbours with blocks of 32. */
uint group_of(uint half_piece, uint j) { return BY_256 ? half_piece + 2u * j : 2u * half_piece + j; }

void small_levels(Words w, uint at, uint piece, uint half_piece, out uint q[8]) {
    uint b = at + (2u * piece + half_piece) * BLOCK[KIND], x[4], y[4];
    if (KIND == 9) {
        words_at(w, b + 2u, x);
        words_at(w, b + 18u, y);
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            q[i] = x[i];
            q[4u + i] = y[i];
        }
        return;
    }
    words_at(w, b + (KIND == 6 ? 4u : KIND == 7 ? 6u : KIND == 8 ? 8u : 2u), x);
    uint fifth = KIND == 7 || KIND == 8 ? half_at(w, b + (KIND == 7 ? 2u : 4u)) |
                                              half_at(w, b + (KIND == 7 ? 4u : 6u)) << 16 : 0u;
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        q[i] = (i < 4u ? x[i & 3u] : x[i & 3u] >> 4) & 0x0f0f0f0fu;
        if (KIND == 10) q[i] = level_of(q[i]);
        if (KIND == 7 || KIND == 8)
            q[i] |= ((fifth >> 4u * i & 15u) * 0x00204081u & 0x01010101u) << 4;
    }
}

/* A unit's bytes begin at `at` of w, 0 or 2. */
Words unit_of(uvec2 weights, uint row, uint unit, out uint at) {
    uint byte = row * pc.n[0] + unit * unit_bytes();
    at = IN_WORDS ? 0u : byte & 2u;
    return Words(moved(weights, byte & ~3u));
}

/* What is multiplied with the activations of two groups: levels plus OFFSET, four a word. */
void levels_of(Words w, uint at, uint piece, uint half_piece, out uint q[8]) {
    uint in_unit = piece >> 1, part = piece & 1u, x[4], y[4];
    bool apart = at != 0u;
    if (!BY_256) {
        small_levels(w, at, piece, half_piece, q);
    } else if (WIDE) {
        four_words(w, false, (KIND == 0 ? 1u : 3u) + 2u * piece + half_piece, x);
        if (KIND == 1) four_words(w, false, 1u + half_piece, y);
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            q[i] = x[i] & 0x0f0f0f0fu;
            q[4u + i] = UPPER_AS_IT_IS ? x[i] & 0xf0f0f0f0u : x[i] >> 4 & 0x0f0f0f0fu;
            if (KIND == 0) continue;
            uint fifth = y[i] >> 2u * piece;
            q[i] |= (fifth & 0x01010101u) << 4;
            q[4u + i] |= (fifth & 0x02020202u) << 3;
        }
    } else if (KIND == 2) {
        four_words(w, apart, 4u * in_unit + part + 2u * half_piece, x);
        four_words(w, apart, 8u + 2u * in_unit + part, y);
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            uint high = y[i] >> 2u * half_piece;
            q[i] = x[i] & 0x0f0f0f0fu | (high & 0x03030303u) << 4;
            q[4u + i] = x[i] >> 4 & 0x0f0f0f0fu | high & 0x30303030u;
        }
    } else {
        four_words(w, apart, (KIND == 3 ? 1u : 2u) + 2u * in_unit + part, x);
        if (KIND == 4) four_words(w, apart, part, y);
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            uint two = x[i] >> 2u * half_piece;
            q[i] = two & 0x03030303u;
            q[4u + i] = two >> 4 & 0x03030303u;
            if (KIND == 3) continue;
            uint third = y[i] >> 4u * in_unit + half_piece;
            q[i] |= (third & 0x01010101u) << 2;
            q[4u + i] |= third & 0x04040404u;
        }
    }
}

/* Of the two groups of a half, or of two times 32 columns where these share them. */
void scales_of(Words w, uint at, uint piece, uint half_piece, out int scale[2], out int low[2]) {
    uint g = (piece >> 1) * 8u + (piece & 1u) + 2u * half_piece; /* and 4 more */
    low[0] = low[1] = 0;
    if (WIDE) {
        uint by = 16u * (piece & 1u);
        uvec3 all = Quads(uvec2(w)).v[0].yzw >> by; /* after d and dmin */
        uint a = all.x, b = all.y, c = all.z;
        bool first = piece < 2u;
        uint s = first ? a & 0x3f3fu : c & 0x0f0fu | a >> 2 & 0x3030u;
        uint m = first ? b & 0x3f3fu : c >> 4 & 0x0f0fu | b >> 2 & 0x3030u;
        scale[0] = int(s & 255u);
        scale[1] = int(s >> 8);
        low[0] = int(m & 255u);
        low[1] = int(m >> 8);
    } else if (KIND == 2) {
        [[unroll]] for (uint j = 0u; j < 2u; j++)
            scale[j] = bitfieldExtract(int(byte_at(w, at + 192u + g + 4u * j)), 0, 8);
    } else if (KIND == 3) {
        [[unroll]] for (uint j = 0u; j < 2u; j++) {
            uint both = byte_at(w, at + g + 4u * j);
            scale[j] = int(both & 15u);
            low[j] = int(both >> 4);
        }
    } else {
        [[unroll]] for (uint j = 0u; j < 2u; j++) {
            uint h = g + 4u * j;
            uint four = byte_at(w, at + 96u + (h & 7u)) >> (h >= 8u ? 4u : 0u) & 15u;
            uint two = byte_at(w, at + 104u + (h & 3u)) >> 2u * (h >> 2) & 3u;
            scale[j] = int(four | two << 4) - 32;
        }
    }
}

/* d, and what minima count. */
void header_of(Words w, uint at, out float d, out float low) {
    const uint AT[5] = uint[](0u, 0u, 208u, 80u, 108u);
    uint i = at + (BY_256 ? AT[min(KIND, 4)] : 0u);
    d = from_f16(half_at(w, i));
    low = HAS_MIN ? from_f16(half_at(w, i + 2u)) : 0.0;
}

/* Of 16 bits each. */
int nth_sum(Words x, uint words, uint i) {
    return bitfieldExtract(int(x.v[words + (i >> 1)]), int(i & 1u) * 16, 16);
}

/* The value of 256 columns, without the activations' d. */
float value_of(int isum, int msum, float d, float low) {
    float v = mul(d, float(isum));
    return HAS_MIN ? fma_exact(negative(low), float(msum), v) : v;
}

/* One more block of 32 columns. */
float next_value(bool first, float v, int sum, int sum_x, float d, float low, float x_d) {
    float c = mul(d, x_d);
    v = first ? mul(c, float(sum)) : fma_exact(c, float(sum), v);
    return HAS_MIN ? fma_exact(mul(low, x_d), float(sum_x), v) : v;
}

/* And one more unit; x_d counts for types of 256. */
float next_sum(float acc, float v, float x_d) { return BY_256 ? fma_exact(x_d, v, acc) : add(acc, v); }

float d_of(Words x, uint row, uint unit) {
    return BY_256 ? uintBitsToFloat(x.v[row + (pc.n[4] >> 2) + unit]) : 0.0;
}
