/* fma and fmaf as C has them, rounded once: the C library's are not, where the processor has no such instruction.
 * They take its place by their names, so that what is compiled without posix.h (kernels) has them, too. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

typedef unsigned __int128 wide;

enum { TOP = 125 }; /* the bit that aligned numbers begin with: a sum has room above it */

typedef struct number {
    wide bits; /* begins with bit TOP */
    int exponent;
    bool negative;
} number;

static int highest_bit(wide n) {
    uint64_t high = (uint64_t)(n >> 64);
    return high ? 127 - __builtin_clzll(high) : 63 - __builtin_clzll((uint64_t)n);
}

static uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* x is finite and not 0. */
static uint64_t mantissa_of(double x, int *exponent) {
    uint64_t bits = bits_of(x), fraction = bits & ((UINT64_C(1) << 52) - 1);
    int e = (int)(bits >> 52 & 0x7ff);
    *exponent = (e ? e : 1) - 1075;
    return e ? fraction | UINT64_C(1) << 52 : fraction;
}

static number align_top(wide bits, int exponent, bool negative) {
    int shift = TOP - highest_bit(bits);
    return (number){bits << shift, exponent - shift, negative};
}

/* What falls out below leaves its mark in the lowest bit. */
static wide shift_down(wide bits, int by) {
    if (by > 126) return 1;
    wide lost = by ? bits & (((wide)1 << by) - 1) : 0;
    return bits >> by | (lost != 0);
}

static double round_number(wide bits, int exponent, bool negative) {
    int top = highest_bit(bits), shift = top - 52;
    if (exponent + shift < -1074) shift = -1074 - exponent;
    if (shift > 127) shift = 127; /* far below half of the least number */
    if (shift > 0) {
        wide half = (wide)1 << (shift - 1), rest = bits & ((half << 1) - 1);
        bits >>= shift;
        exponent += shift;
        if (rest > half || (rest == half && (bits & 1))) bits++;
    }
    double result = ldexp((double)(uint64_t)bits, exponent);
    return negative ? -result : result;
}

static double fma_exact(double x, double y, double z) {
    int ex, ey, ez;
    uint64_t mx = mantissa_of(x, &ex), my = mantissa_of(y, &ey), mz = mantissa_of(z, &ez);
    number a = align_top((wide)mx * my, ex + ey, signbit(x) != signbit(y));
    number b = align_top(mz, ez, signbit(z) != 0);
    if (b.exponent > a.exponent || (b.exponent == a.exponent && b.bits > a.bits)) {
        number swap = a;
        a = b;
        b = swap;
    }
    b.bits = shift_down(b.bits, a.exponent - b.exponent);
    wide sum = a.negative == b.negative ? a.bits + b.bits : a.bits - b.bits;
    return sum ? round_number(sum, a.exponent, a.negative) : 0.0;
}

double fma(double x, double y, double z);
float fmaf(float x, float y, float z);

__attribute__((target("fma"))) static double fma_hardware(double x, double y, double z) {
    return __builtin_fma(x, y, z);
}
__attribute__((target("fma"))) static float fmaf_hardware(float x, float y, float z) {
    return __builtin_fmaf(x, y, z);
}

double fma(double x, double y, double z) {
    if (__builtin_cpu_supports("fma")) return fma_hardware(x, y, z);
    if (!isfinite(x) || !isfinite(y) || !isfinite(z) || x == 0 || y == 0 || z == 0)
        return x * y + z;
    return fma_exact(x, y, z);
}

/* The product of two floats is a double; their sum with z is rounded to odd, so that rounding it again is
 * rounding once. */
static float fmaf_exact(float x, float y, float z) {
    double product = (double)x * y, sum = product + z, part = sum - product;
    double error = (product - (sum - part)) + (z - part);
    uint64_t bits = bits_of(sum);
    if (isfinite(sum) && error != 0 && !(bits & 1)) {
        bits += (error > 0) == (sum > 0) ? 1 : UINT64_MAX;
        memcpy(&sum, &bits, sizeof sum);
    }
    return (float)sum;
}

float fmaf(float x, float y, float z) {
    return __builtin_cpu_supports("fma") ? fmaf_hardware(x, y, z) : fmaf_exact(x, y, z);
}
