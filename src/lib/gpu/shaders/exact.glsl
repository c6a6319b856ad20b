/* The arithmetic contract in GLSL (docs/NUMERICS.md): what every shader of this room computes with.
 *
 * A driver's fma may round twice, its division and square root are approximations, and its compiler
 * takes x + 0 for x: none of these is used where the contract says what comes out. Sums and products
 * are `precise`, so that nothing contracts them; the module's execution modes say the rounding. */
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require

/* Compiled twice: with F64 1 fma is in f64, rounded to odd, else the driver's or in integers, as FMA says. The
 * self-test chooses. */
#if F64 == 0
layout(constant_id = 1) const int FMA = 0; /* 0 the driver's, 2 in integers */
#endif

/* Which of a shader's forms; each says what it means. */
layout(constant_id = 0) const int KIND = 0;

layout(local_size_x = 64) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Words { uint v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Quads { uvec4 v[]; }; /* of words */

/* The same in every shader: addresses, then numbers; zero is 0, and no compiler knows it. */
layout(push_constant) uniform Push {
    uvec2 at[8];
    uint n[15];
    uint zero;
} pc;

float opaque_zero() { return uintBitsToFloat(pc.zero); }

float add(float a, float b) {
    precise float r = a + b;
    return r;
}

float sub(float a, float b) {
    precise float r = a - b;
    return r;
}

float mul(float a, float b) {
    precise float r = a * b;
    return r;
}

bool is_finite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }

/* ---- numbers out of parts, in integers ---- */

/* A finite number other than zero is m * 2^(e - 150), m in [2^23, 2^24). */
void take_apart(float x, out uint m, out int e) {
    uint bits = floatBitsToUint(x);
    m = bits & 0x7fffffu;
    e = int(bits >> 23 & 0xffu);
    if (e > 0) {
        m |= 0x800000u;
    } else {
        int up = 23 - findMSB(m);
        m <<= up;
        e = 1 - up;
    }
}

/* (hi, lo) >> n, with a bit of what is lost in the lowest; n >= 0 */
uvec2 shift_sticky(uvec2 x, int n) {
    if (n == 0) return x;
    if (n >= 64) return uvec2(0u, (x.x | x.y) != 0u ? 1u : 0u);
    if (n >= 32) {
        uint lost = x.y | (n > 32 ? x.x << (64 - n) : 0u);
        return uvec2(0u, (n == 32 ? x.x : x.x >> (n - 32)) | (lost != 0u ? 1u : 0u));
    }
    uint lost = x.y << (32 - n);
    return uvec2(x.x >> n, (x.y >> n | x.x << (32 - n)) | (lost != 0u ? 1u : 0u));
}

/* m * 2^(e - 190), m = (hi, lo) in [2^62, 2^63) with what is below in its lowest bit, rounded to
 * nearest even: a mantissa of 24 bits has the exponent e. */
float put_together(uint sign, uvec2 m, int e) {
    if (e < 1) {
        m = shift_sticky(m, 1 - e);
        e = 1;
    }
    uint top = m.x >> 7, rest = m.x & 0x7fu; /* 24 bits, and 39 below them */
    bool more = m.y != 0u;
    if (rest > 64u || (rest == 64u && (more || (top & 1u) != 0u))) top++;
    if (top == 0x1000000u) {
        top = 0x800000u;
        e++;
    }
    if (e >= 255) return uintBitsToFloat(sign | 0x7f800000u);
    uint bits = top >= 0x800000u ? uint(e) << 23 | (top & 0x7fffffu) : top;
    return uintBitsToFloat(sign | bits);
}

uvec2 add64(uvec2 a, uvec2 b) {
    uint carry;
    uint lo = uaddCarry(a.y, b.y, carry);
    return uvec2(a.x + b.x + carry, lo);
}

uvec2 sub64(uvec2 a, uvec2 b) {
    uint borrow;
    uint lo = usubBorrow(a.y, b.y, borrow);
    return uvec2(a.x - b.x - borrow, lo);
}

uvec2 up64(uvec2 x, int n) {
    if (n == 0) return x;
    if (n >= 32) return uvec2(x.y << (n - 32), 0u);
    return uvec2(x.x << n | x.y >> (32 - n), x.y << n);
}

#if F64 == 1
/* The product is exact in f64; the sum, rounded to odd, rounds to f32 as the exact one would
 * (Boldo and Melquiond 2008). */
float fma_exact(float a, float b, float c) {
    precise double p = double(a) * double(b);
    precise double s = p + double(c);
    precise double t = s - p;
    precise double error = (p - (s - t)) + (double(c) - t);
    uvec2 bits = unpackDouble2x32(s);
    bool finite = (bits.y & 0x7ff00000u) != 0x7ff00000u;
    if (finite && error != 0.0 && (bits.x & 1u) == 0u) {
        if ((error > 0.0) == (s > 0.0)) {
            bits.x |= 1u;
        } else {
            if (bits.x == 0u) bits.y--;
            bits.x--;
        }
    }
    precise double odd = packDouble2x32(bits);
    return float(odd);
}
#else
float fma_in_integers(float a, float b, float c) {
    if (!is_finite(a) || !is_finite(b)) return add(mul(a, b), c);
    if (!is_finite(c)) return c;
    uint sp = (floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u;
    uint sc = floatBitsToUint(c) & 0x80000000u;
    bool no_product = floatBitsToUint(a) << 1 == 0u || floatBitsToUint(b) << 1 == 0u;
    bool no_addend = floatBitsToUint(c) << 1 == 0u;
    if (no_product) return no_addend ? uintBitsToFloat(sp & sc) : c;
    uint ma, mb, mc;
    int ea, eb, ec;
    take_apart(a, ma, ea);
    take_apart(b, mb, eb);
    uvec2 p, q;
    umulExtended(ma, mb, p.x, p.y); /* 47 or 48 bits */
    int ep = ea + eb - 126;         /* of a mantissa of 48 bits */
    if ((p.x & 0x8000u) == 0u) {
        p = up64(p, 1);
        ep--;
    }
    p = up64(p, 14); /* in [2^61, 2^62) */
    if (no_addend) return put_together(sp, up64(p, 1), ep);
    take_apart(c, mc, ec);
    q = up64(uvec2(0u, mc), 38);
    int e = max(ep, ec);
    p = shift_sticky(p, min(e - ep, 64));
    q = shift_sticky(q, min(e - ec, 64));
    uvec2 sum;
    uint sign = sp;
    if (sp == sc) {
        sum = add64(p, q);
    } else if (p.x > q.x || (p.x == q.x && p.y >= q.y)) {
        sum = sub64(p, q);
    } else {
        sum = sub64(q, p);
        sign = sc;
    }
    if (sum.x == 0u && sum.y == 0u) return 0.0;
    int top = sum.x != 0u ? 32 + findMSB(sum.x) : findMSB(sum.y);
    return put_together(sign, up64(sum, 62 - top), e + top - 61);
}

float fma_exact(float a, float b, float c) {
    if (FMA != 0) return fma_in_integers(a, b, c);
    precise float r = fma(a, b, c);
    return r;
}
#endif

/* Eight bits of the quotient a step: integer division is exact everywhere. */
float divide(float a, float b) {
    uint sign = (floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u;
    bool zero_a = floatBitsToUint(a) << 1 == 0u, zero_b = floatBitsToUint(b) << 1 == 0u;
    if (isnan(a) || isnan(b) || (zero_a && zero_b) || (!is_finite(a) && !is_finite(b)))
        return uintBitsToFloat(0x7fc00000u);
    if (!is_finite(a) || zero_b) return uintBitsToFloat(sign | 0x7f800000u);
    if (!is_finite(b) || zero_a) return uintBitsToFloat(sign);
    uint ma, mb;
    int ea, eb;
    take_apart(a, ma, ea);
    take_apart(b, mb, eb);
    int e = ea - eb + 127;
    if (ma < mb) {
        ma <<= 1;
        e--;
    }
    uint quotient = 1u, rest = ma - mb; /* ma / mb in [1, 2): 25 bits */
    for (int i = 0; i < 3; i++) {
        rest <<= 8;
        quotient = quotient << 8 | rest / mb;
        rest %= mb;
    }
    uvec2 m = up64(uvec2(0u, quotient), 38);
    if (rest != 0u) m.y |= 1u;
    return put_together(sign, m, e);
}

/* Two bits of the operand for one of the root. */
float square_root(float x) {
    if (floatBitsToUint(x) << 1 == 0u) return x;
    if (isnan(x) || x < 0.0) return uintBitsToFloat(0x7fc00000u);
    if (!is_finite(x)) return x;
    uint m;
    int e;
    take_apart(x, m, e);
    int power = e - 150;
    if ((power & 1) != 0) {
        m <<= 1;
        power--;
    }
    /* m * 2^26 has 50 or 51 bits; its root 25 or 26 */
    uint root = 0u, rest = 0u;
    for (int i = 25; i >= 0; i--) {
        int at = 2 * i - 26;
        uint two = at >= 0 ? m >> at & 3u : 0u;
        rest = rest << 2 | two;
        uint next = root << 2 | 1u;
        root <<= 1;
        if (rest >= next) {
            rest -= next;
            root |= 1u;
        }
    }
    int top = findMSB(root);
    uvec2 wide = up64(uvec2(0u, root), 62 - top);
    if (rest != 0u) wide.y |= 1u;
    return put_together(0u, wide, power / 2 - 13 + top + 127);
}

/* ---- elementary functions: base/math.c, step for step ---- */

float exp_exact(float x) {
    if (!(x >= -87.0)) return isnan(x) ? x : 0.0;
    if (x > 88.72283) return uintBitsToFloat(0x7f800000u);
    float shift = 12582912.0;
    float n = sub(fma_exact(x, uintBitsToFloat(0x3fb8aa3bu), shift), shift);
    float r = fma_exact(n, uintBitsToFloat(0xbf317200u), x);
    r = fma_exact(n, uintBitsToFloat(0xb5bfbe8eu), r);
    float p = uintBitsToFloat(0x3ab6887eu);
    p = fma_exact(p, r, uintBitsToFloat(0x3c0905b1u));
    p = fma_exact(p, r, uintBitsToFloat(0x3d2aaa8du));
    p = fma_exact(p, r, uintBitsToFloat(0x3e2aaa6fu));
    p = fma_exact(p, r, 0.5);
    p = fma_exact(p, r, 1.0);
    p = fma_exact(p, r, 1.0);
    int whole = int(n), half_of = whole >> 1;
    float a = uintBitsToFloat(uint(half_of + 127) << 23);
    float b = uintBitsToFloat(uint(whole - half_of + 127) << 23);
    return mul(mul(p, a), b);
}

/* tanh of x, of this magnitude, with share = 2 / (e^(2 |x|) + 1) */
float tanh_from(float x, float magnitude, float share) {
    float x2 = mul(x, x);
    if (magnitude < 0.1)
        return fma_exact(mul(x2, x),
                         fma_exact(uintBitsToFloat(0x3e088889u), x2, uintBitsToFloat(0xbeaaaaabu)),
                         x);
    float t = sub(1.0, share);
    return uintBitsToFloat((floatBitsToUint(t) & 0x7fffffffu) |
                           (floatBitsToUint(x) & 0x80000000u));
}

float tanh_exact(float x) {
    float magnitude = uintBitsToFloat(floatBitsToUint(x) & 0x7fffffffu);
    float share = divide(2.0, add(exp_exact(mul(2.0, magnitude)), 1.0));
    return tanh_from(x, magnitude, share);
}

float negative(float x) { return uintBitsToFloat(floatBitsToUint(x) ^ 0x80000000u); }

float softcap(float x, float cap) { return mul(cap, tanh_exact(divide(x, cap))); }

/* ---- half precision, in integers ---- */

float from_f16(uint h) {
    uint m = (h & 0x7fffu) << 13;
    float low = sub(uintBitsToFloat(m + 0x38800000u), uintBitsToFloat(0x38800000u)); /* 2^-14 */
    uint small = floatBitsToUint(low), usual = m + (m >= 0x0f800000u ? 0x70000000u : 0x38000000u);
    return uintBitsToFloat((m < 0x00800000u ? small : usual) | (h & 0x8000u) << 16);
}

/* To nearest even, of |x| <= 65504 or NaN. */
uint to_f16(float x) {
    uint bits = floatBitsToUint(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;
    if (magnitude < 0x33000000u) return sign; /* below 2^-25 */
    int e = int(magnitude >> 23);
    uint m = (magnitude & 0x7fffffu) | 0x800000u;
    int drop = e < 113 ? 126 - e : 13;
    uint top = m >> drop, rest = m & ((1u << drop) - 1u), tie = 1u << (drop - 1);
    if (rest > tie || (rest == tie && (top & 1u) != 0u)) top++;
    if (e < 113) return sign | top;
    return sign | (uint(e - 113) << 10) + top;
}

uint clamped_f16(float x) {
    if (x > 65504.0) x = 65504.0;
    if (x < -65504.0) x = -65504.0;
    return to_f16(x);
}

/* v rounded to a whole number, |v| < 2^22 */
float round_even(float v) { return sub(add(v, 12582912.0), 12582912.0); }

/* ---- words of bytes ---- */

uvec2 moved(uvec2 address, uint bytes) {
    uint carry;
    uint lo = uaddCarry(address.x, bytes, carry);
    return uvec2(lo, address.y + carry);
}

/* At a byte's offset from an aligned address. */
uint byte_at(Words w, uint at) { return w.v[at >> 2] >> (at & 3u) * 8u & 0xffu; }

uint half_at(Words w, uint at) { /* at even */
    return w.v[at >> 2] >> (at & 2u) * 8u & 0xffffu;
}

uint word_at(Words w, uint at) {
    uint i = at >> 2, by = (at & 3u) * 8u;
    return by == 0u ? w.v[i] : w.v[i] >> by | w.v[i + 1u] << (32u - by);
}

int dot4(uint a, uint b) {
    int sum = 0;
    for (int i = 0; i < 32; i += 8)
        sum += bitfieldExtract(int(a), i, 8) * bitfieldExtract(int(b), i, 8);
    return sum;
}

/* The tree of 16 lanes. */
float tree_sum(float lane[16]) {
    for (int i = 0; i < 8; i++) lane[i] = add(lane[i], lane[i + 8]);
    for (int i = 0; i < 4; i++) lane[i] = add(lane[i], lane[i + 4]);
    for (int i = 0; i < 2; i++) lane[i] = add(lane[i], lane[i + 2]);
    return add(lane[0], lane[1]);
}
