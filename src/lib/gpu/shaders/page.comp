/* Pages that become quantised (NUMERICS, 8): a workgroup has one head of one page.
 *
 * KIND: 0 keys to q8, 1 keys to q4, 2 values to q8, 3 values to q4, 4 a copy of f16. at: for each
 * page the addresses of head 0's f16 numbers and of where they go, and how far the heads of each lie
 * apart. n: numbers of a head. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"

shared float x[1024];
shared float high[64], low[64];
shared uint bad[64];
shared float scales[16]; /* d of each position, as codes are made with */
shared uint finites[16];
shared uint codes[1024];

const bool KEYS = KIND < 2;
const bool Q4 = KIND == 1 || KIND == 3;

float number_at(Words page, uint slot, uint d, uint hd) {
    return from_f16(half_at(page, 2u * (KEYS ? d * 16u + slot : slot * hd + d)));
}

/* The Hadamard transform of each block of numbers. */
void transform(uint me, uint hd) {
    uint block = hd & (~hd + 1u);
    for (uint apart = 1u; apart < block; apart *= 2u) {
        for (uint i = me; i < hd / 2u; i += 64u) {
            uint at = i / apart * 2u * apart + i % apart;
            float a = x[at], b = x[at + apart];
            x[at] = add(a, b);
            x[at + apart] = sub(a, b);
        }
        barrier();
    }
}

/* The extremes of x[hd]. */
void find_extremes(uint me, uint hd) {
    float h = 0.0, l = 0.0;
    uint b = 0u;
    for (uint d = me; d < hd; d += 64u) {
        if (!is_finite(x[d])) b = 1u;
        if (x[d] > h) h = x[d];
        if (x[d] < l) l = x[d];
    }
    high[me] = h;
    low[me] = l;
    bad[me] = b;
    barrier();
    for (uint apart = 32u; apart > 0u; apart /= 2u) {
        if (me < apart) {
            if (high[me + apart] > high[me]) high[me] = high[me + apart];
            if (low[me + apart] < low[me]) low[me] = low[me + apart];
            bad[me] |= bad[me + apart];
        }
        barrier();
    }
}

/* The position's scale: to its place, and what codes are made with. */
void put_scale_8(Words to, uint slot) {
    float amax = max(high[0], negative(low[0]));
    bool finite = bad[0] == 0u, zeros = !finite || amax < uintBitsToFloat(0x0d800000u);
    to.v[slot] = zeros ? (finite ? 0u : 0x7fc00000u) : floatBitsToUint(divide(amax, 127.0));
    scales[slot] = zeros ? 0.0 : divide(127.0, amax);
    finites[slot] = zeros ? 0u : 1u;
}

void put_scale_4(Words to, uint slot, uint hd) {
    float unit = KEYS ? float(hd & (~hd + 1u)) : 1.0;
    bool finite = bad[0] == 0u;
    float m = high[0] >= negative(low[0]) ? high[0] : low[0];
    uint f16 = finite ? to_f16(mul(m, divide(-0.125, unit))) : 0x7e00u;
    float d = mul(from_f16(f16), unit);
    uint shift = (slot & 1u) * 16u; /* two positions in a word, one after the other */
    to.v[slot >> 1] = shift == 0u ? f16 : (to.v[slot >> 1] & 0xffffu) | f16 << 16;
    bool zeros = !finite || d == 0.0;
    scales[slot] = zeros ? 0.0 : divide(1.0, d);
    finites[slot] = zeros ? 0u : 1u;
}

uint code_of(float v, uint slot) {
    if (finites[slot] == 0u) return Q4 ? 8u : 0u;
    float y = mul(v, scales[slot]);
    if (!Q4) return uint(int(clamp(round_even(y), -127.0, 127.0)) & 0xff);
    y = y > 7.0 ? 7.0 : y < -8.0 ? -8.0 : y;
    return uint(int(round_even(y)) + 8);
}

void put_keys(Words to, uint me, uint slot, uint hd) {
    uint dims = (hd + 7u) / 8u * 8u;
    for (uint d = me; d < dims; d += 64u) codes[d] = d < hd ? code_of(x[d], slot) : Q4 ? 8u : 0u;
    barrier();
    uint n = Q4 ? dims / 8u : (hd + 3u) / 4u;
    for (uint i = me; i < n; i += 64u) {
        uint word = 0u;
        for (uint j = 0u; j < 4u; j++) {
            uint code = Q4 ? codes[8u * i + j] | codes[8u * i + 4u + j] << 4 : codes[4u * i + j];
            word |= code << 8u * j;
        }
        to.v[(Q4 ? 8u : 16u) + i * 16u + slot] = word;
    }
    barrier();
}

void put_values(Words from, Words to, uint me, uint hd) {
    uint n = (Q4 ? 2u : 4u) * hd;
    for (uint i = me; i < n; i += 64u) {
        uint four = i / hd, d = i % hd, word = 0u;
        for (uint j = 0u; j < 4u; j++) {
            uint slot = 4u * four + j, code = code_of(number_at(from, slot, d, hd), slot);
            if (Q4) code |= code_of(number_at(from, slot + 8u, d, hd), slot + 8u) << 4;
            word |= code << 8u * j;
        }
        to.v[(Q4 ? 8u : 16u) + i] = word;
    }
}

void main() {
    uint me = gl_LocalInvocationID.x, hd = pc.n[0], head = gl_WorkGroupID.x;
    Words table = Words(pc.at[0]);
    uint at = gl_WorkGroupID.y * 8u;
    Words from = Words(moved(uvec2(table.v[at], table.v[at + 1u]), head * table.v[at + 4u]));
    Words to = Words(moved(uvec2(table.v[at + 2u], table.v[at + 3u]), head * table.v[at + 5u]));
    if (KIND == 4) {
        for (uint i = me; i < hd * 8u; i += 64u) to.v[i] = from.v[i];
        return;
    }
    for (uint slot = 0u; slot < 16u; slot++) {
        for (uint d = me; d < hd; d += 64u) x[d] = number_at(from, slot, d, hd);
        barrier();
        if (KEYS) transform(me, hd);
        find_extremes(me, hd);
        if (me == 0u) {
            if (Q4)
                put_scale_4(to, slot, hd);
            else
                put_scale_8(to, slot);
        }
        barrier();
        if (KEYS) put_keys(to, me, slot, hd);
    }
    if (!KEYS) put_values(from, to, me, hd);
}
