/* What the primitives of every tier (simd_*.h) are written with.
 *
 * Owns: inlining and unrolling as both compilers spell them. For the tiers' own files only. */
#ifndef KT_KERNELS_SIMD_H
#define KT_KERNELS_SIMD_H

#include <stdint.h>
#include <string.h>

#include "base/math.h"

#define KT_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define KT_SHUFFLED(vector, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define KT_UNROLL _Pragma("unroll")
#define KT_ROLLED _Pragma("nounroll")
#define KT_ONCE __attribute__((noinline)) /* not copied for what its arguments are */
#else
/* elements of a and b, which are of type `vector`, by constant indices */
#define KT_SHUFFLED(vector, a, b, ...) __builtin_shuffle(a, b, (vector){__VA_ARGS__})
#define KT_UNROLL _Pragma("GCC unroll 16")
#define KT_ROLLED _Pragma("GCC unroll 1")
#define KT_ONCE __attribute__((noinline, noclone))
#endif

#endif
