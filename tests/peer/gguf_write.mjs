// A GGUF file without tensors from a list of keys, for vocabularies that a comparison makes up.
import fs from "node:fs";

const text = (s) => {
    const bytes = Buffer.from(s), len = Buffer.alloc(8);
    len.writeBigUInt64LE(BigInt(bytes.length));
    return Buffer.concat([len, bytes]);
};
const u32 = (n) => {
    const out = Buffer.alloc(4);
    out.writeUInt32LE(n);
    return out;
};
const u64 = (n) => {
    const out = Buffer.alloc(8);
    out.writeBigUInt64LE(BigInt(n));
    return out;
};
const numbers = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);
const array = (type, count, bytes) => Buffer.concat([u32(9), u32(type), u64(count), bytes]);

// Texts, flags, numbers (u32), and arrays: of texts, Float32Array, Int32Array, Uint8Array.
function value(v) {
    if (typeof v === "string") return Buffer.concat([u32(8), text(v)]);
    if (typeof v === "boolean") return Buffer.concat([u32(7), Buffer.from([v ? 1 : 0])]);
    if (typeof v === "number") return Buffer.concat([u32(4), u32(v)]);
    if (v instanceof Float32Array) return array(6, v.length, numbers(v));
    if (v instanceof Int32Array) return array(5, v.length, numbers(v));
    if (v instanceof Uint8Array) return array(0, v.length, numbers(v));
    return array(8, v.length, Buffer.concat(v.map(text)));
}

export function writeKeys(keys, file) {
    const pairs = Object.entries(keys);
    fs.writeFileSync(file, Buffer.concat([Buffer.from("GGUF"), u32(3), u64(0), u64(pairs.length),
        ...pairs.map(([key, v]) => Buffer.concat([text(key), value(v)]))]));
}
