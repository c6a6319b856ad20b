/* Which rows of activations a workgroup multiplies with which weights, and where a result goes.
 *
 * Without a table all tokens have the weights at[0] and the bias at[3]. With one (n[9] & 4) a workgroup has a run of
 * slots with weights of their own: at[5] says for each run, in 8 words, the addresses of weights and bias, the first
 * slot and how many there are. at[6] says whose activations a slot reads (n[9] & 8), else it has a row of its own. */
struct Run {
    uvec2 weights, bias;
    uint first, n;
};

/* Of the workgroup; `most` tokens without a table. */
Run run_here(uint most) {
    uint y = gl_WorkGroupID.y;
    if ((pc.n[9] & 4u) == 0u) return Run(pc.at[0], pc.at[3], y * most, min(most, pc.n[10] - y * most));
    Quads words = Quads(moved(pc.at[5], 32u * y));
    return Run(words.v[0].xy, words.v[0].zw, words.v[1].x, words.v[1].y);
}

uint act_row(uint slot) { return (pc.n[9] & 8u) != 0u ? Words(pc.at[6]).v[slot] : slot; }

void put_result(Run run, uint t, uint r, float y) {
    if ((pc.n[9] & 1u) != 0u) y = add(y, Floats(run.bias).v[r]);
    if ((pc.n[9] & 2u) != 0u) y = add(y, Floats(pc.at[4]).v[t * pc.n[8] + r]);
    Floats(pc.at[2]).v[t * pc.n[7] + r] = y;
}
