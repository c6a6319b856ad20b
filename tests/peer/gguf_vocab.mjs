// The metadata of a GGUF file, as much as tokenizer comparisons need: values by key, and a copy of the file with
// another tokenizer.ggml.pre (for files without tensors).
import fs from "node:fs";

const scalars = {
    0: ["readUInt8", 1], 1: ["readInt8", 1], 2: ["readUInt16LE", 2], 3: ["readInt16LE", 2], 4: ["readUInt32LE", 4],
    5: ["readInt32LE", 4], 6: ["readFloatLE", 4], 7: ["readUInt8", 1], 10: ["readBigUInt64LE", 8],
    11: ["readBigInt64LE", 8], 12: ["readDoubleLE", 8],
};

export function readVocab(file) {
    const data = fs.readFileSync(file), values = {}, at = {};
    let pos = 24;
    const number = (type) => {
        const [method, size] = scalars[type], value = data[method](pos);
        pos += size;
        return typeof value === "bigint" ? Number(value) : value;
    };
    const string = () => {
        const len = number(10);
        pos += len;
        return data.toString("utf8", pos - len, pos);
    };
    const value = (type) => {
        if (type === 8) return string();
        if (type !== 9) return number(type);
        const element = number(4), count = number(10);
        return Array.from({length: count}, () => value(element));
    };
    for (let n = Number(data.readBigUInt64LE(16)); n > 0; n--) {
        const key = string(), type = number(4), begin = pos;
        values[key] = value(type);
        at[key] = [begin, pos];
    }
    return {data, values, at};
}

export function writeWithPre(vocab, pre, file) {
    if (Number(vocab.data.readBigUInt64LE(8)) !== 0) throw new Error("the file has tensors");
    const [begin, end] = vocab.at["tokenizer.ggml.pre"], len = Buffer.alloc(8);
    len.writeBigUInt64LE(BigInt(Buffer.byteLength(pre)));
    fs.writeFileSync(file, Buffer.concat([vocab.data.subarray(0, begin), len, Buffer.from(pre), vocab.data.subarray(end)]));
}
