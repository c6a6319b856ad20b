/* One split of one query (NUMERICS, 9).
 *
 * KIND: 0 all pages are read in f16, 1 some are quantised. at: queries, for each token (first and
 * end of what it sees, its sequence's pages from the first on, the end of its quantised pages), for
 * each page the addresses of head 0's keys and values in f16 and quantised, how far the heads of each lie
 * apart, and how many of its split's first pages are pressed (256 * their keys' form, 1024 * their values'),
 * results (m, l, o),
 * codes of queries. n: tokens, heads, of a group, numbers of a key and of a value, bits of the cap,
 * the first token and split here, forms (keys',
 * 4 * values', 16: page 0 stays f16), splits. */
#version 460
#extension GL_GOOGLE_include_directive : require
#include "exact.glsl"

shared float p[256];
shared float most[64];
shared int code[256];
shared float group_scale[8];
shared float lanes[16];

const uint PAGE_WORDS = 13u;

/* kind: 0 keys, 1 values, 2 and 3 the same quantised */
Words page_at(uint index, uint kind, uint kv_head) {
    Words table = Words(pc.at[2]);
    uint at = index * PAGE_WORDS, apart = table.v[at + 8u + kind];
    return Words(moved(uvec2(table.v[at + 2u * kind], table.v[at + 2u * kind + 1u]), kv_head * apart));
}

uint forms() { return pc.n[8]; }

float page_scale(Words page, uint form, uint slot) {
    return form == 2u ? from_f16(half_at(page, 2u * slot)) : uintBitsToFloat(page.v[slot]);
}

float f16_score(Words page, uint q_at, uint slot, uint hd) {
    Floats q = Floats(pc.at[0]);
    float s = opaque_zero();
    for (uint d = 0u; d < hd; d++)
        s = fma_exact(q.v[q_at + d], from_f16(half_at(page, 2u * (d * 16u + slot))), s);
    return s;
}

/* Two words of key codes for eight dimensions, of either form. */
int eight_products(Words page, uint form, uint slot, uint i, uint q0, uint q1, bool second) {
    if (form == 2u) {
        uint w = page.v[8u + i * 16u + slot];
        uint lo = ((w & 0x0f0f0f0fu | 0x80808080u) - 0x08080808u) ^ 0x80808080u;
        uint hi = ((w >> 4 & 0x0f0f0f0fu | 0x80808080u) - 0x08080808u) ^ 0x80808080u;
        return dot4(q0, lo) + dot4(q1, hi);
    }
    int sum = dot4(q0, page.v[16u + 2u * i * 16u + slot]);
    return second ? sum + dot4(q1, page.v[16u + (2u * i + 1u) * 16u + slot]) : sum;
}

float quantised_score(Words page, uint form, uint codes_at, uint slot, uint hd) {
    Words q = Words(pc.at[4]);
    float q_scale = uintBitsToFloat(q.v[codes_at + (hd + 7u) / 8u * 2u]);
    float k_scale = page_scale(page, form, slot);
    int sum = 0;
    if (form == 2u) k_scale = mul(k_scale, float(hd & -hd));
    for (uint i = 0u; i < (hd + 7u) / 8u; i++)
        sum += eight_products(page, form, slot, i, q.v[codes_at + 2u * i],
                              q.v[codes_at + 2u * i + 1u], 8u * i + 4u < hd);
    return mul(float(sum), mul(q_scale, k_scale));
}

/* The products of a page's codes with the weights of its positions, for number d of hv. */
int page_products(Words page, uint form, uint first, uint hv, uint d) {
    int sum = 0;
    for (uint quad = 0u; quad < 4u; quad++) {
        uint w = form == 2u ? page.v[8u + (quad & 1u) * hv + d] >> (quad >= 2u ? 4u : 0u)
                            : page.v[16u + quad * hv + d];
        for (uint i = 0u; i < 4u; i++) {
            int by = int(8u * i);
            int x = form == 2u ? bitfieldExtract(int(w & 0x0f0f0f0fu), by, 8) - 8
                               : bitfieldExtract(int(w), by, 8);
            sum += code[first + 4u * quad + i] * x;
        }
    }
    return sum;
}

/* The weights of 32 positions as codes. */
void code_group(uint g, float w[32]) {
    float amax = 0.0;
    bool finite = true;
    for (uint i = 0u; i < 32u; i++) {
        float magnitude = uintBitsToFloat(floatBitsToUint(w[i]) & 0x7fffffffu);
        if (!is_finite(w[i])) finite = false;
        if (magnitude > amax) amax = magnitude;
    }
    bool zeros = !finite || amax < uintBitsToFloat(0x0d800000u);
    float inverse = zeros ? 0.0 : divide(127.0, amax);
    for (uint i = 0u; i < 32u; i++)
        code[32u * g + i] =
            zeros ? 0 : int(clamp(round_even(mul(w[i], inverse)), -127.0, 127.0));
    group_scale[g] = zeros ? uintBitsToFloat(finite ? 0u : 0x7fc00000u) : divide(amax, 127.0);
}

void main() {
    uint head = gl_WorkGroupID.x, t = gl_WorkGroupID.y + pc.n[6], me = gl_LocalInvocationID.x;
    uint split = gl_WorkGroupID.z + pc.n[7], hd = pc.n[3], hv = pc.n[4], group = pc.n[2];
    Words token = Words(pc.at[1]);
    int begin = int(split * 256u), from = int(token.v[4u * t]), to = int(token.v[4u * t + 1u]);
    uint pages = token.v[4u * t + 2u] + split * 16u, kv_head = head / group;
    int lo = max(from - begin, 0), hi = min(to - begin, 256);
    if (lo >= hi) return;
    uint q_row = (kv_head * pc.n[0] + t) * group + head % group, q_at = q_row * hd;
    /* the split's pages from q_from to q_end - 1 are read quantised */
    int q_end = KIND == 0 ? 0 : clamp(int(token.v[4u * t + 3u]) - int(split * 16u), 0, 16);
    int q_from = (forms() & 16u) != 0u && split == 0u ? 1 : 0;
    uint k_form = forms() & 3u, v_form = forms() >> 2 & 3u;
    uint pressed = KIND == 0 ? 0u : Words(pc.at[2]).v[(pages + uint(lo) / 16u) * PAGE_WORDS + 12u];
    if (pressed != 0u) {
        q_from = 0;
        q_end = int(pressed & 255u);
        k_form = pressed >> 8 & 3u;
        v_form = pressed >> 10 & 3u;
    }
    float cap = uintBitsToFloat(pc.n[5]);
    float top = uintBitsToFloat(0xff800000u);
    for (int slot = lo + int(me); slot < hi; slot += 64) {
        int page = slot / 16;
        float s;
        if (KIND == 1 && k_form != 0u && page >= q_from && page < q_end) {
            uint codes = q_row * (((hd + 7u) / 8u * 8u + 8u + 15u) / 16u * 4u);
            s = quantised_score(page_at(pages + uint(page), 2u, kv_head), k_form, codes,
                                uint(slot % 16), hd);
        } else {
            s = f16_score(page_at(pages + uint(page), 0u, kv_head), q_at, uint(slot % 16), hd);
        }
        if (cap != 0.0) s = softcap(s, cap);
        p[slot] = s;
        if (s > top) top = s;
    }
    most[me] = top;
    barrier();
    for (uint apart = 32u; apart > 0u; apart /= 2u) {
        if (me < apart && most[me + apart] > most[me]) most[me] = most[me + apart];
        barrier();
    }
    float m = most[0];
    if (floatBitsToUint(m) == 0x80000000u) m = 0.0;
    for (int slot = lo + int(me); slot < hi; slot += 64) p[slot] = exp_exact(sub(p[slot], m));
    barrier();
    if (me < 16u) {
        float sum = opaque_zero();
        for (int slot = int(me); slot < hi; slot += 16)
            if (slot >= lo) sum = add(sum, p[slot]);
        lanes[me] = sum;
    }
    bool values_too = KIND == 1 && v_form != 0u;
    if (values_too && me < 8u) {
        float w[32];
        for (int i = 0; i < 32; i++) {
            int slot = int(32u * me) + i, page = slot / 16;
            w[i] = 0.0;
            if (slot < lo || slot >= hi || page < q_from || page >= q_end) continue;
            float scale = page_scale(page_at(pages + uint(page), 3u, kv_head), v_form, uint(slot % 16));
            w[i] = mul(p[slot], scale);
        }
        code_group(me, w);
    }
    barrier();
    Floats result = Floats(pc.at[3]);
    uint at = ((gl_WorkGroupID.y * pc.n[1] + head) * pc.n[9] + gl_WorkGroupID.z) * (hv + 2u);
    if (me == 0u) {
        result.v[at] = m;
        result.v[at + 1u] = tree_sum(lanes);
    }
    int first = lo / 16, end = (hi + 15) / 16;
    for (uint d = me; d < hv; d += 64u) {
        float o = opaque_zero();
        for (int g = 0; values_too && g < 8; g++) {
            int sum = 0;
            for (int page = max(max(2 * g, q_from), first); page < min(min(2 * g + 2, q_end), end); page++)
                sum += page_products(page_at(pages + uint(page), 3u, kv_head), v_form, 16u * uint(page), hv, d);
            o = fma_exact(group_scale[g], float(sum), o);
        }
        for (int page = first; page < end; page++) {
            if (values_too && page >= q_from && page < q_end) continue;
            Words v = page_at(pages + uint(page), 1u, kv_head);
            for (int slot = max(lo, 16 * page); slot < min(hi, 16 * page + 16); slot++)
                o = fma_exact(p[slot], from_f16(half_at(v, 2u * (uint(slot % 16) * hv + d))), o);
        }
        result.v[at + 2u + d] = o;
    }
}
