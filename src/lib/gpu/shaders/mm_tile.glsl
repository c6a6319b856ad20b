/* A product for many tokens: a workgroup has 32 rows and 32 tokens (16 without DOTS), an invocation 4 rows and 4 (2)
 * of these tokens. Weights are unpacked once for all of them, 64 columns at a time. at and n as of mm.glsl. */
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "mm.glsl"

const uint ROWS = 4u, SPAN = 8u; /* of an invocation: neighbours have the rows and tokens between */
#ifdef DOTS
const uint TOKENS = 4u;
#define UNROLL_WORDS [[unroll]]
#else
#define UNROLL_WORDS [[dont_unroll]] /* a compiler's time */
const uint TOKENS = 2u;
#endif
const uint APART = 17u; /* words of a row of a tile, or four floats in place of each */

shared Four levels[ROWS * SPAN * APART], acts[TOKENS * SPAN * APART];
shared int scales[ROWS * SPAN * 4u], lows[ROWS * SPAN * 4u], sums[TOKENS * SPAN * 4u];
shared uint rows[TOKENS * SPAN]; /* of activations */

void fill_levels(uvec2 weights, uint r0, uint unit, uint piece) {
    uint me = gl_LocalInvocationID.x, r = me >> 1, half_piece = me & 1u;
    uint at, q[8];
    Words w = unit_of(weights, min(r0 + r, pc.n[1] - 1u), unit, at);
    if (unit * 256u + piece * 64u + (BY_256 ? 0u : half_piece * 32u) >= pc.n[2]) return;
    levels_of(w, at, piece, half_piece, q);
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        uint to = r * APART + group_of(half_piece, i >> 2) * 4u + (i & 3u);
#ifdef DOTS
        levels[to] = q[i];
#else
        levels[to] = floats_of(q[i]);
#endif
    }
    if (BY_256) {
        int scale[2], low[2];
        if (WIDE && half_piece != 0u) return;
        scales_of(w, at, piece, half_piece, scale, low);
        [[unroll]] for (uint j = 0u; j < 2u; j++) {
            scales[r * 4u + group_of(half_piece, j)] = scale[j];
            if (HAS_MIN) lows[r * 4u + group_of(half_piece, j)] = low[j];
        }
    } else {
        float d, low;
        header_of(w, at + (2u * piece + half_piece) * BLOCK[KIND], d, low);
        scales[r * 4u + 2u * half_piece] = floatBitsToInt(d);
        if (HAS_MIN) lows[r * 4u + 2u * half_piece] = floatBitsToInt(low);
    }
}

void fill_acts(Words x, uint unit, uint piece) {
    uint me = gl_LocalInvocationID.x, n_word = pc.n[2] / 4u - unit * 64u;
    [[unroll]] for (uint k = 0u; k < TOKENS / 2u; k++) { /* of 4 quads a token */
        uint i = k * 64u + me, to = (i >> 2) * APART + (i & 3u) * 4u, quad = quad_of(piece, i & 3u);
        if (4u * quad >= n_word) continue;
        uvec4 four = Quads(moved(pc.at[1], rows[i >> 2] * pc.n[3] + unit * 256u)).v[quad];
        acts[to] = activations_of(four.x);
        acts[to + 1u] = activations_of(four.y);
        acts[to + 2u] = activations_of(four.z);
        acts[to + 3u] = activations_of(four.w);
    }
    if (NEEDS_SUM && me < TOKENS * SPAN) {
        uint row = rows[me] * (pc.n[3] >> 2);
        [[unroll]] for (uint g = 0u; g < 4u; g++) {
            uint from = quad_of(piece, g);
            if (4u * from >= n_word || (IN_PAIRS && (g & 1u) != 0u)) continue;
            /* where pairs share it, at the place of their scale */
            sums[me * 4u + (WIDE ? g >> 1 : g)] =
                IN_PAIRS ? nth_sum(x, row + (pc.n[6] >> 2) + unit * 4u, from >> 1)
                         : nth_sum(x, row + (pc.n[5] >> 2) + unit * 8u, from);
        }
    }
}

/* Adds the products of a group. */
void add_group(uint group, uint r, uint t, inout Sum sum[ROWS][TOKENS]) {
    UNROLL_WORDS for (uint i = 0u; i < 4u; i++) {
        Four a[TOKENS];
        [[unroll]] for (uint k = 0u; k < TOKENS; k++) a[k] = acts[(t + SPAN * k) * APART + group * 4u + i];
        [[unroll]] for (uint j = 0u; j < ROWS; j++) {
            Four q = levels[(r + SPAN * j) * APART + group * 4u + i];
            [[unroll]] for (uint k = 0u; k < TOKENS; k++)
#ifdef DOTS
                sum[j][k] += signed_dot(q, a[k], 0);
#else
            {
                sum[j][k] += q.x * a[k].x;
                sum[j][k] += q.y * a[k].y;
                sum[j][k] += q.z * a[k].z;
                sum[j][k] += q.w * a[k].w;
            }
#endif
        }
    }
}

void main() {
    uint me = gl_LocalInvocationID.x, r = me & 7u, t = me >> 3;
    uint r0 = gl_WorkGroupID.x * ROWS * SPAN, n = n_unit();
    Run run = run_here(TOKENS * SPAN);
    Words x = Words(pc.at[1]);
    float acc[ROWS][TOKENS], v[ROWS][TOKENS];
    uint row[TOKENS];
    if (me < TOKENS * SPAN) rows[me] = act_row(run.first + min(me, run.n - 1u));
    barrier();
    [[unroll]] for (uint k = 0u; k < TOKENS; k++) {
        row[k] = rows[t + SPAN * k] * (pc.n[3] >> 2);
        [[unroll]] for (uint j = 0u; j < ROWS; j++) {
            acc[j][k] = opaque_zero();
            v[j][k] = 0.0;
        }
    }
    [[dont_unroll]] for (uint unit = 0u; unit < n; unit++) {
        int isum[ROWS][TOKENS], msum[ROWS][TOKENS];
        [[unroll]] for (uint j = 0u; j < ROWS; j++)
            [[unroll]] for (uint k = 0u; k < TOKENS; k++) isum[j][k] = msum[j][k] = 0;
        uint n_piece = min(4u, (pc.n[2] - unit * 256u + 63u) / 64u);
        [[dont_unroll]] for (uint piece = 0u; piece < n_piece; piece++) {
            barrier();
            fill_levels(run.weights, r0, unit, piece);
            fill_acts(x, unit, piece);
            barrier();
            const uint EACH = IN_PAIRS ? 2u : 1u;
            [[dont_unroll]] for (uint group = 0u; group < 4u; group += EACH) {
                Sum sum[ROWS][TOKENS];
                uint place = WIDE ? group >> 1 : group;
                if (!BY_256 && unit * 256u + piece * 64u + group * 16u >= pc.n[2]) break;
                [[unroll]] for (uint j = 0u; j < ROWS; j++)
                    [[unroll]] for (uint k = 0u; k < TOKENS; k++) sum[j][k] = Sum(0);
                [[unroll]] for (uint i = 0u; i < EACH; i++) add_group(group + i, r, t, sum);
                /* scales_of numbers pairs of 32 columns as 0 and 2, as of halves */
                [[unroll]] for (uint j = 0u; j < ROWS; j++) {
                    uint of = (r + SPAN * j) * 4u + (WIDE ? 2u * place : group);
                    int scale = scales[of], low = HAS_MIN ? lows[of] : 0;
                    [[unroll]] for (uint k = 0u; k < TOKENS; k++) {
                        int sum_x = NEEDS_SUM ? sums[(t + SPAN * k) * 4u + place] : 0;
                        int s = whole_sum(sum[j][k], group != 0u) - OFFSET * sum_x;
                        if (BY_256) {
                            isum[j][k] += scale * s;
                            if (HAS_MIN) msum[j][k] += low * sum_x;
                            continue;
                        }
                        uint b = 2u * piece + (group >> 1);
                        float x_d = uintBitsToFloat(x.v[row[k] + (pc.n[4] >> 2) + unit * 8u + b]);
                        v[j][k] = next_value(b == 0u, v[j][k], s, sum_x, intBitsToFloat(scale),
                                             intBitsToFloat(low), x_d);
                    }
                }
            }
        }
        [[unroll]] for (uint j = 0u; j < ROWS; j++) {
            float d, low;
            uint at;
            Words w = unit_of(run.weights, min(r0 + r + SPAN * j, pc.n[1] - 1u), unit, at);
            if (BY_256) header_of(w, at, d, low);
            [[unroll]] for (uint k = 0u; k < TOKENS; k++) {
                if (BY_256) v[j][k] = value_of(isum[j][k], msum[j][k], d, low);
                acc[j][k] = next_sum(acc[j][k], v[j][k], d_of(x, row[k], unit));
            }
        }
    }
    [[unroll]] for (uint k = 0u; k < TOKENS; k++)
        [[unroll]] for (uint j = 0u; j < ROWS; j++) {
            uint at_t = t + SPAN * k, at_r = r0 + r + SPAN * j;
            if (at_t < run.n && at_r < pc.n[1]) put_result(run, run.first + at_t, at_r, acc[j][k]);
        }
}
