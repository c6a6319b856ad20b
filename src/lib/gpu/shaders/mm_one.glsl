/* A product for one token: an invocation has a unit of four rows, the neighbours the rows' next units, and one of
 * the workgroup adds up a row. at and n as of mm.glsl. */
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"
#include "mm.glsl"

const uint ROWS = 4u, MOST = 8u; /* of an invocation; units at once */
const uint CHAINS = 2u;          /* that an invocation adds up at most: there are 128 rows, of two units at once */

const uint SIDE = 64u * ROWS;    /* values of a side, of two that are written in turn */

shared float values[2u * SIDE], ds[2u * MOST];
#ifndef DOTS
shared vec4 xs[MOST * 65u]; /* one apart, so that units lie in other banks */
#endif

/* The activations of a group. */
void group_acts(Quads x, uint c, uint quad, out Four a[4]) {
#ifdef DOTS
    uvec4 four = x.v[quad];
    a[0] = four.x;
    a[1] = four.y;
    a[2] = four.z;
    a[3] = four.w;
#else
    [[unroll]] for (uint i = 0u; i < 4u; i++) a[i] = xs[c * 65u + quad * 4u + i];
#endif
}

struct Place { /* of an invocation's unit */
    Words w[ROWS];
    uint at[ROWS];
    Quads acts;
    Words x;
    uint row, unit, c;
};

/* Four groups' sums of Q4_K times their scales stay below 2^24, and its eight sums of activations times theirs:
 * floats are exact. */
const bool IN_FLOATS = UPPER_AS_IT_IS;

void value_256(Place p, out float v[ROWS]) {
    int isum[ROWS], msum[ROWS];
    float scaled[ROWS][2], lows[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        isum[r] = msum[r] = 0;
        scaled[r][0] = scaled[r][1] = lows[r] = 0.0;
    }
    [[unroll]] for (uint piece = 0u; piece < 4u; piece++) {
        Sum sum[ROWS][2];
        [[unroll]] for (uint half_piece = 0u; half_piece < 2u; half_piece++) {
            Four a[2][4];
            [[unroll]] for (uint j = 0u; j < 2u; j++)
                group_acts(p.acts, p.c, quad_of(piece, group_of(half_piece, j)), a[j]);
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                uint q[8];
                if (half_piece == 0u || !WIDE) sum[r][0] = sum[r][1] = Sum(0);
                levels_of(p.w[r], p.at[r], piece, half_piece, q);
                [[unroll]] for (uint i = 0u; i < 8u; i++)
                    add_products(sum[r][i >> 2], q[i], a[i >> 2][i & 3u]);
            }
            if (WIDE && half_piece == 0u) continue;
            int sum_x[2];
            [[unroll]] for (uint j = 0u; j < 2u; j++) {
                uint g = quad_of(piece, group_of(half_piece, j));
                if (WIDE)
                    sum_x[j] = nth_sum(p.x, p.row + (pc.n[6] >> 2) + p.unit * 4u, 2u * piece + j);
                else
                    sum_x[j] = NEEDS_SUM ? nth_sum(p.x, p.row + (pc.n[5] >> 2) + p.unit * 8u, g) : 0;
            }
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                int scale[2], low[2];
                scales_of(p.w[r], p.at[r], piece, half_piece, scale, low);
                [[unroll]] for (uint j = 0u; j < 2u; j++) {
                    if (IN_FLOATS) {
                        scaled[r][j] += float(uint(scale[j])) * float(sum[r][j]);
                        lows[r] += float(uint(low[j])) * float(sum_x[j]);
                        continue;
                    }
                    isum[r] += scale[j] * (whole_sum(sum[r][j], j == 1u) - OFFSET * sum_x[j]);
                    if (HAS_MIN) msum[r] += low[j] * sum_x[j];
                }
            }
        }
    }
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        float d, low;
        header_of(p.w[r], p.at[r], d, low);
        if (IN_FLOATS) {
            isum[r] = int(scaled[r][0]) + (int(scaled[r][1]) >> 4);
            msum[r] = int(lows[r]);
        }
        v[r] = value_of(isum[r], msum[r], d, low);
    }
}

void value_32(Place p, out float v[ROWS]) {
    uint n = min(8u, pc.n[2] / 32u - p.unit * 8u);
    [[unroll]] for (uint r = 0u; r < ROWS; r++) v[r] = 0.0;
    [[dont_unroll]] for (uint b = 0u; b < n; b++) {
        Four a[2][4];
        [[unroll]] for (uint j = 0u; j < 2u; j++) group_acts(p.acts, p.c, b * 2u + j, a[j]);
        float x_d = uintBitsToFloat(p.x.v[p.row + (pc.n[4] >> 2) + p.unit * 8u + b]);
        int sum_x = NEEDS_SUM ? nth_sum(p.x, p.row + (pc.n[6] >> 2) + p.unit * 4u, b) : 0;
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            uint q[8];
            float d, low;
            Sum sum = Sum(0);
            levels_of(p.w[r], p.at[r], b >> 1, b & 1u, q);
            [[unroll]] for (uint i = 0u; i < 8u; i++) add_products(sum, q[i], a[i >> 2][i & 3u]);
            header_of(p.w[r], p.at[r] + b * BLOCK[KIND], d, low);
            v[r] = next_value(b == 0u, v[r], int(sum) - OFFSET * sum_x, sum_x, d, low, x_d);
        }
    }
}

void main() {
    uint me = gl_LocalInvocationID.x, bits = pc.n[11], n = n_unit();
    uint c = me & ((1u << bits) - 1u), n_row = (64u >> bits) * ROWS, r0 = gl_WorkGroupID.x * n_row;
    Run run = run_here(1u);
    uint t = act_row(run.first), row = t * (pc.n[3] >> 2), begin[ROWS];
    Words x = Words(pc.at[1]);
    float acc[CHAINS];
    [[unroll]] for (uint k = 0u; k < CHAINS; k++) acc[k] = opaque_zero();
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        begin[r] = min(r0 + (me >> bits) * ROWS + r, pc.n[1] - 1u);
    [[dont_unroll]] for (uint first = 0u, side = 0u; first < n; first += 1u << bits, side ^= 1u) {
        uint unit = first + c;
#ifndef DOTS
        for (uint i = me; i < 16u << bits; i += 64u)
            if (first * 64u + 4u * i < pc.n[2] / 4u) {
                uvec4 quad = Quads(moved(pc.at[1], t * pc.n[3])).v[first * 16u + i];
                uint at = (i >> 4) * 65u + (i & 15u) * 4u;
                xs[at] = activations_of(quad.x);
                xs[at + 1u] = activations_of(quad.y);
                xs[at + 2u] = activations_of(quad.z);
                xs[at + 3u] = activations_of(quad.w);
            }
        barrier();
#endif
        if (unit < n) {
            Place p;
            float v[ROWS];
            [[unroll]] for (uint r = 0u; r < ROWS; r++) p.w[r] = unit_of(run.weights, begin[r], unit, p.at[r]);
            p.acts = Quads(moved(pc.at[1], t * pc.n[3] + unit * 256u));
            p.x = x;
            p.row = row;
            p.unit = unit;
            p.c = c;
            if (BY_256)
                value_256(p, v);
            else
                value_32(p, v);
            uint at = side * SIDE + (((me >> bits) * ROWS) << bits) + c;
            [[unroll]] for (uint r = 0u; r < ROWS; r++) values[at + (r << bits)] = v[r];
            if (me < MOST) ds[side * MOST + c] = d_of(x, row, unit);
        }
        barrier(); /* the other side is written next, so that one is enough */
        [[unroll]] for (uint k = 0u; k < CHAINS; k++) {
            if (me + 64u * k >= n_row) break;
            uint at = side * SIDE + ((me + 64u * k) << bits);
            acc[k] = next_sum(acc[k], values[at], ds[side * MOST]);
            [[unroll]] for (uint i = 1u; i < MOST; i++)
                if (i < 1u << bits && first + i < n)
                    acc[k] = next_sum(acc[k], values[at + i], ds[side * MOST + i]);
        }
    }
    [[unroll]] for (uint k = 0u; k < CHAINS; k++) {
        uint r = me + 64u * k;
        if (r < n_row && r0 + r < pc.n[1]) put_result(run, run.first, r0 + r, acc[k]);
    }
}
