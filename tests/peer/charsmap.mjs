// SentencePiece's compiled normalisation from a list of replacements: a double-array trie as darts-clone writes it.

// node: {children: Map(byte -> node), value}
function trieOf(pairs) {
    const root = {children: new Map(), value: -1};
    const texts = [];
    let at = 0;
    for (const [from, to] of pairs) {
        let node = root;
        for (const byte of Buffer.from(from)) {
            if (!node.children.has(byte)) node.children.set(byte, {children: new Map(), value: -1});
            node = node.children.get(byte);
        }
        node.value = at;
        texts.push(Buffer.from(to + "\0"));
        at += texts.at(-1).length;
    }
    return {root, texts: Buffer.concat(texts)};
}

// Children of a node lie at (place ^ distance) ^ byte, its value at place ^ distance.
function place(root) {
    const units = [0], used = new Set([0]), queue = [[root, 0]];
    for (let base = 1; queue.length;) {
        const [node, at] = queue.shift();
        const labels = [...(node.value >= 0 ? [0] : []), ...node.children.keys()];
        if (!labels.length) continue;
        let b = base;
        while (labels.some((label) => used.has(b ^ label))) b++;
        const distance = at ^ b;
        if (distance >= 1 << 21) throw new Error("the trie is too large for this writer");
        units[at] |= distance << 10 | (node.value >= 0 ? 1 << 8 : 0);
        for (const label of labels) used.add(b ^ label);
        if (node.value >= 0) units[b] = node.value | 0x80000000;
        for (const [byte, child] of node.children) {
            units[b ^ byte] = byte;
            queue.push([child, b ^ byte]);
        }
        while (used.has(base)) base++;
    }
    return Uint32Array.from({length: (units.length | 255) + 1}, (_, i) => (units[i] ?? 0x100) >>> 0);
}

export function charsmap(pairs) {
    const {root, texts} = trieOf(pairs), units = place(root), size = Buffer.alloc(4);
    size.writeUInt32LE(units.byteLength);
    return Buffer.concat([size, Buffer.from(units.buffer), texts]);
}
